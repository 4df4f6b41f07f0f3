"""The paper's pipeline over blocks: extended votes are counted, counts add, and the label model is solved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..engines import Outcome, PaperEngine
from ..engines.base import most_probable
from ..engines.paper import resolved
from ..errors import NotIdentifiable, ParameterError
from ..label_models import MajorityVote, Triplet
from ..label_models.columns import Columns, LabelModelRunner
from ..label_models.label_model import TableModel
from ..label_models.moments import Moments, moments
from ..loans import Loans
from ..votes import ABSTAIN, Votes
from ..weighting import Nearest
from .lenders import loans_of, typical_distance
from .opened import Opened, with_loans
from .table import Blocks


@dataclass(frozen=True, eq=False)
class Answer:
    """A fitted model, ready to answer for the rows of any block; small, and ready to travel."""

    model: Any
    sources: tuple[str, ...]
    classes: tuple[str, ...]
    lending: tuple[int, ...]  # which of the arrays of lenders each source has, −1 for none
    radii: np.ndarray  # how far each lends; NaN: not at all

    def loans(self, arrays: Sequence[np.ndarray]) -> list[Loans]:
        """Votes of the sources, and who lends them theirs."""
        own, lent = arrays[: len(self.sources)], arrays[len(self.sources) :]
        return [
            loans_of(votes, None if at < 0 else lent[at]) for votes, at in zip(own, self.lending)
        ]

    def votes(self, loans: Sequence[Loans]) -> Votes:
        """Votes after extension."""
        columns = [each.extend(far) for each, far in zip(loans, self.radii)]
        return Votes.of_checked(np.stack(columns).T, self.sources, self.classes)

    def proba(self, loans: Sequence[Loans], vectors: np.ndarray | None) -> np.ndarray:
        """Probabilities of rows."""
        return np.asarray(self.model.predict_proba(self.votes(loans)))

    def labels(self, proba: np.ndarray) -> np.ndarray:
        """Class indices by the model's own rule."""
        return most_probable(proba)


@dataclass(frozen=True, eq=False)
class Concluded:
    """What a model made of all rows, and of those that people labelled."""

    answer: Answer
    outcome: Outcome
    arrays: tuple[str, ...]  # what `Answer.loans` reads of the train table
    recall: Any = None

    def arrays_in(self, made: Opened, table: Blocks) -> dict[str, str]:
        """Have what `Answer.loans` reads in another table too; the arrays of who lends, by source."""
        return lenders_in(made, table, self.answer.sources, self.answer.radii)


def lenders_in(
    made: Opened, table: Blocks, names: Sequence[str], radii: np.ndarray
) -> dict[str, str]:
    """The arrays of who lends to the rows of a table, of the sources that reach anywhere."""
    return made.lend(table, [name for name, far in zip(names, radii) if not np.isnan(far)])


def conclude(made: Opened) -> Concluded:
    """Extend, count and solve."""
    engine, train = made.engine, made.taken.train
    assert isinstance(engine, PaperEngine)
    check(engine)
    names, classes = made.few.names, made.few.classes
    radii = np.array([resolved(each.tuned, lambda: _auto(made)) for each in made.few.active])
    lent = lenders_in(made, train, names, radii)
    where = list(lent)
    lending = tuple(where.index(name) if name in lent else -1 for name in names)
    arrays = (*(made.votes[name] for name in names), *lent.values())
    dev = made.taken.dev
    with_loans(made, lent, {} if dev is None else lenders_in(made, dev, names, radii))
    blank = Answer(None, names, classes, lending, radii)
    report = made.room.progress("learning")
    total = train.sum(count_extended, *arrays, answer=blank, progress=report)
    runner = MomentsRunner(Triplet() if engine.label_model is None else engine.label_model, total)
    few = made.few
    extended = tuple(
        few.columns(at, [each.loans[at].extend(far) for each, far in zip(few.active, radii)])
        for at in range(len(few.splits))
    )
    outcome = engine.concluded(few, radii, extended, runner)
    model = runner.fit(names, None, engine.balance(few))
    return Concluded(Answer(model, names, classes, lending, radii), outcome, arrays)


def count_extended(*arrays: np.ndarray, answer: Answer) -> Moments:
    """How often each two sources meet on the rows of a block, after extension."""
    return moments(answer.votes(answer.loans(arrays)))


def check(engine: PaperEngine) -> None:
    """Refuse what needs all rows at once."""
    model = engine.label_model
    adds = isinstance(model, MajorityVote) or (isinstance(model, TableModel) and model.fits_moments)
    if model is not None and not adds:
        raise ParameterError(
            f"{type(model).__name__} learns from the rows themselves, not from counts that blocks add; "
            "choose triplet or majority, or label in memory"
        )
    if not isinstance(engine.weighting, Nearest):
        raise ParameterError(
            f"the weighting {engine.weighting!r} looks at several lenders of a row, and blocks keep "
            "the nearest; use weighting='nearest', or label in memory"
        )


class MomentsRunner(LabelModelRunner):
    """A label model fitted on counts that blocks summed."""

    def __init__(self, label_model: Any, total: Moments) -> None:
        super().__init__(label_model, total.classes)
        self.total = total

    def fit(self, sources: Any, train: Any, balance: Any = None) -> Any:
        """The label model fitted on all rows; `train` plays no part."""
        if not sources:
            raise NotIdentifiable("no source is switched on; add a labeling function")
        model = self._fresh(balance)
        if isinstance(model, TableModel) and model.fits_moments:
            return model.fit_moments(self.total)
        return model.fit(self._one_row)

    @cached_property
    def _one_row(self) -> Votes:
        """Votes from which a majority vote learns what there is to learn: that somebody votes."""
        row = np.full((1, len(self.total.sources)), ABSTAIN)
        if len(self.total.source):
            row[0, self.total.source[0]] = self.total.named[0]
        return Votes(row, self.total.sources, self.total.classes)

    def predict(
        self, model: Any, sources: Any, rows: Columns, *, counted: bool = False
    ) -> np.ndarray:
        """Probabilities of rows."""
        return np.asarray(model.predict_proba(rows.as_votes(sources, self.classes)))


def _auto(made: Opened) -> float:
    if made.vectors is None:
        return float("nan")
    return typical_distance(made.taken.train, made.vectors, made.engine.metric)
