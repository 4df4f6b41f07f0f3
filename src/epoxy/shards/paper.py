"""The paper's pipeline over shards: extended votes are counted, counts add, and the label model is solved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..engines import Outcome, PaperEngine
from ..engines.paper import resolved
from ..errors import NotIdentifiable, ParameterError
from ..fusion.decision import Rule
from ..label_models import MajorityVote, Triplet
from ..label_models.columns import Columns, LabelModelRunner
from ..label_models.label_model import TableModel
from ..label_models.moments import Moments, moments
from ..loans import Loans
from ..votes import ABSTAIN, Votes
from ..weighting import Nearest
from .budget import FIXED
from .labelled_rows import pick_answers
from .lending import Held, Lending, lend, lend_to_few, lends, typical_distance
from .listing import Listed, find_lists
from .opening import World
from .runner import Summary
from .shard import Kept, Shard
from .voting import as_summary, as_votes, merged


@dataclass(frozen=True)
class Made:
    """What a model made of the train rows, shard by shard, and how labels follow from it."""

    proba: Kept
    votes: Kept
    columns: np.ndarray  # kept votes of the sources that were heard
    loans: Kept | None
    lending: np.ndarray  # (n_columns,) which of the loans each has, −1 for none
    radii: np.ndarray  # (n_columns,) how far each lends; NaN: not at all
    rule: Rule


@dataclass(frozen=True, eq=False)
class Concluded:
    """What a model made of all rows, and of those that people labelled."""

    made: Made
    outcome: Outcome
    lending: Lending | None  # of the sources that lend, in the order of their loans
    answer: Callable[[list[Loans], np.ndarray | None], np.ndarray]
    """Probabilities of other rows: who lends to them (active sources), and their vectors."""


class MomentsRunner(LabelModelRunner):
    """A label model fitted on counts that shards summed."""

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


def check(engine: PaperEngine) -> None:
    """Refuse what needs all rows at once."""
    model = engine.label_model
    adds = isinstance(model, MajorityVote) or (isinstance(model, TableModel) and model.fits_moments)
    if model is not None and not adds:
        raise ParameterError(
            f"{type(model).__name__} learns from the rows themselves, not from counts that shards add; "
            "choose triplet or majority, or label in memory"
        )
    if not isinstance(engine.weighting, Nearest):
        raise ParameterError(
            f"the weighting {engine.weighting!r} looks at several lenders of a row, and shards merge "
            "the nearest; use weighting='nearest', or label in memory"
        )


def conclude(world: World) -> Concluded:
    """Extend, count, solve, and write every probability."""
    engine, few, run = world.engine, world.few, world.run
    assert isinstance(engine, PaperEngine)
    check(engine)
    radii = np.array([resolved(each.tuned, lambda: _auto(world)) for each in few.active])
    every = world.columns
    number, loans, lending = np.full(len(every), -1), None, None
    reaches = np.flatnonzero(~np.isnan(radii)) if world.vectors is not None else np.empty(0, int)
    if len(reaches):
        number[reaches] = np.arange(len(reaches))
        loans, lending = lend_all(world, every[reaches], reaches)
        few = world.few
    stage = run.stage(
        "extended",
        extend_shard,
        world.voted.kept,
        loans,
        every,
        number,
        radii,
        few.names,
        few.classes,
    )
    total = merged(stage, few.names, few.classes)
    runner = MomentsRunner(Triplet() if engine.label_model is None else engine.label_model, total)
    extended = tuple(
        few.columns(at, [each.loans[at].extend(far) for each, far in zip(few.active, radii)])
        for at in range(len(few.splits))
    )
    outcome = engine.concluded(few, radii, extended, runner)
    model = runner.fit(few.names, None, engine.balance(few))
    proba = run.stage("proba", predict_shard, stage.kept, few.names, few.classes, Fixed(model))
    made = Made(proba.finish(), world.voted.kept, every, loans, number, radii, Rule())

    def answer(rows: list[Loans], vectors: np.ndarray | None) -> np.ndarray:
        columns = np.stack([each.extend(far) for each, far in zip(rows, radii)])
        return np.asarray(model.predict_proba(as_votes(columns, few.names, few.classes)))

    return Concluded(made, outcome, lending, answer)


def _auto(world: World) -> float:
    if world.vectors is None:
        return float("nan")
    lists = listed(world)
    if lists is not None:
        return lists.typical_distance()
    return typical_distance(world.run, world.vectors, world.engine.metric, world.n_train)


def listed(world: World) -> Listed | None:
    """Approximate lists of the train rows; None where neighbours are exact."""
    if world.lists is None:
        assert world.vectors is not None
        how, room = world.project.neighbours, world.memory - FIXED
        found = find_lists(world.run, world.vectors, world.engine.metric, how, room)
        world.lists = (found,)
        world.recall = None if found is None else found.recall
    return world.lists[0]


def lend_all(world: World, columns: np.ndarray, active: np.ndarray) -> tuple[Kept, Lending]:
    """Who lends to train rows, kept; and to the labelled rows, in the workspace."""
    assert world.vectors is not None
    counts = world.voted.moments.counts.sum(axis=1)
    at = [world.voted.sources.index(world.voted.every[each]) for each in columns]
    lending = Lending(
        world.voted.kept,
        world.vectors,
        world.run.shards,
        columns,
        lends(counts[at], world.n_train),
        world.engine.metric,
        Held(world.run.spare),
    )
    lists = listed(world)
    kept = lend(world.run, lending) if lists is None else lists.lend(world.run, lending)
    hand = pick_answers(world.run, world.scanned, kept, len(columns))
    answers = [hand]
    if len(world.few.splits) > 1:
        own = np.stack([world.few.active[each].own[1] for each in active])
        raw = world.raw[1]
        assert raw is not None
        few = lend_to_few if lists is None else lists.lend_to_few
        answers.append(few(world.run, lending, raw, own, "dev-reach"))
    world.with_loans(tuple(answers), active)
    return kept, lending


class Fixed:
    """A fitted label model, the same wherever its numbers are."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def __repr__(self) -> str:
        state = self.model.to_state()
        return f"{type(self.model).__name__} {state.values} " + " ".join(
            f"{name} {value.tobytes().hex()}" for name, value in state.arrays.items()
        )


def extend_shard(
    shard: Shard,
    kept: Kept,
    votes: Kept,
    loans: Kept | None,
    columns: np.ndarray,
    lending: np.ndarray,
    radii: np.ndarray,
    sources: tuple[str, ...],
    classes: tuple[str, ...],
) -> Summary:
    """The extended votes of a shard's train rows, and how often each two sources meet."""
    made = np.stack(
        [
            each.extend(far)
            for each, far in zip(loans_of(shard, votes, loans, columns, lending), radii)
        ]
    )
    kept.save(shard, votes=made)
    return as_summary(moments(as_votes(made, sources, classes)))


def loans_of(
    shard: Shard, votes: Kept, loans: Kept | None, columns: np.ndarray, lending: np.ndarray
) -> Sequence[Loans]:
    """Loans of some sources on the train rows of a shard, as they are kept."""
    own = votes.load(shard, "votes")[columns]
    if loans is None:
        return [Loans.nobody(each) for each in own]
    lender, distance, vote = (loans.load(shard, name) for name in ("lender", "distance", "vote"))
    return [
        Loans.nobody(each) if at < 0 else Loans(each, lender[at], distance[at], vote[at])
        for each, at in zip(own, lending.tolist())
    ]


def predict_shard(
    shard: Shard,
    kept: Kept,
    extended: Kept,
    sources: tuple[str, ...],
    classes: tuple[str, ...],
    fixed: Fixed,
) -> Summary:
    """Probabilities of a shard's train rows."""
    votes = as_votes(extended.load(shard, "votes"), sources, classes)
    kept.save(shard, proba=fixed.model.predict_proba(votes))
    return {"n_rows": np.array(shard.n_train)}
