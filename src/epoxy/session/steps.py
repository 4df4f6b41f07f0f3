"""The small steps a session is made of: checking, stacking, joining, comparing. No state."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ..diagnostics import scores
from ..errors import AlignmentError, VoteError
from ..label_models import LabelModel, Triplet, balance_of
from ..votes import ABSTAIN, Split, Votes
from .versions import Change, Source, Version

__all__ = [
    "DEV",
    "TRAIN",
    "Told",
    "change_between",
    "check_same",
    "column_of",
    "default_model",
    "extended_votes",
    "joined",
    "most_probable",
    "stack",
    "truth_of",
    "with_source",
]

TRAIN, DEV = 0, 1


def default_model(dev: Split | None) -> LabelModel:
    """`Triplet`, with the class balance of dev where it is known."""
    if dev is None or not dev.labelled.any():
        return Triplet()
    return Triplet(balance_of(dev).tolist())


def truth_of(split: Split) -> np.ndarray:
    """True labels as indices, −1 where unknown."""
    return np.full(split.n_rows, ABSTAIN) if split.y is None else split.y


def check_same(splits: Sequence[Split]) -> None:
    """Refuse splits of different sources or classes."""
    first = splits[0].votes
    for other in splits[1:]:
        if other.votes.sources != first.sources or other.classes != first.classes:
            raise AlignmentError(
                "train and dev must have the same sources and classes, got "
                f"{list(first.sources)[:5]} and {list(other.votes.sources)[:5]}"
            )


def column_of(source: str, column: Any, n_rows: int, classes: tuple[str, ...]) -> np.ndarray:
    """Votes of one source, given as indices or names, as a checked column."""
    raw = np.asarray(column)
    if raw.shape != (n_rows,):
        raise AlignmentError(
            f"source {source!r} needs one vote per row, got shape {raw.shape} for {n_rows} rows"
        )
    if raw.dtype.kind not in "iu":
        position: dict[Any, int] = {name: at for at, name in enumerate(classes)}
        position[None] = ABSTAIN
        try:
            raw = np.array([position[each] for each in raw.tolist()])
        except KeyError as error:
            raise VoteError(
                f"source {source!r} votes {error.args[0]!r}; expected one of {list(classes)} or None"
            ) from None
    if len(classes) <= 127 and n_rows and raw.min() >= ABSTAIN and raw.max() < len(classes):
        return raw.astype(np.int8)  # checked; what follows is for other sizes and for wrong votes
    return np.ascontiguousarray(Votes(raw[:, None], [source], classes).matrix[:, 0])


def stack(columns: Sequence[np.ndarray], rows: int) -> np.ndarray:
    """Columns side by side, column-contiguous."""
    if not columns:
        return np.empty((rows, 0), dtype=np.int8, order="F")
    return np.stack(columns).T


def extended_votes(version: Version, at: int) -> Votes:
    """What the sources that are switched on say about split `at` after extension."""
    split, used = version.splits[at], version.active
    matrix = stack([source.extended[at] for source in used], split.n_rows)
    names = tuple(source.name for source in used)
    return Votes.of_checked(matrix, names, split.classes, split.votes.sequences)


def with_source(version: Version, source: Source) -> Version:
    """A version with one source replaced, or added at the end."""
    if version.source(source.name) is None:
        return version.decided((*version.sources, source))
    kept = [source if each.name == source.name else each for each in version.sources]
    return version.decided(tuple(kept))


def joined(train: Split, more: Split) -> Split:
    """The train rows followed by new ones."""
    if more.votes.sources != train.votes.sources or more.classes != train.classes:
        raise AlignmentError(
            f"appended rows need votes of the sources {list(train.votes.sources)[:8]}, "
            f"got {list(more.votes.sources)[:8]}"
        )
    if (more.vectors is None) != (train.vectors is None):
        raise AlignmentError("appended rows need vectors exactly when the train rows have them")
    votes = Votes(
        np.concatenate([train.votes.matrix, more.votes.matrix]), train.votes.sources, train.classes
    )
    vectors = None if train.vectors is None else np.concatenate([train.vectors, more.vectors])
    y = np.concatenate([truth_of(train), truth_of(more)])
    ids = np.concatenate([np.asarray(train.ids), np.asarray(more.ids)])
    return Split(votes, vectors, y, ids)


@dataclass(frozen=True, eq=False)
class Told:
    """Every row whose truth is known, dev rows and hand-labelled train rows alike."""

    truth: tuple[np.ndarray, ...]  # what it was read from, by split
    rows: tuple[np.ndarray | slice, ...]  # by split
    labels: np.ndarray  # of all of them, one split after the other

    @classmethod
    def of(cls, truth: tuple[np.ndarray, ...]) -> Self:
        """Find the rows once; edits of sources leave them alone."""
        known = [each != ABSTAIN for each in truth]
        labels = [each[where] for each, where in zip(truth, known)]
        rows = (slice(None) if where.all() else np.flatnonzero(where) for where in known)
        return cls(truth, tuple(rows), np.concatenate(labels))

    def scores(
        self, proba: Sequence[np.ndarray], classes: Sequence[str], positive: str | None
    ) -> dict[str, float]:
        """Scores of these probabilities on them; empty where nothing is known."""
        if not len(self.labels):
            return {}
        parts = [each[rows] for each, rows in zip(proba, self.rows)]
        parts = [each for each in parts if len(each)]
        said = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return scores(said, self.labels, classes, positive=positive)


def most_probable(proba: np.ndarray) -> np.ndarray:
    """The class with the largest probability, the first of equals."""
    if proba.shape[1] == 2:  # many times as fast as argmax over pairs
        return np.asarray(proba[:, 1] > proba[:, 0]).view(np.int8)
    return np.asarray(proba.argmax(axis=1))


def _flipped(before: Version, now: Version) -> np.ndarray:
    """Train rows whose label differs between two versions."""
    if not before.labels or not now.labels:
        rows = now.splits[TRAIN].n_rows if before.labels or now.labels else 0
        return np.arange(rows)
    old, new = before.labels[TRAIN], now.labels[TRAIN]
    shared = min(len(old), len(new))
    return np.flatnonzero(old[:shared] != new[:shared])


def _coverage_of(source: Source | None) -> float:
    """Share of train rows a source votes on after extension."""
    if source is None or not len(source.extended[TRAIN]):
        return 0.0
    column = source.extended[TRAIN]
    return float(np.count_nonzero(column != ABSTAIN) / len(column))


def change_between(
    before: Version, now: Version, what: str, source: str | None, start: float
) -> Change:
    """What an edit of `source`, begun at `start` by `time.perf_counter`, made different."""
    old, new = (each.source(source) if source else None for each in (before, now))
    return Change(
        version=now.number,
        what=what,
        source=source,
        flipped=_flipped(before, now),
        before=before.scores,
        after=now.scores,
        coverage=None if source is None else (_coverage_of(old), _coverage_of(new)),
        seconds=time.perf_counter() - start,
        searched=0.0 if new is None else now.index.searched(new.reach[TRAIN]),
        problem=now.problem,
    )
