"""What stands behind a session opened from a project folder: its rows, its functions and its log."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from msgspec import structs

from .. import mapped
from ..engines import engine_of
from ..errors import EpoxyError, FileChanged, ParameterError, few
from ..extension import AUTO
from ..functions.apply import Failure
from ..functions.lfs_file import FunctionsFile
from ..loans import Neighbourhood
from ..progress import Progress, bar, silent
from ..running import Limits, Loaded, Runner
from ..session.edits import (
    Edit,
    Label,
    Radii,
    Remove,
    SetBalance,
    SetVotes,
    Several,
    Switch,
    edit_from_json,
    like_votes,
    settings_of,
    several,
    simple_edits,
)
from ..session.labels import Place
from ..session.log import Log, LogRecord
from ..session.state import History, RowNames, SessionState, Step, Written
from ..storage import open_regular, private, read_arrays, write_arrays
from ..votes import ABSTAIN, Split, Votes
from ..workspace import Source, Workspace
from .read import ProjectRows, read_project, ready_made, twice, with_new_rows
from .settings import FILES, Project
from .vectors import read_vectors
from .voting import voted

if TYPE_CHECKING:
    from ..session.session import Session
    from ..session.state import Change


@dataclass(eq=False)
class Folder:
    """A project folder in use."""

    project: Project
    rows: ProjectRows
    runner: Runner
    log: Log
    loaded: Loaded
    failures: tuple[Failure, ...] = ()
    notes: list[str] = field(default_factory=list)
    report: Callable[[str], Progress] = lambda what: silent  # a callback from what is being done
    touched: dict[tuple[str, ...], int] = field(default_factory=dict)  # by others, and when
    drafts: Runner | None = None  # runs functions that are not in lfs.py yet
    unread: str = ""  # why lfs.py could not be run when it was last looked at
    _followed: set[Place] = field(default_factory=set)  # rows that labels of the log were given to
    _unused: dict[str, dict[str, None]] = field(default_factory=dict)  # labels, by why, in order

    def content(self, place: Place) -> str | None:
        """A fingerprint of a row's content; None where an id column names rows."""
        if self.project.id is not None:
            return None
        at, row = place
        return self.rows.content(at, row)

    # the log

    def decided(self, state: SessionState) -> tuple[Edit, int]:
        """What brings a fresh state to where the log ends, and the number of its last record."""
        latest: dict[tuple[str, ...], Edit] = {}
        number = 0
        for record in self.log.records():
            number = record.number
            for edit in simple_edits(edit_from_json(record.edit)):
                for key in edit.about.touches:
                    latest.pop(key, None)
                    latest[key] = edit
        edits = (self._usable(edit, state) for edit in latest.values())
        return Several(tuple(edit for edit in edits if edit), "what was decided before"), number

    def catch_up(self, session: Session) -> tuple[str, ...]:
        """Take up what was decided since the last look; returns what that is, in words.

        By others, or by this session where it was interrupted between writing and showing an edit.
        """
        edits, words = [], []
        number, history = session.last_edit, session.history
        for record in self.log.records(number):
            number = record.number
            words.append(record.what)
            edit = edit_from_json(record.edit)
            if record.who == self.log.who:
                history = _with_own(history, record, edit)
            for each in simple_edits(edit):
                if record.who != self.log.who:
                    self.touched |= dict.fromkeys(each.about.touches, number)
                if (usable := self._usable(each, session.state)) is not None:
                    edits.append(usable)
        if words:
            found = Several(tuple(edits), "what others decided") if edits else None
            session.follow(found, number, history)
        return tuple(words)

    def record(
        self, edit: Edit, inverse: Edit, what: str, undoes: int | None, *, after: int
    ) -> None:
        """Write an edit down as the record after one; raises `Behind` where others wrote unseen."""
        self.log.append(edit.to_json(), inverse.to_json(), what, undoes, after=after)

    def check_undo(self, number: int, edit: Edit) -> None:
        """Refuse to take back what somebody else has decided anew since."""
        for key in edit.about.touches:
            if max(self.touched.get(key, 0), self.touched.get(key[:2], 0)) > number:
                about = (
                    f"{key[0]} of {key[2] if key[0] == 'label' else key[1]}" if key[1:] else key[0]
                )
                raise ParameterError(
                    f"the {about} was decided anew by another session since; "
                    "undo would overwrite it: set it yourself if you want it back"
                )

    def _usable(self, edit: Edit, state: SessionState) -> Edit | None:
        """An edit of the log, if what it is about is still there; a note says so where it is not."""
        if isinstance(edit, Label):
            return self._labelled(edit, state)
        if isinstance(edit, SetBalance):
            usable = edit.shares is None or len(edit.shares) == len(state.workspace.classes)
            return edit if usable else None
        known = {source.name for source in state.workspace.sources}
        if isinstance(edit, Switch):
            return edit if edit.name in known else None
        if isinstance(edit, Radii):
            kept = {name: radius for name, radius in edit.radii.items() if name in known}
            return structs.replace(edit, radii=kept) if kept else None
        return None

    def _labelled(self, edit: Label, state: SessionState) -> Edit | None:
        """A label where its row is now, if row and class are still there; a note where they are not."""
        names = state.names
        for file in (edit.file,) if edit.file else dict.fromkeys(names.files):
            place = names.find(file, edit.row)
            if self.project.id is None and edit.content is not None:
                place = self.rows.follow(edit.content, file, place, self._followed)
            if place is not None:
                break
        if edit.label is not None and edit.label not in state.workspace.classes:
            self._note(f"labelled {edit.label!r}, which [classes] does not name any more", edit.row)
            return None
        if place is None:
            if edit.label is not None:
                self._note("labelled, and not in the files any more", edit.row)
            return None
        self._followed.add(place)
        file, row = names.name(place)
        return structs.replace(edit, file=file, row=row)

    def _note(self, why: str, row: str) -> None:
        """Say of all rows with the same fate that their labels are kept."""
        rows = self._unused.setdefault(why, {})
        rows[row] = None
        verb = "row was" if len(rows) == 1 else "rows were"
        text = f"{len(rows)} {verb} {why} ({few(list(rows))}); the log keeps what is not used"
        self.notes[:] = [each for each in self.notes if f"{why} (" not in each] + [text]

    # the functions

    def changed(self) -> bool:
        """Whether lfs.py, or what it imports of its folder, or the log is another than at the last look."""
        return self.log.changed() or self.runner.changed()

    @property
    def functions(self) -> Path:
        """The file of labeling functions."""
        return self.project.folder / "lfs.py"

    def rewrite(self, written: Written, *, back: bool) -> None:
        """Put lfs.py back to what it held before this session wrote it, or forth again.

        Refused where it is not what was written any more, or does not run.
        """
        now, wanted = written.after, written.before
        if not back:
            now, wanted = wanted, now
        file = FunctionsFile.read(self.functions)
        if file.content != now:
            raise FileChanged(
                f"{self.functions} was changed since, so it is left as it is; change it there"
            )
        made = file.write(wanted, file.hash, checked=False)
        try:
            self.loaded = self._load(empty=True)
        except EpoxyError:
            made.write(now, made.hash, checked=False)
            raise
        self.failures = tuple(each for each in self.failures if each.name in self.loaded.names)

    def _load(self, *, empty: bool) -> Loaded:
        try:
            loaded = self.runner.load(empty=empty)
        except EpoxyError as error:
            self.unread = str(error)
            raise
        self.unread = ""
        return loaded

    def reload(
        self, session: Session, written: Written | None = None, *, record: bool = True
    ) -> Change | None:
        """Run lfs.py again and vote with what changed; None where nothing did.

        `written` says that this session wrote it, so that undo may put it back.
        """
        loaded = self._load(empty=not self.loaded.functions)  # a file half written is no wish
        before, now = self.loaded.fingerprints, loaded.fingerprints
        changed = [
            name for name in loaded.names if now[name] is None or now[name] != before.get(name, "")
        ]
        gone = [name for name in self.loaded.names if name not in now]
        kept = [each for each in self.failures if each.name in now and each.name not in changed]
        workspace = session.state.workspace
        votes, failed = self.vote(loaded, changed, lambda: workspace.near)
        self.failures = (*kept, *failed)
        edits = _replacing(workspace, votes, gone)
        change = None
        if edits:
            edit = several([each for some in edits.values() for each in some], ", ".join(edits))
            if record:
                change = session.apply_outside(edit, written)
            else:
                session.follow(edit)
        self.loaded = loaded  # only now: an edit that could not be written is made at the next save
        return change

    def vote(
        self, loaded: Loaded, names: Sequence[str], near: Callable[[], Neighbourhood]
    ) -> tuple[dict[str, tuple[np.ndarray, ...]], list[Failure]]:
        """Columns of functions on every split; those whose function is unchanged are read back.

        A function that failed whole on any split has no columns. Functions of example rows are answered
        here, where the vectors are, at every opening: it takes milliseconds, and another encoder gives
        other votes.
        """
        rows, classes = self.rows, self.project.classes
        asked = [name for name in names if name not in loaded.likes]
        found: dict[str, list[np.ndarray]] = {name: [] for name in asked}
        failures: dict[str, Failure] = {}
        most = self.runner.limits.seconds_for(max(map(len, rows.ids)))
        progress = self.report(f"voting, each function {most:g} s at most") if names else silent
        for table, key, ids in zip(rows.tables, rows.keys, rows.ids):
            places = {name: self._place(loaded.fingerprints[name], key) for name in asked}
            columns = {name: _kept(place, len(ids)) for name, place in places.items()}
            missing = [name for name, column in columns.items() if column is None]
            if missing:
                done = voted(self, loaded, missing, table, progress, partial(_keep, places))
                for failure in done.failures:
                    told = failure.named(None if self.project.id is None else ids)
                    failures.setdefault(failure.name, told)
                columns |= done.columns
            for name, column in columns.items():
                if column is None:
                    asked.remove(name)
                else:
                    found[name].append(column)
        made = {name: tuple(found[name]) for name in asked}
        for name in (each for each in names if each in loaded.likes):
            try:
                where = RowNames(rows.files, rows.ids)
                made[name] = like_votes(loaded.likes[name], where, near(), classes)
            except EpoxyError as error:
                failures[name] = Failure(name, (), str(error), kind="wrong")
        return {name: made[name] for name in names if name in made}, list(failures.values())

    def _place(self, meaning: str | None, key: str) -> Path | None:
        """Where a column is kept; None for a function whose meaning cannot be hashed."""
        if meaning is None:
            return None
        parts = "\n".join([meaning, key, *self.project.classes])
        name = hashlib.blake2b(parts.encode(), digest_size=16).hexdigest()
        return self.project.cache / "votes" / f"{name}.npz"


def _with_own(history: History, record: LogRecord, edit: Edit | None) -> History:
    """The way back with an edit of this session that was written, and interrupted before it was shown."""
    if record.undoes is not None:
        past = history.past
        return history.undone() if past and past[-1].number == record.undoes else history
    inverse = edit_from_json(record.inverse)
    if edit is None or inverse is None:
        return history
    return history.done(Step(edit, inverse, record.what, record.number))


def _replacing(
    workspace: Workspace, votes: Mapping[str, tuple[np.ndarray, ...]], gone: Sequence[str]
) -> dict[str, list[Edit]]:
    """The edits that follow a saved lfs.py, by what each is called.

    A function that votes as one that is gone is that one under another name: it keeps its place, its
    radius and its switch.
    """
    old = {name: source for name in gone if (source := workspace.source(name)) is not None}
    edits: dict[str, list[Edit]] = {}
    for name, columns in votes.items():
        added = workspace.source(name) is None
        was = next((each for each in old.values() if added and _alike(each, columns)), None)
        if was is None:
            edits[f"{'add' if added else 'votes of'} {name}"] = [SetVotes(name, columns)]
            continue
        del old[was.name]
        settings = settings_of(was)
        place = workspace.sources.index(was)
        renamed: list[Edit] = [Remove(was.name), SetVotes(name, columns, place, settings)]
        if settings != (AUTO, True, AUTO):  # decided once: decided for the new name too
            renamed += [Radii({name: was.radius}), Switch(name, was.is_on)]
        if was.tuned != was.radius:
            renamed.append(Radii({name: was.tuned}, tuned=True))
        edits[f"rename {was.name} to {name}"] = renamed
    return edits | {f"remove {name}": [Remove(name)] for name in old}


def _alike(source: Source, columns: Sequence[np.ndarray]) -> bool:
    return any((each != ABSTAIN).any() for each in columns) and all(
        np.array_equal(own, each) for own, each in zip(source.own, columns, strict=True)
    )


def _keep(places: Mapping[str, Path | None], name: str, column: np.ndarray) -> None:
    """Write one function's votes at once: what was interrupted goes on after it."""
    place = places[name]
    if place is not None:
        write_arrays(place, {"votes": column})


def _kept(place: Path | None, n_rows: int) -> np.ndarray | None:
    found = (None if place is None else read_arrays(place, ("votes",))) or {}
    votes: np.ndarray | None = found.get("votes")
    return votes if votes is not None and votes.shape == (n_rows,) else None


S = TypeVar("S", bound="Session")
PATIENCE = 2.0
"""Seconds of work after which a line tells of it where there is no terminal to draw on."""


def open_session(
    kind: type[S],
    folder: str | Path | Project,
    *,
    model: Any = None,
    empty: bool = False,
    progress: Callable[[str], Progress] | None = None,
    new: tuple[Path, Path | None] | None = None,
) -> S:
    """Open a project as a session; `progress` makes a callback from what is being done.

    `new` are a file of other rows that are to be labelled, and one of their vectors.
    """
    project = folder if isinstance(folder, Project) else Project.read(folder)
    model = project.make_model(model) if model is None or isinstance(model, str) else model
    given = Path(project.encoder)
    if project.encoder.endswith(FILES) and given.exists() and not given.is_dir():
        open_regular(given).close()  # a pipe is refused before functions vote for minutes
    rows = read_project(project)
    if new is not None:
        rows = with_new_rows(project, rows, new[0])
    n_rows = sum(map(len, rows.ids))
    report = partial(bar, rows=n_rows, line=PATIENCE) if progress is None else progress
    private(project.cache)
    log = Log(project.cache / "state.sqlite")
    runner = Runner(project.folder, Limits(project.seconds, project.memory))
    # without functions too, hand labels and vectors label the rows
    bare = project.encoder != "none" and _any_labels(rows, log)
    loaded = runner.load(empty=empty or bare) if project.votes is None else Loaded((), {})
    home = Folder(project, rows, runner, log, loaded, notes=log.notes, report=report)
    read = cache(lambda: read_vectors(project, rows, report("embedding"), new))

    @cache
    def near() -> Neighbourhood:
        """What functions of example rows vote by."""
        sizes = tuple(map(len, rows.ids))
        return Neighbourhood.of_vectors(sizes, read(), engine_of(model).metric, apart=True)

    if project.votes is not None:
        columns = ready_made(project, rows)
    else:
        columns, failures = home.vote(loaded, loaded.names, near)
        home.failures = tuple(failures)
        if mapped.limit() is not None:
            runner.close()  # it is memory that rows need now
    if not columns and not empty and (loaded.functions or not bare):
        shown = "; ".join(map(str, home.failures[:3]))
        raise EpoxyError(f"no labeling function of {project.folder} could vote: {shown}")
    splits = []
    for at, vectors in enumerate(read()):
        nobody = np.empty((len(rows.ids[at]), 0), dtype=np.int8)
        matrix = np.column_stack([nobody, *(each[at] for each in columns.values())])
        votes = Votes(matrix, list(columns), project.classes, sequences=rows.sequences[at])
        splits.append(Split(votes, vectors, rows.y[at], rows.ids[at], rows.chosen[at]))
    home.notes.extend(twice(project, rows))
    if not columns and bare and not loaded.functions:
        home.notes.append(
            "no labeling function votes: labels rest on hand labels and vectors alone"
        )
    if loaded.undecorated:
        home.notes.append(
            f"lfs.py: {', '.join(loaded.undecorated)} without @epoxy.labeling_function do not vote; "
            "decorate them, or take them out"
        )
    return kind(
        splits[0],
        splits[1] if len(rows.files) > 1 else None,
        model,
        new=None if new is None else splits[-1],
        positive=project.positive,
        rows=rows.tables,
        cache=project.cache / "neighbours",
        neighbours=project.neighbours,
        progress=report("finding neighbours"),
        folder=home,
        labels=splits[0] if project.sequence is not None else None,
    )


def _any_labels(rows: ProjectRows, log: Log) -> bool:
    """Whether any row is labelled by hand, in a file or in the log."""
    if any((y != ABSTAIN).any() for y in rows.y if y is not None):
        return True
    return any('"label"' in record.line for record in log.records())
