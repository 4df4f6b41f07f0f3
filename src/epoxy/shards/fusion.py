"""The default model over shards: what rows add up to is merged, labelled rows are here, solves are small.

The walk is that of `fusion.engine`: pair counts → which sources are copies → class balance → features →
`pupil` (one solve) → which sources are heard → loans and their grades → `echo` (one solve) and `regions`
(one sum) → the correction on the labelled rows → every probability → the rule of decision. Each arrow is a
stage over shards or a step on the driver.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ..engines import Outcome
from ..extension import far
from ..fusion import decision
from ..fusion import evidence as ev
from ..fusion.agreement import of_votes_alone
from ..fusion.balance import Balance
from ..fusion.calibration import SCALES
from ..fusion.choice import Crowd, looks_chosen, margin
from ..fusion.copies import distinct
from ..fusion.engine import Corrections, FusionEngine
from ..fusion.features import Features, View
from ..fusion.fitted import Fitted, Readout, Rows, read
from ..fusion.labelled import Nearby
from ..fusion.matching import known_logits, matched, some_of
from ..fusion.regions import thought
from ..fusion.support import who_tell
from ..fusion.vectors import Regressed, pooled, right_side, solved
from ..label_models.moments import Moments
from ..loans import Loans
from ..numerics import softmax
from .features import FewVectors, ShardFeatures, features_of, placed, view_of, within
from .lending import Lending
from .opening import World
from .paper import Concluded, Made, lend_all
from .ranking import Ranked, rank_rows
from .ranks import keep_sorted, ranked
from .runner import Summary
from .shard import Kept, Shard
from .support import Heard, School, judged_over


def conclude(world: World) -> Concluded:
    """Fit, correct, and write every probability."""
    engine = world.engine
    assert isinstance(engine, FusionEngine)
    every = world.columns
    mine = [world.voted.sources.index(name) for name in world.few.names]
    counted = world.voted.moments.only(np.array(mine, dtype=np.intp))
    columns = distinct(counted)
    summary = counted.only(columns)
    votes, loans, lending = world.voted.kept, None, None
    if world.vectors is not None:
        loans, lending = lend_all(world, every[columns], columns)
    heard = Heard(votes, every[columns], loans)
    over = _features(world, engine)
    school = School(world, heard, over, summary)
    kept, support = np.ones(len(columns), dtype=bool), None
    if over is not None:
        first = who_tell(summary.counts.sum(axis=1), lambda some: school.regress(some)[1].tells)
        if first is not None:
            found = judged_over(world, heard, over, summary, school.regress, first)
            if school.regress(found[0])[1].tells:
                kept, support = found
    heard = heard.hearing(kept)
    base = _started(world, heard, columns, school.balance(kept), summary)
    if over is None or support is None:
        base = of_votes_alone(base, summary)
    else:
        taught = school.regress(kept)[1]
        base = _taught(world, heard, replace(base, support=support), over, taught)
    if base.balance.trust:
        base = _keeps_balance(world, heard, base, over)
    made, rows = _corrected(world, engine, base, over)
    return _concluded(world, engine, heard, made, rows, over, lending)


def _started(
    world: World, heard: Heard, columns: np.ndarray, balance: Balance, summary: Moments
) -> Fitted:
    """What follows from votes alone, before any expert is taught."""
    radii = np.array([far(world.few.active[at].radius) for at in columns])
    if heard.heard is not None:
        radii[~heard.heard] = np.nan
    means = summary.counts.T.ravel() / max(1, world.n_train)
    parts = (None, None, None, None, means, np.ones(3), None, decision.Rule())
    base = Fitted(balance, columns, radii, _edges(world, heard), *parts)
    return replace(base, heard=heard.heard)


# loans


def _edges(world: World, heard: Heard) -> np.ndarray:
    """The distances that grade loans, of all loans of all shards."""
    if heard.loans is None:
        return ev.grade_edges([])
    stage = world.run.stage("distances", sort_distances, heard)
    found, asked = stage.total("found", "asked")
    known = int(found.sum())
    unlisted = 0 if world.recall is None else ev.unlisted_loans(asked, found)
    ranks = ev.edge_ranks(known, unlisted)
    values = ranked(world.run, stage.kept, list(ranks.values()), "edges")
    return ev.edges_between(known, unlisted, values)


def sort_distances(shard: Shard, kept: Kept, heard: Heard) -> Summary:
    """Distances from a shard's abstaining rows to who would lend, and how many of each source."""
    rows = heard.rows(shard)
    votes, distance = rows.votes, rows.distance
    if heard.heard is not None:
        votes, distance = votes[heard.heard], distance[heard.heard]
    abstains = votes < 0
    lent = abstains & np.isfinite(distance)
    keep_sorted(kept, shard, distance[lent])
    return {"found": lent.sum(axis=1), "asked": abstains.sum(axis=1)}


# vectors


def _features(world: World, engine: FusionEngine) -> ShardFeatures | None:
    if world.vectors is None or any(each is None for each in world.raw):
        return None
    apart, seed = engine.metric == "cosine", engine.parameters.seed
    view = view_of(world.run, world.vectors, world.n_train, seed, apart=apart)
    return features_of(world.run, world.vectors, world.n_train, view)


def _taught(
    world: World, heard: Heard, base: Fitted, over: ShardFeatures, taught: Regressed
) -> Fitted:
    """The model without labels: what pupil, echo and regions learn from all rows."""
    run, prior, pupil = world.run, base.prior, taught.readout
    (total,) = run.stage("opinions", add_opinions, heard, over.kept, prior, pupil).total("total")
    mean = total / world.n_train
    stage = run.stage("second", teach_second, heard, over.kept, over.view, prior, pupil, mean)
    right, sums, count = stage.total("right", "sums", "count")
    echo = Readout(solved(over.inverse, right), mean)
    regions = Readout(thought(sums, count), mean) if len(count) else None
    return replace(base, view=over.view, pupil=pupil, regions=regions, echo=echo, scales=SCALES)


def _opinion(
    shard: Shard, heard: Heard, matrix: np.ndarray, prior: np.ndarray, pupil: Readout
) -> np.ndarray:
    """What majority and pupil agree on about a shard's rows."""
    votes = heard.voted(shard)
    majority = ev.majority(ev.vote_counts(votes, len(prior)), prior)
    return pooled(prior, majority, pupil.evidence(read(matrix, pupil.weights)[0]))


def add_opinions(
    shard: Shard, kept: Kept, heard: Heard, features: Kept, prior: np.ndarray, pupil: Readout
) -> Summary:
    """What majority and pupil agree on about a shard's rows, kept and summed."""
    found = _opinion(shard, heard, features.load(shard, "features"), prior, pupil)
    return {"total": found.sum(axis=0)}


def teach_second(
    shard: Shard,
    kept: Kept,
    heard: Heard,
    features: Kept,
    view: View,
    prior: np.ndarray,
    pupil: Readout,
    mean: np.ndarray,
) -> Summary:
    """A shard's part of echo's right-hand side, and of what landmarks think."""
    matrix = features.load(shard, "features")
    taught = _opinion(shard, heard, matrix, prior, pupil)
    taught -= mean
    at = placed(features, shard, view)
    sums, count = np.zeros((0, len(prior))), np.zeros(0)
    if at is not None:
        sums, count = at.sums(taught, len(view.landmarks))
    return {"right": right_side(matrix, taught), "sums": sums, "count": count}


def _keeps_balance(world: World, heard: Heard, base: Fitted, over: ShardFeatures | None) -> Fitted:
    """The model without labels with a lean, where votes tell the class balance."""
    features = None if over is None or base.view is None else over.kept
    some = some_of(world.n_train)
    stage = world.run.stage("lean", known_in_shard, heard, base, features, some)
    logits, scale = zip(*((each["logits"], each["scale"]) for each in stage))
    return matched(base, np.concatenate(logits), np.concatenate(scale))


def known_in_shard(
    shard: Shard, kept: Kept, heard: Heard, base: Fitted, features: Kept | None, some: np.ndarray
) -> Summary:
    """What the model without labels says of some rows of a shard."""
    mine = within(some, shard)
    matrix = None if features is None else features.load(shard, "features")
    logits, scale = known_logits(base, heard.rows(shard, matrix).take(mine))
    return {"logits": logits, "scale": scale}


# labelled rows


def _corrected(
    world: World, engine: FusionEngine, base: Fitted, over: ShardFeatures | None
) -> tuple[Corrections, FewVectors | None]:
    """The model as the hand labels correct it."""
    few = None if over is None else FewVectors(world.raw, over)
    engine.see(few)
    rows = [
        Rows.of(
            [world.few.active[each].loans[at] for each in base.columns],
            base.heard,
            split.n_rows,
            None if few is None else few.matrices[at],
        )
        for at, split in enumerate(world.few.splits)
    ]
    spoken = [base.answer(each)[0] for each in rows]
    return engine.corrected(world.few, base, rows, spoken), few


# every row


@dataclass(frozen=True)
class Answering:
    """The fitted model and the one without labels, over features that are kept."""

    fitted: Fitted
    base: Fitted
    features: Kept | None

    def rows(self, shard: Shard, heard: Heard) -> Rows:
        """The train rows of a shard as the experts see them."""
        if self.features is None:
            return heard.rows(shard)
        assert self.fitted.view is not None
        at = placed(self.features, shard, self.fitted.view)
        seen = heard.rows(shard, self.features.load(shard, "features"), at)
        return with_nearby(self.fitted, seen)

    def probabilities(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Of the fitted model, and logits of the one without labels."""
        said, learned = self.fitted.answer(rows)
        return softmax(self.fitted.summed(rows, said, learned)), self.base.summed(rows, said)


def with_nearby(fitted: Fitted, rows: Rows) -> Rows:
    """Rows with their likest labelled rows, where these are asked."""
    if not fitted.hears_neighbours or rows.features is None:
        return rows
    assert fitted.corrected is not None
    assert fitted.corrected.labelled is not None
    lengths = Features(rows.features).lengths
    return replace(rows, nearby=Nearby.of(rows.features, lengths, fitted.corrected.labelled))


def _concluded(
    world: World,
    engine: FusionEngine,
    heard: Heard,
    made: Corrections,
    few: FewVectors | None,
    over: ShardFeatures | None,
    lending: Lending | None,
) -> Concluded:
    sees = made.fitted.view is not None and over is not None
    answering = Answering(made.fitted, made.base, over.kept if sees and over else None)
    labels = world.few.labels
    both = [answering.probabilities(with_nearby(made.fitted, each)) for each in made.rows]
    unknown = labels.representative & ~labels.told_random
    mine = labels.gather([margin(each[1]) for each in both])[unknown]
    positive = engine.positive(world.few.classes)
    stage = world.run.stage("proba", answer_shard, heard, answering, mine, positive)
    names = ("total", "called", "below", "up_to", "cast", "quarrels")
    total, called, below, up_to, cast, quarrels = stage.total(*names)
    rule = decision.Rule()
    if engine.needs_rule(world.few):
        drawn = labels.told_random
        if unknown.any():
            crowd = Crowd(world.n_train, below, up_to, cast, int(quarrels))
            seen = None if few is None or not sees else labels.gather(few.matrices)[unknown]
            votes = labels.gather([each.votes.T for each in made.rows])[unknown].T
            gram = None if over is None else over.gram
            if not looks_chosen(mine, votes, crowd, seen, gram):
                drawn = drawn | unknown
        rankings = partial(Ranked, world.run, stage.kept, world.n_train, called)
        mean = total / world.n_train
        rule = engine.rule(world.few, made.base, drawn, made.held, mean, rankings)
    fitted = replace(made.fitted, rule=rule)
    spoken, outcome = _made(world, engine, heard, made, fitted, both, stage.kept)
    return Concluded(spoken, outcome, lending, partial(answer_others, fitted))


def answer_others(fitted: Fitted, loans: list[Loans], vectors: np.ndarray | None) -> np.ndarray:
    """Probabilities of other rows, as `predict_proba` of the fitted model gives them."""
    mine = [loans[at] for at in fitted.columns]
    features = None
    if fitted.view is not None and vectors is not None:
        features = fitted.view.of(vectors)
    n_rows = len(loans[0].own) if loans else 0
    rows = Rows.of(mine, fitted.heard, n_rows, features)
    return fitted.probabilities(with_nearby(fitted, rows))


def answer_shard(
    shard: Shard,
    kept: Kept,
    heard: Heard,
    answering: Answering,
    mine: np.ndarray,
    positive: int | None,
) -> Summary:
    """Probabilities of a shard's train rows, kept, and what the rule of decision asks of them."""
    rows = answering.rows(shard, heard)
    proba, before = answering.probabilities(rows)
    kept.save(shard, proba=proba)
    crowd = Crowd.of(mine, margin(before), rows.votes)
    called = 0
    if positive is not None:
        rank_rows(kept, shard, proba[:, positive])
        called = decision.n_called(softmax(before), positive)
    return {
        "total": proba.sum(axis=0),
        "called": np.array(called),
        "below": crowd.below,
        "up_to": crowd.up_to,
        "cast": crowd.cast,
        "quarrels": np.array(crowd.quarrels),
    }


def _made(
    world: World,
    engine: FusionEngine,
    heard: Heard,
    made: Corrections,
    fitted: Fitted,
    both: list[tuple[np.ndarray, np.ndarray]],
    proba: Kept,
) -> tuple[Made, Outcome]:
    every = world.columns
    radii, lending = np.full(len(every), np.nan), np.full(len(every), -1)
    if heard.loans is not None:
        radii[fitted.columns] = made.base.lending
        lending[fitted.columns] = np.arange(len(fitted.columns))
    outcome = engine.concluded(world.few, fitted, radii, tuple(each[0] for each in both), made.held)
    spoken = Made(proba, heard.votes, every, heard.loans, lending, radii, fitted.rule)
    return spoken, outcome
