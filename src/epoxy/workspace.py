"""What a model reads: the current votes, who lends them, and the hand labels, as one frozen value.

A session edits a `Workspace` by making the next one; whatever an edit leaves alone is the same object
in both, so a model that keeps something from one to the next compares by identity and recomputes
what is new. Nothing else has to be told what happened, and a step back is a step like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from .extension import AUTO, Setting, as_settings
from .inputs import nearly
from .loans import Loans, Neighbourhood
from .votes import ABSTAIN, RANDOM, Split, Votes, check_alike

TRAIN, DEV = 0, 1
SPLITS = ("train", "dev")
"""The names of the splits, in this order."""


@dataclass(frozen=True, eq=False)
class Source:
    """One source over all splits."""

    name: str
    loans: tuple[Loans, ...]  # its votes, and who lends them, on each split; train first
    radius: Setting = AUTO  # as its author set it
    is_on: bool = True
    tuned: Setting = AUTO  # for the paper's pipeline: as tuning chose it since, else as it was set

    def __repr__(self) -> str:
        return f"Source({self.name!r}, radius={self.radius!r}, {'on' if self.is_on else 'off'})"

    @property
    def own(self) -> tuple[np.ndarray, ...]:
        """Its votes on each split."""
        return tuple(each.own for each in self.loans)


@dataclass(frozen=True, eq=False)
class HandLabels:
    """The rows a person labelled, on every split: what each is, and how it was chosen."""

    y: tuple[np.ndarray, ...]  # per split, (n_rows,) class index, −1 unknown
    chosen: tuple[np.ndarray, ...]  # per split, (n_rows,) object: a word, or None for not known
    wrong: tuple[
        np.ndarray, ...
    ]  # per split, (n_rows,) how often such a label is wrong; 0: trusted

    @classmethod
    def of(cls, splits: Sequence[Split]) -> HandLabels:
        """The true labels the splits came with; those of train are never looked at."""
        unknown, nobody, right = (np.array(each) for each in (ABSTAIN, None, 0.0))
        y = tuple(
            np.broadcast_to(unknown, split.n_rows) if at == TRAIN else split.truth
            for at, split in enumerate(splits)
        )
        chosen = tuple(
            np.broadcast_to(nobody, split.n_rows)
            if at == TRAIN or split.chosen is None
            else split.chosen
            for at, split in enumerate(splits)
        )
        return cls(y, chosen, tuple(np.broadcast_to(right, len(each)) for each in y))

    def __repr__(self) -> str:
        return f"HandLabels({self.count} rows)"

    @cached_property
    def rows(self) -> tuple[np.ndarray, ...]:
        """The labelled rows of each split, ascending."""
        return tuple(np.flatnonzero(each != ABSTAIN) for each in self.y)

    @cached_property
    def count(self) -> int:
        """How many rows are labelled."""
        return sum(map(len, self.rows))

    @cached_property
    def labels(self) -> np.ndarray:
        """Their classes, one split after the other, dev first; (count,)."""
        return self.gather(self.y)

    @cached_property
    def words(self) -> np.ndarray:
        """How each was chosen, in the same order; (count,) object."""
        return self.gather(self.chosen)

    @cached_property
    def representative(self) -> np.ndarray:
        """Those drawn at random, as far as is known, in the same order; (count,) bool."""
        words = self.words.tolist()
        return np.array([word is None or word == RANDOM for word in words], dtype=bool)

    @cached_property
    def counted(self) -> tuple[tuple[int, np.ndarray], ...]:
        """Each class among the representative rows, and which of the labelled rows those are."""
        drawn = np.flatnonzero(self.representative)
        labels = self.labels[drawn]
        return tuple((int(label), drawn[labels == label]) for label in np.unique(labels))

    @cached_property
    def told_random(self) -> np.ndarray:
        """Those told to be drawn at random, in the same order; (count,) bool."""
        return np.array([word == RANDOM for word in self.words.tolist()], dtype=bool)

    @property
    def by_choice(self) -> dict[Any, int]:
        """How many there are, and how they were chosen."""
        words = self.words.tolist()
        random, unknown = words.count(RANDOM), words.count(None)
        told = len(words) - random - unknown
        return {"total": len(words), "random": random, "chosen": told, "unknown": unknown}

    @property
    def misspelt(self) -> str:
        """A sentence on words of choice that are nearly "random"; empty where there is none."""
        words = [word for word in self.words.tolist() if word and nearly(word, RANDOM)]
        if not words:
            return ""
        given = " and ".join(map(repr, dict.fromkeys(words)))
        return (
            f"chosen={given} of {len(words)} hand label{'s' * (len(words) > 1)} is another word than "
            f"{RANDOM!r}, so no score rests on such rows; write {RANDOM!r} if that is meant"
        )

    @cached_property
    def _settled(self) -> tuple[np.ndarray, ...]:
        """Rows of each split whose hand label is trusted."""
        return tuple(rows[self.wrong[at][rows] == 0] for at, rows in enumerate(self.rows))

    @property
    def order(self) -> tuple[int, ...]:
        """The splits in the order in which labelled rows are listed: dev rows, then train rows."""
        return (*range(1, len(self.y)), TRAIN)

    def gather(self, per_split: Sequence[np.ndarray]) -> np.ndarray:
        """What `per_split` says of the labelled rows, in the order of `labels`."""
        parts = [
            per_split[at].take(self.rows[at], axis=0) for at in self.order if len(self.rows[at])
        ]
        if len(parts) == 1:
            return np.asarray(parts[0])
        return np.concatenate(parts or [per_split[TRAIN][:0]])

    def part(self, at: int) -> slice:
        """The labelled rows of split `at` in the order of `labels`."""
        before = self.order[: self.order.index(at)]
        start = sum(len(self.rows[each]) for each in before)
        return slice(start, start + len(self.rows[at]))

    def gather_columns(self, per_split: Sequence[Sequence[np.ndarray]]) -> np.ndarray:
        """What columns of every split say of the labelled rows; (n_columns, count)."""
        parts = [
            np.stack([column.take(self.rows[at]) for column in per_split[at]])
            for at in self.order
            if len(self.rows[at])
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    @cached_property
    def noise(self) -> np.ndarray:
        """How often each label is wrong, as far as was told, in the same order; (count,)."""
        return self.gather(self.wrong)

    def settled(self, at: int, labels: np.ndarray) -> np.ndarray:
        """Labels of split `at` with trusted hand labels in their place."""
        rows = self._settled[at]
        if not len(rows):
            return labels
        found = labels.astype(self.y[at].dtype) if len(self.y[at]) else labels
        found[rows] = self.y[at][rows]
        return found

    def with_labels(self, given: Iterable[tuple[int, int, int, str | None, float]]) -> HandLabels:
        """The same with labels of rows given, or with −1 taken back.

        Each is a split, a row, the label, how the row was chosen, and how often such a label is wrong.
        """
        found = [list(self.y), list(self.chosen), list(self.wrong)]
        copied = set()
        for at, row, *values in given:
            if at not in copied:
                copied.add(at)
                for arrays in found:
                    arrays[at] = arrays[at].copy()
            for arrays, value in zip(found, values, strict=True):
                arrays[at][row] = value
        return HandLabels(*map(tuple, found))

    def with_train(self, train: Split) -> HandLabels:
        """The same with hand labels on train rows, which their author gave as such."""
        words = train.chosen
        chosen = np.full(train.n_rows, None, dtype=object) if words is None else words
        y = train.truth
        return HandLabels(
            (y, *self.y[1:]), (chosen, *self.chosen[1:]), (np.zeros(len(y)), *self.wrong[1:])
        )

    def resized(self, n_train: int) -> HandLabels:
        """The same over so many train rows: the last are cut off, or unlabelled ones follow."""
        more = max(0, n_train - len(self.y[TRAIN]))
        new = (np.full(more, ABSTAIN), np.full(more, None, dtype=object), np.zeros(more))
        parts = zip((self.y, self.chosen, self.wrong), new)
        return HandLabels(
            *((np.concatenate([each[TRAIN][:n_train], end]), *each[1:]) for each, end in parts)
        )


@dataclass(frozen=True, eq=False)
class Workspace:
    """Votes, vectors and hand labels of a train split and, where there is one, a dev split."""

    splits: tuple[Split, ...]  # for vectors, ids and sequences; their votes are not kept up to date
    sources: tuple[Source, ...]
    labels: HandLabels
    near: Neighbourhood
    balance: tuple[float, ...] | None = (
        None  # class shares that tuning chose for the paper's pipeline
    )

    @classmethod
    def over(
        cls,
        train: Split,
        dev: Split | None,
        near: Neighbourhood,
        settings: Sequence[Setting] | None = None,
        new: Split | None = None,
    ) -> Workspace:
        """Take up splits as they are, with one radius setting per source (None: all `AUTO`)."""
        splits = tuple(each for each in (train, dev, new) if each is not None)
        check_alike(*splits)
        names = train.votes.sources
        radii = [AUTO] * len(names) if settings is None else as_settings(list(settings), names)
        own = [[column_of(split, at) for split in splits] for at in range(len(names))]
        loans = near.lend_all(own)
        sources = tuple(
            Source(name, lent, radius, tuned=radius)
            for name, lent, radius in zip(names, loans, radii, strict=True)
        )
        return cls(splits, sources, HandLabels.of(splits), near)

    def __repr__(self) -> str:
        rows = " and ".join(str(split.n_rows) for split in self.splits)
        return (
            f"Workspace({rows} rows, {len(self.sources)} sources, {self.labels.count} hand labels)"
        )

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes."""
        return self.splits[TRAIN].classes

    @cached_property
    def active(self) -> tuple[Source, ...]:
        """The sources that are switched on."""
        return tuple(source for source in self.sources if source.is_on)

    @property
    def is_tuned(self) -> bool:
        """Whether radii or class shares of the paper's pipeline were chosen on hand labels."""
        return self.balance is not None or any(each.tuned != each.radius for each in self.active)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the active sources."""
        return tuple(source.name for source in self.active)

    def source(self, name: str) -> Source | None:
        """A source by name, None if there is none."""
        return next((source for source in self.sources if source.name == name), None)

    def with_source(self, source: Source) -> Workspace:
        """The same with one source replaced, or added at the end."""
        if self.source(source.name) is None:
            return replace(self, sources=(*self.sources, source))
        kept = (source if each.name == source.name else each for each in self.sources)
        return replace(self, sources=tuple(kept))

    def columns(
        self, at: int, columns: Sequence[np.ndarray], sources: tuple[str, ...] | None = None
    ) -> Votes:
        """Columns about the rows of split `at` as votes: of the active sources, or of those named."""
        names = self.names[: len(columns)] if sources is None else sources
        return self.splits[at].votes.with_columns(columns, names)

    def own(self, at: int, *, every: bool = False) -> Votes:
        """The active sources' own votes on split `at`; `every` includes those switched off."""
        used = self.sources if every else self.active
        names = tuple(source.name for source in used)
        return self.columns(at, [source.loans[at].own for source in used], names)

    def split(self, at: int, *, every: bool = False) -> Split:
        """Split `at` with its current votes and hand labels."""
        now = self.splits[at]
        labels = self.labels
        told = any(word is not None for word in labels.words.tolist())
        given = labels.chosen[at] if told else None
        return Split.of_checked(
            self.own(at, every=every), now.vectors, labels.y[at], now.ids, given
        )

    def hand_labelled(self) -> Split | None:
        """All labelled rows, dev rows first: what `Fusion().fit(train, …)` learns from."""
        parts = [self.split(at).rows(self.labels.rows[at]) for at in self._labelled]
        parts = [part.without_sequences() for part in parts]
        if not parts:
            return None
        return parts[0] if len(parts) == 1 else parts[0].followed_by(parts[1])

    @cached_property
    def label_groups(self) -> np.ndarray:
        """Labelled rows that must be held out together: those of one sequence share a number; (count,)."""
        places: list[tuple[int, Any]] = []
        for at in self.labels.order:
            ids = self.splits[at].votes.sequences
            rows = self.labels.rows[at].tolist()
            places += [(at, row if ids is None else str(ids[row])) for row in rows]
        numbers = {place: number for number, place in enumerate(dict.fromkeys(places))}
        return np.array([numbers[place] for place in places], dtype=np.intp)

    def hand_loans(self) -> tuple[Loans, ...]:
        """Who lends to the labelled rows, for each active source."""
        return tuple(
            Loans.joined([each.loans[at].rows(self.labels.rows[at]) for at in self._labelled])
            for each in self.active
        )

    @property
    def _labelled(self) -> list[int]:
        """The splits with labelled rows, in the order in which these are listed."""
        return [at for at in self.labels.order if len(self.labels.rows[at])]


def column_of(split: Split, at: int) -> np.ndarray:
    """One source's votes as an array of its own."""
    return np.ascontiguousarray(split.votes.matrix[:, at])
