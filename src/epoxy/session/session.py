"""The interactive loop without any interface: edit a source, label a row, and every label is current.

A session holds a `SessionState` (what was decided), one model's engine (what it keeps between two edits) and
the `Outcome` (what follows). Every edit takes the same way: apply it to the state, bring the engine
in step, write it down, and only then let anybody see it. An edit that fails on the way changes nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..engines import Engine, Outcome, engine_of, scores_of
from ..errors import EpoxyError, ParameterError, UnknownName
from ..extension import Setting
from ..loans import Neighbourhood, Neighbours
from ..progress import Progress, silent, waiting
from ..votes import Split
from ..workspace import SPLITS, Workspace
from .edits import Append, Edit, Label, Radii, Remove, SetVotes, Switch, known
from .labels import check_words
from .log import Behind
from .shown import SessionView
from .state import Change, History, Moment, SessionState, Step, Trial, Written, change_between

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..functions.kinds import Form
    from ..project.project import Folder
    from ..suggest import Draft, Found, FunctionSuggestion, RowQuery, Suggestion
    from ..suggest.new_functions import Vocabulary
    from .curves import RadiusCurve
    from .tune import Tuned


class Session(SessionView):
    """A train split, a dev split and one model, always in step.

    Parameters
    ----------
    train, dev
        Splits with the same sources. The true labels of dev teach the model and are scored against;
        those of train are never read: give them with `label`.
    model
        What labels the rows: `Fusion()` (the default), `Epoxy(...)` for the paper's pipeline with any
        label model, or anything with `fit(train, dev)` and `predict_proba(split)`, which is refitted
        whole at every edit.
    positive
        The class that F1, precision and recall are of.
    rows
        The rows behind the splits (a frame, or one for each split), for `add` to vote on.
    cache
        A folder in which neighbours are kept, by content.
    neighbours
        "exact", "approximate", or "auto": approximate above 30,000 distinct vectors, where most of the
        neighbours are found, their share is measured, and rows with no vote of a source among them
        borrow nothing from it. `neighbors.Settings` sets the recall wanted.
    labels
        The train split with hand labels on its own rows, where rows must stay in their place.
    reliability
        How often labellers who may err are right, by name.
    folder
        The project behind the session, whose decisions are taken up; `Session.open` gives it.
    new
        Other rows that are to be labelled, and nothing else.

    Examples
    --------
    >>> from epoxy import Epoxy
    >>> votes = Votes([[1, 1, -1], [-1, -1, 1], [0, -1, 0], [-1, 0, -1]] * 20, sources="abc")
    >>> train = Split(votes, [[1.0, 0.1], [1.0, 0.2], [0.1, 1.0], [0.2, 1.0]] * 20)
    >>> session = Session(train, model=Epoxy(radius=0.0))
    >>> change = session.set_radius("a", 0.1)
    >>> change.coverage
    (0.5, 1.0)
    >>> session.undo().what
    'undo radius of a'
    """

    _vocabulary: Vocabulary | None = None

    def __init__(
        self,
        train: Split,
        dev: Split | None = None,
        model: Any = None,
        *,
        positive: str | None = None,
        rows: Any = None,
        cache: str | Path | None = None,
        neighbours: Neighbours = "auto",
        progress: Progress = silent,
        labels: Split | None = None,
        reliability: Mapping[str, float] | None = None,
        folder: Folder | None = None,
        new: Split | None = None,
    ) -> None:
        if positive is not None and positive not in train.classes:
            raise UnknownName.of("class", positive, train.classes)
        if model is None:
            from ..fusion import Fusion

            model = Fusion()
        self.model_template = model
        self.classes, self.positive = train.classes, positive
        self.folder = folder
        self._rows = rows
        self.lock = threading.RLock()
        """Held while an edit is made; hold it to read several things of one moment."""
        self._watchers: list[Callable[[Change], None]] = []
        self._engine: Engine = engine_of(self.model_template)
        self._is_learning = False
        splits = tuple(each for each in (train, dev, new) if each is not None)
        near = Neighbourhood.over(
            splits,
            self._engine.metric,
            apart=self._engine.apart,
            cache=None if cache is None else Path(cache),
            found=neighbours,
            progress=progress,
        )
        settings = self._engine.settings(train.votes.sources)
        workspace = Workspace.over(train, dev, near, settings, new)
        if labels is not None:
            workspace = replace(workspace, labels=workspace.labels.with_train(labels))
        number = 0
        if folder is None:
            files = SPLITS[: 1 + (dev is not None)]
            state = SessionState.begun(workspace, files, (), reliability or {})
        else:  # opened again is as if never closed: the state its log ends with
            state = SessionState.begun(
                workspace, folder.rows.files, folder.rows.by, folder.project.labellers
            )
            decided, number = folder.decided(state)
            state, _ = decided.apply(state)
        with self._told("fitting", state):
            self._now = self._moment(state, number=number)

    def _moment(self, state: SessionState, **about: Any) -> Moment:
        """What the model makes of a state; an engine that was interrupted at work is not asked again."""
        if self._is_learning:
            self._engine = engine_of(self.model_template)
        self._is_learning = True
        outcome = self._engine.update(state.workspace)
        self._is_learning = False
        return Moment(state, outcome, scores_of(outcome, self.positive), **about)

    @classmethod
    def open(
        cls,
        folder: str | Path,
        *,
        model: Any = None,
        empty: bool = False,
        progress: Callable[[str], Progress] | None = None,
    ) -> Self:
        """Open a project folder: vote, embed, and go on where the last session stopped.

        `model`: "fusion" or "epoxy" as the project sets them, or one of yours; `empty`: no functions yet.
        """
        from ..project.project import open_session

        return open_session(cls, folder, model=model, empty=empty, progress=progress)

    def subscribe(self, watcher: Callable[[Change], None]) -> Callable[[], None]:
        """Call `watcher` with every `Change`; returns a function that ends it."""
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    # editing

    def set_votes(self, source: str, column: Any, *, dev: Any = None) -> Change:
        """Replace one source's votes (or add a source): what an edit of its function does.

        `column` holds one vote per train row, as class indices with −1 or as names with None; `dev`
        the same for the dev rows, where the source's votes stay as they are when not given.
        """
        return self.apply(SetVotes(_named(source), (column, dev)))

    def set_radius(self, source: str | None, radius: Setting) -> Change:
        """Let a source (None: all of them) lend as far as `radius`; None: not at all; "auto": by rule."""
        names = self.sources if source is None else (_named(source),)
        words = "" if source is not None else "radius of all"
        return self.apply(Radii(dict.fromkeys(names, radius), words))

    def set_radii(self, radii: Mapping[str, Setting], what: str = "radii") -> Change:
        """Set several radii in one edit."""
        return self.apply(Radii(dict(radii), what))

    def switch(self, source: str, on: bool) -> Change:
        """Switch a source off (its votes stay known) or on again."""
        if not isinstance(on, bool | np.bool_):
            raise ParameterError(
                f"a source is switched on or off, got {on!r:.60}; give True or False"
            )
        return self.apply(Switch(_named(source), bool(on)))

    def remove(self, source: str) -> Change:
        """Forget a source until the project is opened again; to keep a function out, switch it off."""
        return self.apply(Remove(_named(source)))

    def label(
        self,
        row: Any,
        label: str | None,
        split: str = "train",
        *,
        by: str | None = None,
        chosen: str | None = None,
    ) -> Change:
        """Give (or with None take back) the label of a row; the model learns from it at once.

        `by` names a labeller who may err (None: the person at the keyboard, who is believed); `chosen`
        says how the row was picked: "random", another word, or None for not known. A word that is
        nearly "random" is kept as it is, with a warning.
        """
        check_words(by, chosen)
        place = self._now.state.names.place(self._split_number(split), row)
        file, name = self._now.state.names.name(place)
        content = None if self.folder is None else self.folder.content(place)
        return self.apply(Label(file, name, label, by, chosen, content=content))

    def append(self, more: Split) -> Change:
        """Add train rows, with a vote of every source, a vector and an id of its own (or none) each."""
        return self.apply(Append(more))

    def add(self, lf: Any, rows: Any = None) -> Change:
        """Vote with a labeling function on the session's rows (or on those given), and add its votes."""
        from .edits import votes_of

        return self.apply(votes_of(lf, self._rows if rows is None else rows, self._now.state))

    def reload(self, *, record: bool = True) -> Change | None:
        """Run lfs.py and what it imports again; only functions whose meaning changed vote again.

        None where nothing changed, and with `record=False`, which writes nothing to the log: for who
        only follows what others save.
        """
        with self.lock:
            return self.need_folder("reload").reload(self, record=record)

    def catch_up(self) -> tuple[str, ...]:
        """Take up what other sessions of the project decided since; returns what that is, in words."""
        with self.lock:
            return self.need_folder("catch_up").catch_up(self)

    def tune(self, scoring: str | None = None, **options: Any) -> Tuned:
        """Choose on the hand labels what the model leaves open: radii and balance of `Epoxy`."""
        from .tune import tune_session

        return tune_session(self, scoring, **options)

    def export(self, path: str | Path, kind: str | None = None, **options: Any) -> Path:
        """Write every row with its label, from a refit of the current state from scratch.

        `columns=` names columns of the rows to write as well; `raw=True` leaves CSV cells as they are.
        """
        from .export import export

        return export(self, path, kind, **options)

    def curve(self, source: str, points: int = 60) -> RadiusCurve:
        """How many rows a source reaches at growing radii, and how often its lent votes are right.

        Read off the distances to the rows that lend, on rows labelled by hand; nothing is fitted.
        """
        from .curves import curve_of

        workspace = self._now.state.workspace
        return curve_of(workspace, known(workspace, source), points)

    def browse(self, query: RowQuery) -> Found:
        """The numbers of the rows that match a question, in its order, and how many each filter keeps."""
        from ..suggest.search import browse

        return browse(self, query)

    def next(
        self,
        n: int = 10,
        purpose: str = "mix",
        *,
        seed: int = 0,
        among: Sequence[int] | None = None,
        without: Iterable[int] = (),
    ) -> tuple[Suggestion, ...]:
        """Rows to look at next, each with its reason in words and what to pass as `chosen`.

        Parameters
        ----------
        purpose
            `teach` (the model is unsure of them and of rows around them), `score` (drawn at random),
            `cover` (nobody votes there), `conflict` (own votes name different classes), `check` (hand
            labels that look wrong, then votes that look wrong), or `mix`: seven that teach to three
            drawn at random.
        seed
            Settles which of rows that would tell the same comes first; what is drawn at random is the
            project's own.
        among
            Numbers of the rows to choose from, as `browse` gives them; None for all.
        without
            Numbers of rows that shall not come: those somebody skipped.
        """
        from ..suggest.next_rows import suggest

        with self.lock:
            return suggest(self, n, purpose, seed, among, without)

    @property
    def vocabulary(self) -> Vocabulary:
        """The words and halves of the rows, made when functions are first suggested."""
        from ..suggest.new_functions import Vocabulary

        if self._vocabulary is None or not self._vocabulary.fits(self._now.state.workspace):
            self._vocabulary = Vocabulary(self)
        return self._vocabulary

    def suggest(
        self,
        n: int = 5,
        *,
        label: str | None = None,
        rows: Any = None,
        conflict: bool | Sequence[str] = False,
        kinds: Sequence[str] = ("keywords", "regex", "like"),
    ) -> tuple[FunctionSuggestion, ...]:
        """Functions that could be added, each with what it would vote on and how often it is right.

        Found from hand labels, from what the model makes of other rows and from the words of the rows,
        on one half of them, and judged on the other half. Each next one counts what it adds beyond the
        functions there are and the suggestions before it. `save_function(each.definition, each.name)`
        takes one.

        Parameters
        ----------
        label
            For one class only; else classes take turns.
        rows
            For a region: numbers of the rows on which functions are wanted.
        conflict
            For rows on which sources quarrel: True, or the names of two that do.
        kinds
            Of `keywords`, `regex` and `like` those that are wanted.
        """
        from ..suggest.new_functions import suggest_functions

        with self.lock:
            return suggest_functions(
                self, n, label=label, rows=rows, conflict=conflict, kinds=kinds
            )

    def suggest_radius(self, rows: Sequence[int]) -> float:
        """A radius to begin with for `like` these rows, given by number."""
        from ..suggest.search import suggest_radius

        if not len(rows):
            raise ParameterError("a radius is suggested for rows, and none was given; give some")
        places = [self.place(int(each)) for each in rows]
        return suggest_radius(self._now.state.workspace.near, places)

    def draft(
        self,
        definition: Mapping[str, Any] | Form,
        name: str | None = None,
        replaces: str | None = None,
    ) -> Draft:
        """What a function would do that nobody saved; nothing is kept.

        `definition` is one as `epoxy.functions.kinds` has them: words, a pattern, example rows or Python
        code. `replaces` names the source it would take the place of. What is wrong with it, and on
        which of its lines, is in the draft's `error`.
        """
        from ..suggest.drafts import draft

        with self.lock:
            return draft(self, definition, name, replaces)

    def save_function(
        self, definition: Mapping[str, Any] | Form, name: str, replaces: str | None = None
    ) -> Change | None:
        """Write a function to the project's lfs.py, all else in it as it is, and vote with it.

        Undo takes the function out of the file again, as long as nobody has changed the file since.
        None where it changes no vote.
        """
        from ..suggest.drafts import save

        with self.lock:
            return save(self, definition, name, replaces)

    def save_code(self, text: str, expecting: str) -> Change | None:
        """Write lfs.py whole, if it is still the one with the hash `expecting`, and vote with what changed.

        Code that does not run is written all the same, as by any editor: a `CodeError` says where it
        fails, and the labels stay those of the last one that ran.
        """
        from ..suggest.drafts import save_code

        with self.lock:
            return save_code(self, text, expecting)

    def undo(self) -> Change:
        """Take back the last edit of this session; those of earlier ones stay."""
        with self.lock:
            self._follow()
            step = self._now.history.last()
            self._rewrite(step, back=True)
            return self._run(step.inverse, f"undo {step.what}", step)

    def redo(self) -> Change:
        """Do the edit again that was taken back last."""
        with self.lock:
            self._follow()
            step = self._now.history.next()
            self._rewrite(step, back=False)
            return self._run(step.edit, f"redo {step.what}", step, undoing=False)

    def apply(self, edit: Edit) -> Change:
        """Do an edit: the one way in which anything changes."""
        with self.lock:
            return self._run(edit, None)

    def trial(self, edit: Edit) -> Trial:
        """All that an edit would lead to; nothing is kept."""
        with self.lock:
            start = time.perf_counter()
            now = self._now
            state, _ = edit.apply(now.state)
            then = self._moment(state, version=now.version + 1)
            change = change_between(now, then, edit, _words(edit, now.state), start)
            return Trial(change, then.outcome, state, then.scores)

    def preview(self, edit: Edit) -> Change:
        """The difference an edit would make; nothing is kept."""
        return self.trial(edit).change

    def refit(self) -> Outcome:
        """The current state, worked out from scratch: what `label` and `export` write."""
        with self.lock:
            if not self._now.version:  # nothing was edited since it was
                return self._now.outcome
            with self._told("fitting", self._now.state):
                return engine_of(self.model_template).update(self._now.state.workspace)

    def _told(self, what: str, state: SessionState) -> AbstractContextManager[None]:
        """Report of work on all rows that it goes on, where a project says how."""
        rows = sum(each.n_rows for each in state.workspace.splits)
        return waiting(silent if self.folder is None else self.folder.report(what), rows)

    # the one way of an edit

    def _run(
        self,
        edit: Edit,
        what: str | None,
        step: Step | None = None,
        *,
        undoing: bool = True,
        mine: bool = True,
        written: Written | None = None,
    ) -> Change:
        start = time.perf_counter()
        try:
            while True:
                self._follow()
                if step is not None and self.folder is not None:
                    self.folder.check_undo(step.number, step.edit)
                now = self._now
                words = _words(edit, now.state) if what is None else what
                state, inverse = edit.apply(now.state)
                then = self._moment(state, version=now.version + 1, number=now.number + 1)
                history = now.history
                if step is not None:
                    history = history.undone() if undoing else history.redone(then.number)
                elif mine:
                    history = history.done(Step(edit, inverse, words, then.number, written))
                then = replace(then, history=history)
                try:
                    if self.folder is not None:
                        taken = step.number if step is not None and undoing else None
                        self.folder.record(edit, inverse, words, taken, after=now.number)
                    break
                except Behind:  # another session was quicker: see what it did first
                    continue
            change = change_between(now, then, edit, words, start)
            self._now = then  # durable first, then visible
        except BaseException:
            with suppress(EpoxyError):
                self._follow()  # what was written before it was interrupted is taken up as another's is
            raise
        for watcher in tuple(self._watchers):
            watcher(change)
        return change

    def apply_outside(self, edit: Edit, written: Written | None = None) -> Change:
        """Do an edit that follows from lfs.py; undo takes it back only where this session wrote it."""
        with self.lock:
            return self._run(edit, None, mine=written is not None, written=written)

    def _rewrite(self, step: Step, *, back: bool) -> None:
        """Where a step came from a file this session wrote, put back what the file held."""
        if step.written is not None and self.folder is not None:
            self.folder.check_undo(step.number, step.edit)
            self.folder.rewrite(step.written, back=back)

    def _follow(self) -> None:
        if self.folder is not None:
            self.folder.catch_up(self)

    def follow(
        self, edit: Edit | None, number: int | None = None, history: History | None = None
    ) -> None:
        """Take up what the log says up to a record; `history` is the way back after it."""
        now = self._now
        about: dict[str, Any] = {"number": number or now.number, "history": history or now.history}
        if edit is None:
            self._now = replace(now, **about)
            return
        state, _ = edit.apply(now.state)
        self._now = self._moment(state, version=now.version + 1, **about)

    def need_folder(self, verb: str) -> Folder:
        """The project behind the session, for what only a project can do."""
        if self.folder is None:
            raise ParameterError(
                f"{verb} is about a project folder, and this session has none; "
                "use Session.open(DIR), or add(lf)"
            )
        return self.folder


def _named(source: Any) -> str:
    if not isinstance(source, str):
        raise ParameterError(f"a source is named by text, got {source!r:.60}; give its name")
    return source


def _words(edit: Edit, state: SessionState) -> str:
    """What an edit is called; a source that comes is added."""
    if isinstance(edit, SetVotes) and state.workspace.source(edit.name) is None:
        return f"add {edit.name}"
    return edit.about.what
