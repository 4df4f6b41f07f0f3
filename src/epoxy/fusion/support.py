"""Sources that vectors contradict: rows like those a source votes on are not what it calls them.

What votes make of train rows is read off the features, by a line as `pupil` does and by landmarks as
`regions` does. Let all sources but one teach; s is the mean reading of a class over the rows to which this
one gives the class, and s0 what votes make of all rows. Then

    logit s − logit s0

averaged over the source's votes, is its *support*: what others say, through rows like these, for what it
says, by the line or the landmarks, whichever says it more surely. Votes at random have a support near zero,
and votes that are mostly wrong one below. With q what a quarter of the sources have at least, a source with
support x and standard error e is not heard by the experts where

    φ(max(x, 0); 0, e)  >  50 · φ(min(x, q); q, √((q/2)² + e²))

for a normal density φ: where it is likelier to be worth nothing, one source in fifty being so, than to be one
of the others. All are then asked again without it, since a wrong source that votes on most rows makes right
ones look contradicted. Hand labels still learn what its votes are worth. Where nobody else would speak for a
class, a source that names it is heard in any case: of those that name the fewest classes the best supported.

Nothing is fitted anew for a source. Both readings are linear in the target: with d = (ΦᵀΦ + ridge)⁻¹ φ̄, φ̄ the
mean features of the rows to which a source gives a class (or shares of landmarks, over the rows of each),
leaving the source out moves s by the sum of φ·d times the change of the target over the rows it votes on.
d and φ·d depend on its own votes and on vectors alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..compiling import compiled
from . import evidence as ev
from .features import added_up, for_one_pass, in_blocks
from .regions import Regions, thought
from .vectors import Regressed, right_side

QUANTILE, DEVIATION, ODDS = 0.75, 0.5, 50.0
"""Of what is usual: this quantile of all support, half of which is its deviation, and against worthless."""
FEWEST_SOURCES, FEWEST_VOTES = 3, 10
"""So many sources, of so many votes each, tell how much support is usual."""
ROUNDS = 4
BROADEST = 4
"""Sources, those with the most votes, that are left out in turn where vectors foretell no votes of all."""


class Sight(Protocol):
    """Some rows as one of the readings sees them: (n_rows, width) numbers φ."""

    def added(self, rows: np.ndarray) -> np.ndarray:
        """φ of some rows, summed; (width,) float64."""

    def pull(self, rows: np.ndarray, toward: np.ndarray) -> np.ndarray:
        """φ·d of some rows; `toward` is (n_named, width), the answer (n_rows, n_named) float32."""

    def right(self, target: np.ndarray) -> np.ndarray:
        """Σ over all rows of target times φ; (n_classes, width), of two classes the second is enough."""


@dataclass(frozen=True, eq=False)
class Line:
    """Rows by their features."""

    matrix: np.ndarray

    def added(self, rows: np.ndarray) -> np.ndarray:
        """Their features, summed."""
        return added_up(len(rows), lambda part: self.matrix[rows[part]])

    def pull(self, rows: np.ndarray, toward: np.ndarray) -> np.ndarray:
        """What each row's target adds to the mean readings."""
        found = np.empty((len(rows), len(toward)), dtype=np.float32)
        small = toward.T.astype(np.float32)

        def multiply(part: slice) -> None:
            np.matmul(self.matrix[rows[part]], small, out=found[part])

        in_blocks(len(found), multiply, threads=for_one_pass(len(found)))
        return found

    def right(self, target: np.ndarray) -> np.ndarray:
        """The right-hand side of a regression."""
        return right_side(self.matrix, target)


@dataclass(frozen=True, eq=False)
class Around:
    """Rows by their shares of landmarks."""

    regions: Regions
    n_landmarks: int

    def added(self, rows: np.ndarray) -> np.ndarray:
        """Their shares, summed."""
        ones = np.ones((len(rows), 0))
        return self.regions.take(rows).sums(ones, self.n_landmarks)[1]

    def pull(self, rows: np.ndarray, toward: np.ndarray) -> np.ndarray:
        """What each row's target adds to the mean readings."""
        return self.regions.take(rows).read(np.ascontiguousarray(toward.T)).astype(np.float32)

    def right(self, target: np.ndarray) -> np.ndarray:
        """What the rows of each landmark are thought to be, summed."""
        return self.regions.sums(target, self.n_landmarks)[0].T


@dataclass(frozen=True, eq=False)
class Named:
    """The rows that one source votes on."""

    rows: np.ndarray
    vote: np.ndarray  # which of the classes it names, by number in `classes`
    classes: np.ndarray  # (n_named,)

    @classmethod
    def of(cls, column: np.ndarray, classes: np.ndarray | None = None) -> Named:
        """From a source's votes; `classes` are those it names on all rows, where these are only some."""
        rows = np.flatnonzero(column >= 0)
        said = column[rows].astype(np.intp)
        classes = np.unique(said) if classes is None else classes
        return cls(rows, np.searchsorted(classes, said), classes)

    @property
    def count(self) -> np.ndarray:
        """Rows it gives each class; (n_named,)."""
        return np.bincount(self.vote, minlength=len(self.classes))

    def added(self, sight: Sight, width: int) -> np.ndarray:
        """φ of the rows it gives each class, summed; (n_named, width)."""
        found = np.zeros((len(self.classes), width))
        for at in range(len(found)):
            found[at] = sight.added(self.rows[self.vote == at])
        return found


@dataclass(frozen=True, eq=False)
class Lesson:
    """What some sources taught one of the readings."""

    right: np.ndarray  # see `Sight.right`; of the target less its mean
    whole: np.ndarray  # (width,) φ of all rows, summed
    spread: np.ndarray  # (n_classes,) how far readings deviate from row to row


def left_out(
    named: Named, pull: np.ndarray, counts: np.ndarray, prior: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """What leaving a source's votes out adds to mean readings, and to the sum of the target.

    `counts` are the votes of rows for classes, (n_rows, n_classes), its own among them; `pull` has a column
    for each class it names, by one reading after another.
    """
    moved, total = np.zeros(pull.shape[1]), np.zeros(len(prior))
    given = (named.rows, named.vote, named.classes, pull, counts)
    _leave_out(*given, np.log(prior), ev.LIFT, moved, total)
    return moved, total


@compiled
def _leave_out(
    rows: Any,
    vote: Any,
    classes: Any,
    pull: Any,
    counts: Any,
    start: Any,
    lift: float,
    moved: Any,
    total: Any,
) -> None:
    n_classes = len(start)
    before, after = np.empty(n_classes), np.empty(n_classes)
    for at in range(len(rows)):
        own = classes[vote[at]]
        for label in range(n_classes):
            before[label] = start[label] + lift * counts[rows[at], label]
        after[:] = before
        after[own] -= lift
        before[:] = np.exp(before - before.max())
        after[:] = np.exp(after - after.max())
        whole, rest = before.sum(), after.sum()
        for label in range(n_classes):
            after[label] = after[label] / rest - before[label] / whole
            total[label] += after[label]
        for number in range(pull.shape[1]):
            moved[number] += pull[at, number] * after[classes[number % len(classes)]]


@dataclass(frozen=True, eq=False)
class Supported:
    """The support of one source."""

    classes: np.ndarray  # those it names
    votes: int
    support: float
    error: float

    @classmethod
    def of(
        cls,
        classes: np.ndarray,
        count: np.ndarray,
        toward: Sequence[np.ndarray],
        lessons: Sequence[Lesson],
        moved: np.ndarray,
        base: np.ndarray,
        less: np.ndarray,
    ) -> Supported:
        """By the reading that speaks for it more surely.

        `count` are the rows it gives each class it names, `toward` is d of these for each reading, `moved`
        what leaving it out adds to the mean readings by what it adds to the target of its rows, `base` what
        votes of others make of all rows, and `less` by how much that exceeds what all votes make of them.
        """
        votes = int(count.sum())
        if not votes:
            return cls(classes, 0, 0.0, 0.0)
        by_reading = []
        whole, parts = _inside(base[classes]), moved.reshape(len(lessons), -1)
        for d, lesson, part in zip(toward, lessons, parts):
            right = lesson.right
            right = np.vstack([-right, right]) if len(right) == 1 else right
            others = right[classes] - np.outer(less[classes], lesson.whole)
            reading = _inside(base[classes] + (d * others).sum(axis=1) + part)
            error = lesson.spread[classes] / (reading * (1 - reading)) / np.sqrt(count)
            share, gain = count / votes, _logit(reading) - _logit(whole)
            by_reading.append((float(share @ gain), float(np.linalg.norm(share * error))))
        return cls(classes, votes, *max(by_reading, key=lambda x: x[0] / max(x[1], 1e-12)))


def _inside(shares: np.ndarray) -> np.ndarray:
    return np.asarray(np.clip(shares, ev.FAINTEST, 1 - ev.FAINTEST))


def _logit(share: np.ndarray) -> np.ndarray:
    return np.asarray(np.log(share) - np.log1p(-share))


Regress = Callable[[np.ndarray], tuple[np.ndarray, Regressed]]
"""What some of the sources, (n_sources,) bool, teach, and the class balance they tell."""
Ask = Callable[[np.ndarray], list[Supported] | None]
"""The support of every source where some of them, (n_sources,) bool, teach; None if these teach nothing."""


def who_tell(votes: np.ndarray, tells: Callable[[np.ndarray], bool]) -> np.ndarray | None:
    """Sources whose votes vectors foretell, (n_sources,) bool: all, or all but a broad one; None if neither.

    A source that is wrong on most rows of a class hides what vectors say of the others' votes. `votes` are
    how many each casts.
    """
    everybody = np.ones(len(votes), dtype=bool)
    if tells(everybody):
        return everybody
    if len(votes) >= FEWEST_SOURCES:
        for at in np.argsort(-votes, kind="stable")[:BROADEST]:
            others = np.ones(len(votes), dtype=bool)
            others[at] = False
            if tells(others):
                return others
    return None


def judged(first: np.ndarray, n_classes: int, ask: Ask) -> tuple[np.ndarray, np.ndarray]:
    """Which sources are heard, (n_sources,) bool, and the support of each; at `first` some of them are."""
    kept, support = first, np.zeros(len(first))
    asked: dict[bytes, list[Supported] | None] = {}
    for _ in range(ROUNDS):
        key = kept.tobytes()  # two sources may silence each other in turn
        if key not in asked:
            asked[key] = ask(kept)
        found = asked[key]
        if found is None:  # without those that were silenced vectors tell nothing: all are heard
            return np.ones(len(first), dtype=bool), support
        support = np.array([each.support for each in found])
        before, kept = kept, _heard(found, n_classes)
        if (kept == before).all():
            break
    return kept, support


def _heard(found: Sequence[Supported], n_classes: int) -> np.ndarray:
    support, error = (np.array([getattr(x, name) for x in found]) for name in ("support", "error"))
    votes = np.array([each.votes for each in found])
    known = support[votes >= FEWEST_VOTES]
    usual = float(np.quantile(known, QUANTILE)) if len(known) >= FEWEST_SOURCES else 0.0
    if usual <= 0:
        return np.ones(len(found), dtype=bool)
    error = np.maximum(error, 1e-12)
    spread = np.hypot(DEVIATION * usual, error)
    worth = np.log(ODDS) + _log_density((np.minimum(support, usual) - usual) / spread, spread)
    kept = (votes == 0) | (worth >= _log_density(np.maximum(support, 0.0) / error, error))
    for label in range(n_classes):
        who = [at for at, each in enumerate(found) if label in each.classes]
        if who and not kept[who].any():
            kept[min(who, key=lambda at: (len(found[at].classes), -support[at]))] = True
    return np.asarray(kept)


def _log_density(standard: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    return np.asarray(-(standard**2) / 2 - np.log(deviation))


def lessons_of(
    taught: Regressed, whole: Sequence[np.ndarray], some: Regions | None
) -> list[Lesson]:
    """What either reading was taught; `some` are rows on which that of landmarks is seen to deviate."""
    found = [Lesson(taught.right, whole[0], taught.spread)]
    if some is not None:
        spread = some.read(thought(taught.sums.T, whole[1])).std(axis=0)
        found.append(Lesson(taught.sums, whole[1], spread))
    return found


def directions(added: np.ndarray, count: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """d of each class a source names, from φ of its rows, summed; (n_named, width).

    `inverse` is that of a regression, or of landmarks one number each.
    """
    mean = added / np.maximum(count, 1)[:, None]
    return np.asarray(mean @ inverse if inverse.ndim == 2 else mean * inverse)
