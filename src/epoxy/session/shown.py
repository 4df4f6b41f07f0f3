"""What a session shows: everything that can be read off its state, its model and the outcome."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..diagnostics import Explanation, Report
from ..engines import Comparison, Engine, Outcome, PaperEngine, Scores
from ..errors import AlignmentError, NotIdentifiable, ParameterError, UnknownName
from ..extension import Setting
from ..votes import ABSTAIN, Split, Votes, sources_in_html
from ..weighting import Nearest
from ..workspace import DEV, SPLITS, TRAIN
from .export import notes_of
from .labels import with_answers, with_labellers
from .state import SessionState, compared

if TYPE_CHECKING:
    from ..project.project import Folder
    from ..suggest.search import RowTexts
    from .labels import Place
    from .state import History, Moment, Trial


class SessionView:
    """The reading half of a session; nothing here changes anything."""

    folder: Folder | None
    """The project behind the session, if there is one."""
    positive: str | None
    """The class that F1, precision and recall are of."""
    _now: Moment
    _engine: Engine
    _baseline: Outcome | None = None
    _rows: Any

    @property
    def version(self) -> int:
        """Counts edits."""
        return self._now.version

    @property
    def last_edit(self) -> int:
        """The number of the last edit in the project's log; without a project as `version`."""
        return self._now.version if self.folder is None else self._now.number

    @property
    def history(self) -> History:
        """The way back from here, and forth again."""
        return self._now.history

    @property
    def undoable(self) -> str | None:
        """What undo would take back, in words."""
        past = self._now.history.past
        return past[-1].what if past else None

    @property
    def redoable(self) -> str | None:
        """What redo would do again, in words."""
        future = self._now.history.future
        return future[-1].what if future else None

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of all sources, switched on or off."""
        return tuple(source.name for source in self._now.state.workspace.sources)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the splits: train, and dev if there is one."""
        return SPLITS[: len(self._now.state.workspace.splits)]

    @property
    def rows_of_one_file(self) -> bool:
        """Whether train and dev rows stand in the same file."""
        return len(set(self._now.state.names.files)) == 1

    @property
    def radii(self) -> dict[str, Setting]:
        """How far each source may lend: a number, None for not at all, "auto" for the model's rule."""
        tuned = self._engine.name == "epoxy"
        sources = self._now.state.workspace.sources
        return {each.name: each.tuned if tuned else each.radius for each in sources}

    @property
    def switched_off(self) -> tuple[str, ...]:
        """Sources that have no say."""
        return tuple(each.name for each in self._now.state.workspace.sources if not each.is_on)

    @property
    def probabilities(self) -> np.ndarray:
        """Pr(class) of every train row, by the session's model; (n_rows, n_classes)."""
        return self._of(self._now.outcome.proba, TRAIN)

    @property
    def dev_probabilities(self) -> np.ndarray:
        """Pr(class) of every dev row; (n_rows, n_classes)."""
        return self._of(self._now.outcome.proba, DEV)

    @property
    def labels(self) -> np.ndarray:
        """The class of every train row: hand labels, and else the model's own decision; (n_rows,)."""
        return self._of(self._now.outcome.decided, TRAIN)

    @property
    def dev_labels(self) -> np.ndarray:
        """The class of every dev row; (n_rows,)."""
        return self._of(self._now.outcome.decided, DEV)

    @property
    def scores(self) -> Scores:
        """How good labels are on rows labelled at random, by models that did not learn from the row."""
        return self._now.scores

    @property
    def problem(self) -> str:
        """Why there are no probabilities now; empty when there are."""
        return self._now.outcome.problem

    @property
    def votes(self) -> Votes:
        """The train votes of the sources that are switched on, extended as the model extends them."""
        return self._now.outcome.extended[TRAIN]

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of the project's labels, functions and store, in words."""
        recall = self._now.state.workspace.near.recall
        notes = notes_of(self.switched_off, self.outcome, recall)
        if self.folder is None:
            return tuple(notes)
        failures = self.folder.failures
        there = {*self.sources, *(each.name for each in failures)}
        gone = ", ".join(name for name in self.folder.loaded.names if name not in there)
        if gone:
            notes.append(
                f"removed here, and still in lfs.py: {gone}; opening the project brings it back: "
                "take it out of lfs.py, or switch it off, which is kept"
            )
        return (*self.folder.notes, *notes, *map(str, failures))

    @property
    def failed(self) -> tuple[str, ...]:
        """Functions of lfs.py that failed, and so have not a single vote on train."""
        failures = () if self.folder is None else self.folder.failures
        workspace = self._now.state.workspace
        voting = {each.name for each in workspace.sources if (each.own[TRAIN] != ABSTAIN).any()}
        return tuple(each.name for each in failures if each.name not in voting)

    @property
    def engine(self) -> Engine:
        """The model at work."""
        return self._engine

    @property
    def outcome(self) -> Outcome:
        """All that follows from the current state."""
        return self._now.outcome

    @property
    def state(self) -> SessionState:
        """All that was decided."""
        return self._now.state

    @property
    def frames(self) -> Any:
        """The rows behind the splits as they were given, for functions to vote on."""
        return self._rows

    @property
    def n_rows(self) -> int:
        """Rows of all splits."""
        return sum(split.n_rows for split in self._now.state.workspace.splits)

    def place(self, number: int) -> Place:
        """The split, by position, and the row in it of a row number."""
        left = number
        if isinstance(number, int | np.integer) and not isinstance(number, bool) and number >= 0:
            for at, split in enumerate(self._now.state.workspace.splits):
                if left < split.n_rows:
                    return at, int(left)
                left -= split.n_rows
        raise ParameterError(
            f"rows are numbered from 0 to {self.n_rows - 1}, got {number!r:.60}; "
            "give a whole number of that range"
        )

    def number(self, place: Place) -> int:
        """The number of a row of a split."""
        at, row = place
        return row + sum(split.n_rows for split in self._now.state.workspace.splits[:at])

    @cached_property
    def texts(self) -> RowTexts | None:
        """The rows as a person reads them; None where the session was given none."""
        from ..suggest.search import RowTexts

        column = None if self.folder is None else self.folder.project.column
        return None if self._rows is None else RowTexts(self._rows, column)

    def need_texts(self) -> RowTexts:
        """The rows, or what to do where the session was given none."""
        if self.texts is None:
            raise ParameterError(
                "rows are read and searched by their cells, and this session was given none; "
                "give them: Session(train, dev, rows=(train_frame, dev_frame))"
            )
        return self.texts

    @property
    def file_order(self) -> np.ndarray:
        """What sorts rows as their files do, rows appended since at the end; (n_rows,)."""
        if self.folder is None or not self.rows_of_one_file:
            return np.arange(self.n_rows)
        known = self.folder.rows.positions
        end, splits = sum(map(len, known)), self._now.state.workspace.splits
        more = (end + np.arange(split.n_rows - len(at)) for at, split in zip(known, splits))
        return np.concatenate([part for both in zip(known, more) for part in both])

    def text(self, number: int) -> str:
        """The text of a row: its text column, or all cells where there is none."""
        return self.need_texts().text(*self.place(number))

    def cells(self, number: int) -> dict[str, str]:
        """Every cell of a row, by column, as text."""
        return self.need_texts().cells(*self.place(number))

    def split(self, name: str = "train", *, every: bool = False) -> Split:
        """A split with its current own votes and hand labels; `every` includes sources switched off."""
        return self._now.state.workspace.split(self._split_number(name), every=every)

    def hand_labelled(self) -> Split | None:
        """All labelled rows, of dev and train: `Fusion().fit(session.split(), …)` learns from these."""
        return self._now.state.workspace.hand_labelled()

    def model(self) -> Any:
        """The current state as a fitted model, to predict on other rows and to save."""
        if self._now.outcome.problem:
            raise NotIdentifiable(self._now.outcome.problem)
        return self._now.outcome.model

    def baseline(self, outcome: Outcome | None = None) -> Outcome:
        """What the paper's pipeline makes of the same votes and labels, or of those of another outcome."""
        found = self._now.outcome if outcome is None else outcome
        if self._engine.name == "epoxy":
            return found
        if self._baseline is None or self._baseline.workspace is not found.workspace:
            paper = PaperEngine(None, None, Nearest(), self._engine.metric)
            self._baseline = paper.update(found.workspace)
        return self._baseline

    def comparison(self, trial: Trial | None = None) -> Comparison:
        """Scores of majority vote, the paper's pipeline and this model on the same rows, as a table.

        Of a trial, where one is given.
        """
        at = self._now.outcome if trial is None else trial.outcome
        own = self._now.scores if trial is None else trial.scores
        return compared(self._engine.name, at, self.baseline(at), own, self.positive)

    def weight(self, source: str) -> float | None:
        """What an own vote of a source adds to the log-odds of its class, under Fusion; None elsewhere."""
        ask = getattr(self._engine, "weight", None)
        if (
            ask is None
            or self._now.outcome.problem
            or source not in self._now.state.workspace.names
        ):
            return None
        found: float | None = ask(self._now.outcome, source)
        return found

    def report(self, split: str = "dev") -> Report:
        """What each source does on a split, and how good the model's labels are."""
        name = split if split == "train" or len(self.names) > 1 else "train"
        self._of(self._now.outcome.proba, TRAIN)
        found = self._engine.report(self._now.outcome, self._split_number(name), self.positive)
        return with_labellers(found, self._now.state, self._now.outcome)

    def explain(self, row: Any, split: str | None = None) -> Explanation:
        """Why one row has its label, by its id, or by its number where no id is meant (`find`)."""
        name, position = self.find(row, split)
        place = (self._split_number(name), position)
        self._of(self._now.outcome.proba, place[0])
        found = self._engine.explain(self._now.outcome, *place)
        return with_answers(found, self._now.state, place)

    def find(self, row: Any, split: str | None = None) -> tuple[str, int]:
        """The split a row is in and its position.

        Its id is looked for in train and then in dev. What is no id is a position in `split`, or without
        one a number that counts the rows of train and then those of dev, as the studio and `browse` do.
        """
        names = self.names if split is None else (split,)
        for name in names:
            at = self._split_number(name)
            place = self._now.state.names.find(self._now.state.names.files[at], str(row))
            if place is not None and place[0] == at:
                return name, place[1]
        number = int(row) if isinstance(row, str) and row.isdecimal() else row
        sizes = [each.n_rows for each in self._now.state.workspace.splits]
        counts = split is None and isinstance(number, int | np.integer)
        if counts and sizes[0] <= number < sum(sizes):
            return names[1], int(number - sizes[0])
        if split is None and len(names) > 1 and not (counts and 0 <= number < sizes[0]):
            first = self._now.state.names.name((TRAIN, 0))[1] if sizes[0] else "–"
            raise AlignmentError(
                f"no row {row!r} among the {sum(sizes)} rows of {' and '.join(names)}; give an id (the "
                f"first is {first!r}) or a number below {sum(sizes)}"
            )
        return names[0], self._now.state.names.place(self._split_number(names[0]), number)[1]

    def __repr__(self) -> str:
        rows = " and ".join(f"{self.split(name).n_rows} {name}" for name in self.names)
        taught = self.hand_labelled()
        scored = f", accuracy {self.scores['accuracy']:.3f} held out" if self.scores else ""
        return (
            f"{type(self).__name__}({self._engine.name}, {rows} rows, {len(self.sources)} sources, "
            f"{0 if taught is None else taught.n_rows} hand labels{scored})"
        )

    def _repr_html_(self) -> str:
        title = f"{self!r}: {self.problem}" if self.problem else repr(self)
        on = (name not in self.switched_off for name in self.sources)
        votes = self.split(every=True).votes
        return sources_in_html(votes, title, radius=self.radii.values(), on=on)

    def _of(self, per_split: tuple[np.ndarray, ...], at: int) -> np.ndarray:
        if self._now.outcome.problem:
            raise NotIdentifiable(self._now.outcome.problem)
        if at >= len(per_split):
            raise ParameterError("this session has no dev split; give one: Session(train, dev=dev)")
        return per_split[at]

    def _split_number(self, name: str) -> int:
        if not isinstance(name, str) or name not in self.names:
            raise UnknownName.of("split", name, self.names)
        return self.names.index(name)
