"""What votes teach a regression over shards, and which sources it makes the experts hear."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count as count_up

import numpy as np

from ..fusion import evidence as ev
from ..fusion.balance import Balance
from ..fusion.engine import FusionEngine
from ..fusion.features import View
from ..fusion.fitted import Readout, Rows, read
from ..fusion.regions import VOICES, Regions
from ..fusion.support import (
    Around,
    Line,
    Named,
    Regress,
    Sight,
    Supported,
    directions,
    judged,
    left_out,
    lessons_of,
)
from ..fusion.unlabelled import balance_of
from ..fusion.vectors import Regressed, solved, tell, votes_as_target
from ..label_models.moments import Moments
from ..neighbors.workers import single_threaded_blas
from .balance import balance_voted
from .features import ShardFeatures, placed, within
from .opening import World
from .runner import Summary
from .shard import Kept, Shard


@dataclass(frozen=True)
class Heard:
    """Where shards find what the experts hear of their train rows."""

    votes: Kept
    columns: np.ndarray  # kept votes of the sources that are no copies
    loans: Kept | None
    heard: np.ndarray | None = None  # which of them the experts hear; None for all

    def voted(self, shard: Shard) -> np.ndarray:
        """Votes of the sources that are heard; (n_heard, n_rows)."""
        every = self.columns if self.heard is None else self.columns[self.heard]
        return np.asarray(self.votes.load(shard, "votes")[every])

    def hearing(self, kept: np.ndarray) -> Heard:
        """The same of some of the sources; (n_sources,) bool."""
        return replace(self, heard=None if kept.all() else kept)

    def rows(
        self, shard: Shard, features: np.ndarray | None = None, regions: Regions | None = None
    ) -> Rows:
        """The train rows of a shard."""
        own = self.votes.load(shard, "votes")[self.columns]
        if self.loans is None:
            nobody = np.full(own.shape, -1, dtype=np.int32)
            found = Rows(own, own, np.full(own.shape, np.inf), nobody, features, regions=regions)
            return found.hearing(self.heard)
        lender, distance, vote = (
            self.loans.load(shard, name) for name in ("lender", "distance", "vote")
        )
        found = Rows(own, vote, distance, lender, features, regions=regions)
        return found.hearing(self.heard)


class School:
    """What some of the sources tell and teach, asked for once."""

    def __init__(
        self, world: World, heard: Heard, over: ShardFeatures | None, summary: Moments
    ) -> None:
        self.world, self.heard, self.over, self.summary = world, heard, over, summary
        self._told: dict[bytes, Balance] = {}
        self._taught: dict[bytes, Regressed] = {}

    def balance(self, kept: np.ndarray) -> Balance:
        """The class balance told, or that of the votes of some sources."""
        key, world = kept.tobytes(), self.world
        if key not in self._told:
            name, some = self._name(len(self._told)), self.summary.only(np.flatnonzero(kept))
            given = (world.run, self.heard.votes, self.heard.columns[kept], some, name)
            assert isinstance(world.engine, FusionEngine)
            model = world.engine.parameters
            self._told[key] = balance_of(model, some.classes, lambda: balance_voted(*given))
        return self._told[key]

    def regress(self, kept: np.ndarray) -> tuple[np.ndarray, Regressed]:
        """What the votes of some sources teach, and the class balance they tell."""
        prior, key = self.balance(kept).shares, kept.tobytes()
        assert self.over is not None
        if key not in self._taught:
            given = (self.world, self.heard.hearing(kept), self.over, prior)
            self._taught[key] = regressed(*given, self._name(len(self._taught)))
        return prior, self._taught[key]

    def _name(self, number: int) -> str:
        """What tells stages of one run apart."""
        return f"-{number}" if number else ""


def regressed(
    world: World, heard: Heard, over: ShardFeatures, prior: np.ndarray, name: str
) -> Regressed:
    """Taught by the votes of the sources that are heard; `name` tells stages of one run apart."""
    run = world.run
    stage = run.stage(f"targets{name}", add_targets, heard, prior)
    total, voted = stage.total("total", "voted")
    mean = total / world.n_train
    given = (heard, over.kept, over.view, prior, mean, over.some)
    right, sums, some = np.zeros(()), np.zeros(()), []
    for each in run.stage(f"pupil{name}", teach_pupil, *given):
        right, sums = right + each["right"], sums + each["sums"]
        some.append(each["some"])
    readout = Readout(solved(over.inverse, right), mean)
    (said,) = read(over.sample, readout.weights)
    tells = not voted or tell(np.concatenate(some), said, over.leverage)
    return Regressed(readout, right, sums.T, said.std(axis=0), bool(tells))


def add_targets(shard: Shard, kept: Kept, heard: Heard, prior: np.ndarray) -> Summary:
    """What votes make of a shard's rows, summed, and how many there are."""
    votes = heard.voted(shard)
    target = votes_as_target(votes, prior)
    return {"total": target.sum(axis=0), "voted": np.array(np.count_nonzero(votes >= 0))}


def teach_pupil(
    shard: Shard,
    kept: Kept,
    heard: Heard,
    features: Kept,
    view: View,
    prior: np.ndarray,
    mean: np.ndarray,
    some: np.ndarray,
) -> Summary:
    """A shard's part of right-hand sides, of a line and of landmarks, and the targets of some rows."""
    target = votes_as_target(heard.voted(shard), prior)
    target -= mean
    line, *around = _sights(shard, features, view)
    sums = around[0].right(target).T if around else np.zeros((0, len(prior)))
    mine = within(some, shard)
    return {"right": line.right(target), "sums": sums, "some": target[mine]}


def _sights(shard: Shard, features: Kept, view: View) -> list[Sight]:
    """The train rows of a shard as either reading sees them."""
    found: list[Sight] = [Line(features.load(shard, "features"))]
    at = placed(features, shard, view)
    return found if at is None else [*found, Around(at, len(view.landmarks))]


def judged_over(
    world: World,
    heard: Heard,
    over: ShardFeatures,
    summary: Moments,
    regress: Regress,
    first: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Which sources are heard, and the support of each; at `first` some of them are."""
    run, counts = world.run, summary.counts
    classes = [np.flatnonzero(each) for each in counts]
    stage = run.stage("named", add_named, heard, over.kept, over.view, classes)
    line, around, features, marked = stage.total("line", "around", "features", "marked")
    inverses = [over.inverse, *([1 / (marked + VOICES)] if len(marked) else [])]
    each_count = [counts[at, named] for at, named in enumerate(classes)]
    ends = np.cumsum([len(named) for named in classes])[:-1]
    added = [np.split(table, ends) for table, _ in zip((line, around), inverses)]
    with single_threaded_blas():  # the last bits name a stage, as of `inverse_of`
        toward = [
            [directions(table[at], count, inverse) for table, inverse in zip(added, inverses)]
            for at, count in enumerate(each_count)
        ]
    near = Regions.of(over.sample, over.view.landmarks) if len(marked) else None
    rounds = count_up()

    def ask(kept: np.ndarray) -> list[Supported] | None:
        prior, taught = regress(kept)
        if not taught.tells:
            return None
        given = (heard.hearing(kept), over.kept, over.view, prior, classes, toward)
        stage = run.stage(f"left_out-{next(rounds)}", leave_out, *given)
        moved, total = stage.total("moved", "total")
        lessons = lessons_of(taught, (features, marked), near)
        base, less = taught.readout.base, total / world.n_train
        parts = np.split(moved, ends, axis=1)
        return [
            Supported.of(named, count, ways, lessons, part.ravel(), base + off, off)
            for named, count, ways, part, off in zip(classes, each_count, toward, parts, less)
        ]

    return judged(first, len(summary.classes), ask)


def add_named(
    shard: Shard, kept: Kept, heard: Heard, features: Kept, view: View, classes: list[np.ndarray]
) -> Summary:
    """What a shard's rows to which each source gives each class add up to, and all rows of landmarks."""
    named = [Named.of(*each) for each in zip(heard.voted(shard), classes)]
    line, *around = _sights(shard, features, view)
    width, marks = len(view.middle), len(view.landmarks) if around else 0
    found = [np.concatenate([each.added(line, width) for each in named])]
    found += [np.concatenate([each.added(x, marks) for each in named]) for x in around]
    every = np.arange(shard.n_train)
    return {
        "line": found[0],
        "around": found[1] if around else np.zeros((len(found[0]), 0)),
        "features": line.added(every),
        "marked": around[0].added(every) if around else np.zeros(0),
    }


def leave_out(
    shard: Shard,
    kept: Kept,
    heard: Heard,
    features: Kept,
    view: View,
    prior: np.ndarray,
    classes: list[np.ndarray],
    toward: list[list[np.ndarray]],
) -> Summary:
    """What leaving out each source that is heard adds over a shard's rows; see `support`."""
    sights, n_classes = _sights(shard, features, view), len(prior)
    counts = ev.vote_counts(heard.voted(shard), n_classes)
    own = heard.votes.load(shard, "votes")[heard.columns]
    teaches = np.ones(len(own), dtype=bool) if heard.heard is None else heard.heard
    moved, total = [], np.zeros((len(own), n_classes))
    for at, (column, named, ways) in enumerate(zip(own, classes, toward)):
        part = np.zeros(len(sights) * len(named))
        if teaches[at]:
            rows = Named.of(column, named)
            pull = np.hstack([sight.pull(rows.rows, way) for sight, way in zip(sights, ways)])
            part, total[at] = left_out(rows, pull, counts, prior)
        moved.append(part.reshape(len(sights), -1))
    return {"moved": np.hstack(moved), "total": total}
