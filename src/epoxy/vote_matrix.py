"""Who said what about each row: the matrix of votes, frozen and checked once, when made.

A column (one source over all rows) is the unit of work, of caching and of distribution, so the matrix
is kept column-contiguous.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import MissingExtra, UnknownName, VoteError
from .inputs import as_matrix, as_sequences, class_names, source_names

ABSTAIN = -1
"""What the matrix holds where a source does not vote."""


@dataclass(frozen=True, eq=False)
class Votes:
    """Who said what about each row.

    Parameters
    ----------
    matrix
        One row per row, one column per source; −1 abstains, otherwise an index into `classes`.
    sources
        Names of the columns; `source_0`, `source_1`, … when not given.
    classes
        The user's own labels; `"0"`, `"1"`, … up to the largest vote when not given.
    sequences
        For rows that belong to sequences: one sequence id per row, rows of one sequence adjacent
        and in order. `None` means that rows are independent.

    Examples
    --------
    >>> votes = Votes([[0, -1], [1, 1], [-1, -1]], sources=["short", "link"], classes=["ham", "spam"])
    >>> votes.coverage.round(2).tolist()
    [0.67, 0.33]
    """

    matrix: np.ndarray  # (n_rows, n_sources) int8, Fortran order
    sources: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    sequences: np.ndarray | None = None  # (n_rows,) or None

    def __init__(
        self,
        matrix: Any,
        sources: Iterable[str] | None = None,
        classes: Iterable[str] | None = None,
        *,
        sequences: Any = None,
    ) -> None:
        raw = as_matrix(matrix)
        names = source_names(sources, raw.shape[1])
        labels = class_names(classes, raw)
        _check_range(raw, names, labels)
        dtype = np.int8 if len(labels) <= 127 else np.int16
        # a private copy unless nothing has to change: a frozen value must not alias a mutable input
        stored = np.array(raw, dtype=dtype, order="F", copy=True)
        stored.flags.writeable = False
        object.__setattr__(self, "matrix", stored)
        object.__setattr__(self, "sources", names)
        object.__setattr__(self, "classes", labels)
        object.__setattr__(self, "sequences", as_sequences(sequences, len(raw)))

    @classmethod
    def from_snorkel(
        cls,
        matrix: Any,
        sources: Iterable[str] | None = None,
        classes: Iterable[str] | None = None,
    ) -> Votes:
        """Read a Snorkel or WRENCH label matrix: −1 abstains, classes count from 0."""
        return cls(matrix, sources, classes)

    @classmethod
    def from_signed(
        cls,
        matrix: Any,
        sources: Iterable[str] | None = None,
        classes: Iterable[str] = ("negative", "positive"),
    ) -> Votes:
        """Read FlyingSquid's or the paper's signed votes: 0 abstains, −1 and +1 are the two classes."""
        raw = as_matrix(matrix)
        names = source_names(sources, raw.shape[1])
        wrong = np.argwhere(~np.isin(raw, (-1, 0, 1)))
        if len(wrong):
            row, column = wrong[0]
            raise VoteError(
                f"source {names[column]!r} holds {raw[row, column]} on row {row}; "
                "signed votes are -1, 0 (abstain) or 1; use Votes(...) for votes that count from 0"
            )
        return cls(np.where(raw == 0, ABSTAIN, (raw + 1) // 2), names, classes)

    def to_signed(self) -> np.ndarray:
        """Return the votes as FlyingSquid wants them: int64, 0 abstains, −1 and +1."""
        if len(self.classes) != 2:
            raise VoteError(
                f"signed votes know two classes, these have {len(self.classes)}; "
                "take one class against the rest first"
            )
        wide = self.matrix.astype(np.int64)
        return np.where(wide == ABSTAIN, 0, 2 * wide - 1)

    def to_pandas(self) -> Any:
        """A pandas DataFrame with a column of class names for each source, missing where it abstains."""
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtra("Votes.to_pandas needs pandas; run: pip install pandas") from error
        dtype = pd.CategoricalDtype(list(self.classes))
        columns = [pd.Categorical.from_codes(each, dtype=dtype) for each in self.matrix.T]
        frame = pd.DataFrame(dict(enumerate(columns)), index=range(self.n_rows))
        return frame.set_axis(list(self.sources), axis=1)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.matrix.shape[0])

    @property
    def n_sources(self) -> int:
        """Number of sources."""
        return len(self.sources)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @property
    def cast(self) -> np.ndarray:
        """Where a source votes, True; (n_rows, n_sources)."""
        return np.asarray(self.matrix != ABSTAIN)

    @property
    def coverage(self) -> np.ndarray:
        """Share of rows each source votes on; (n_sources,)."""
        return np.asarray(self.cast.mean(axis=0)) if self.n_rows else np.zeros(self.n_sources)

    @property
    def covered(self) -> np.ndarray:
        """Rows that at least one source votes on; (n_rows,) bool."""
        return np.asarray(self.cast.any(axis=1))

    @property
    def polarity(self) -> tuple[tuple[str, ...], ...]:
        """For each source, the classes it ever names."""
        return tuple(
            tuple(name for index, name in enumerate(self.classes) if (column == index).any())
            for column in self.matrix.T
        )

    def index_of(self, source: str) -> int:
        """Position of a source by name."""
        try:
            return self.sources.index(source)
        except ValueError:
            raise UnknownName.of("source", source, self.sources) from None

    def column(self, source: str) -> np.ndarray:
        """One source's votes over all rows."""
        return np.asarray(self.matrix[:, self.index_of(source)])

    def rows(self, index: Any) -> Votes:
        """The same sources on a selection of rows (a mask, a slice or indices)."""
        sequences = None if self.sequences is None else self.sequences[index]
        return Votes(self.matrix[index], self.sources, self.classes, sequences=sequences)

    def only(self, sources: Sequence[str]) -> Votes:
        """The same rows with only the named sources, in the order named."""
        keep = [self.index_of(source) for source in sources]
        return Votes(self.matrix[:, keep], sources, self.classes, sequences=self.sequences)

    def with_matrix(self, matrix: np.ndarray) -> Votes:
        """Other votes by the same sources about the same rows."""
        return Votes(matrix, self.sources, self.classes, sequences=self.sequences)

    @classmethod
    def of_checked(
        cls,
        matrix: np.ndarray,
        sources: tuple[str, ...],
        classes: tuple[str, ...],
        sequences: np.ndarray | None = None,
    ) -> Votes:
        """Wrap a matrix made of votes that were checked before, without copying or checking again.

        For loops in which a copy would be the larger half of the work; the caller gives the matrix up.
        """
        votes = object.__new__(cls)
        matrix.flags.writeable = False
        for name, value in (
            ("matrix", matrix),
            ("sources", sources),
            ("classes", classes),
            ("sequences", sequences),
        ):
            object.__setattr__(votes, name, value)
        return votes

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        density = float(self.cast.mean()) if self.matrix.size else 0.0
        return (
            f"Votes({self.n_rows} rows × {self.n_sources} sources, {self.n_classes} classes, "
            f"{density:.1%} cast)"
        )

    def _repr_html_(self) -> str:
        return sources_in_html(self, repr(self))


def sources_in_html(votes: Votes, title: str, **more: Iterable[Any]) -> str:
    """A table of what each source says, for notebooks; `more` are columns of other facts."""
    from .diagnostics.report import Column, Table

    forms = {"coverage": "share", "radius": "number"}
    told: dict[str, Iterable[Any]] = {"source": votes.sources, "names": votes.polarity}
    told |= {"coverage": votes.coverage.tolist(), **more}
    columns = tuple(Column(name, name, forms.get(name, "text")) for name in told)
    rows = tuple(dict(zip(told, each)) for each in zip(*told.values(), strict=True))
    return Table(title, columns, rows)._repr_html_()


def _check_range(raw: np.ndarray, sources: Sequence[str], classes: Sequence[str]) -> None:
    """Check before narrowing: astype(int8) would wrap 300 to 44 in silence."""
    if not raw.size or (raw.min() >= ABSTAIN and raw.max() < len(classes)):
        return
    row, column = np.argwhere((raw < ABSTAIN) | (raw >= len(classes)))[0]
    raise VoteError(
        f"source {sources[column]!r} votes {raw[row, column]} on row {row}; "
        f"expected -1 to abstain or 0 to {len(classes) - 1} for {list(classes)[:10]}"
    )
