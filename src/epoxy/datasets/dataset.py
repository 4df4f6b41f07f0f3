"""The value every reader gives: named splits of rows, votes, vectors and true labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import UnknownName
from ..votes import Split, Votes


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows in splits, with what is known about them.

    Parameters
    ----------
    splits
        `train`, `dev`, `test`, those there are. The train split never carries true labels, so that
        nothing can learn from them by mistake.
    tables
        The rows of each split, as pyarrow tables.
    truth
        True class indices of each split where they are known at all, −1 where not; train's are
        reachable here only. For scoring.
    scoring, positive
        What the task is scored by, and for `f1` the class it is of.
    """

    name: str
    classes: tuple[str, ...]
    splits: Mapping[str, Split]
    tables: Mapping[str, Any]
    truth: Mapping[str, np.ndarray] = field(default_factory=dict)
    scoring: str = "accuracy"
    positive: str | None = None

    @classmethod
    def sealed(
        cls,
        name: str,
        classes: tuple[str, ...],
        splits: Mapping[str, Split],
        tables: Mapping[str, Any],
        **more: Any,
    ) -> Dataset:
        """From splits with all their true labels; train's are kept out of its split."""
        truth = {key: split.truth for key, split in splits.items() if split.labelled.any()}
        kept = {
            key: Split(split.votes, split.vectors, ids=split.ids) if key == "train" else split
            for key, split in splits.items()
        }
        return cls(name, classes, kept, tables, truth, **more)

    @property
    def train(self) -> Split:
        """The rows to label."""
        return self.split("train")

    @property
    def dev(self) -> Split:
        """The few rows whose true labels may be used to tune."""
        return self.split("dev")

    @property
    def test(self) -> Split:
        """The rows whose true labels may be used to report, and for nothing else."""
        return self.split("test")

    @property
    def sources(self) -> tuple[str, ...]:
        """Who votes; empty where no labeling function has been applied yet."""
        return next(iter(self.splits.values())).votes.sources

    def split(self, name: str) -> Split:
        """One split by name."""
        try:
            return self.splits[name]
        except KeyError:
            raise UnknownName.of(f"split of {self.name!r}", name, self.splits) from None

    def rows(self, name: str) -> Any:
        """One split's rows as a pyarrow table."""
        self.split(name)
        return self.tables[name]

    def prepare(
        self, lfs: Sequence[Any] | None = None, *, encoder: Any = None, column: str | None = None
    ) -> tuple[Split, ...]:
        """Vote and embed, once; return the splits in their order: train, dev, test.

        Parameters
        ----------
        lfs
            Labeling functions for `epoxy.apply`; the votes the data came with when not given.
        encoder
            Anything `epoxy.encoders.resolve` takes, fitted on train; the vectors the data came
            with when not given.
        column
            What the encoder reads, where the rows have several columns.
        """
        votes = [split.votes for split in self.splits.values()]
        vectors = [split.vectors for split in self.splits.values()]
        tables = [self.tables[name] for name in self.splits]
        if lfs is not None:
            votes = [self._vote(lfs, table) for table in tables]
        if encoder is not None:
            from ..encoders import embed

            vectors = list(embed(encoder, *tables, column=column))
        parts = zip(self.splits.values(), votes, vectors, strict=True)
        return tuple(Split(v, x, split.y, split.ids) for split, v, x in parts)

    def _vote(self, lfs: Sequence[Any], table: Any) -> Votes:
        from ..functions.apply import apply

        return apply(lfs, table, classes=self.classes)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {split.n_rows}" for name, split in self.splits.items())
        return f"Dataset({self.name!r}, {sizes}, {len(self.classes)} classes)"
