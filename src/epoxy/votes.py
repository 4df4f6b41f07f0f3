"""The two values everything else is a function of: `Votes`, and the row-aligned `Split`.

Both are frozen, and checked once, when made. A column of votes (one source over all rows) is the unit of
work, of caching and of distribution, so the matrix is kept column-contiguous.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import mapped
from .errors import AlignmentError, LabelError, MissingExtra, UnknownName, VoteError, meant
from .inputs import as_ids, as_matrix, as_sequences, class_names, finite_vectors, source_names

ABSTAIN = -1
"""What the matrix holds where a source does not vote."""

RANDOM = "random"
"""In `Split.chosen`: the row was drawn at random, so that what it shows holds for the others."""


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
        known = as_sequences(sequences, len(raw))
        vars(self).update(matrix=stored, sources=names, classes=labels, sequences=known)

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
    def columns(self) -> tuple[np.ndarray, ...]:
        """The votes source by source; (n_rows,) each."""
        return tuple(self.matrix.T)

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

    def with_columns(
        self, columns: Sequence[np.ndarray], sources: tuple[str, ...] | None = None
    ) -> Votes:
        """Columns that were checked before, one per source, about the same rows."""
        shape, kind = (len(columns), self.n_rows), np.result_type(np.int8, *columns)
        stacked = mapped.empty((shape[0] * shape[1],), kind).reshape(shape)
        for into, column in zip(stacked, columns, strict=True):
            into[:] = column
        names = self.sources if sources is None else sources
        return Votes.of_checked(stacked.T, names, self.classes, self.sequences)

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
        vars(votes).update(matrix=matrix, sources=sources, classes=classes, sequences=sequences)
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


@dataclass(frozen=True, eq=False)
class Split:
    """Votes, vectors and true labels of the same rows; alignment is checked once, here.

    Parameters
    ----------
    votes
        A `Votes`.
    vectors
        One finite vector per row, or None; kept as float32.
    y
        True labels, as class names or indices; None or −1 where unknown. Kept as indices.
    ids
        A name per row, kept for reports and exports; 0, 1, … when not given.
    chosen
        How each labelled row came to be labelled: `"random"`, any other word (`"least sure"`), or None
        where that is not known. One word stands for all rows.
    """

    votes: Votes
    vectors: np.ndarray | None = None  # (n_rows, dimension) float32
    y: np.ndarray | None = None  # (n_rows,) int64, -1 unknown
    ids: np.ndarray | None = None  # (n_rows,)
    chosen: np.ndarray | None = None  # (n_rows,) object: a word, or None for not known

    def __init__(
        self, votes: Votes, vectors: Any = None, y: Any = None, ids: Any = None, chosen: Any = None
    ) -> None:
        if not isinstance(votes, Votes):
            raise VoteError(
                f"a Split needs Votes first, got {type(votes).__name__}; wrap it: Votes(matrix)"
            )
        lengths = {"votes": votes.n_rows}
        if isinstance(chosen, str):
            chosen = [chosen] * votes.n_rows
        named = {"vectors": vectors, "y": y, "ids": ids, "chosen": chosen}
        for name, value in named.items():
            if value is not None and (np.ndim(value) == 0 or not hasattr(value, "__len__")):
                raise AlignmentError(f"{name} hold one entry per row, got {value!r:.60}")
            lengths |= {} if value is None else {name: len(value)}
        if len(set(lengths.values())) > 1:
            raise AlignmentError(
                f"a Split must be row-aligned, got {lengths}; "
                "join by row id before you build it, never by position"
            )
        vars(self).update(
            votes=votes,
            vectors=None if vectors is None else finite_vectors(vectors),
            y=None if y is None else _as_labels(y, votes.classes, ids),
            ids=np.arange(votes.n_rows) if ids is None else as_ids(ids),
            chosen=None if chosen is None else _as_words(chosen),
        )

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.votes.n_rows

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes of the votes."""
        return self.votes.classes

    @property
    def labelled(self) -> np.ndarray:
        """Rows whose true label is known; (n_rows,) bool."""
        if self.y is None:
            return np.zeros(self.n_rows, dtype=bool)
        return np.asarray(self.y != ABSTAIN)

    @property
    def representative(self) -> np.ndarray:
        """Labelled rows that were drawn at random, as far as is known; (n_rows,) bool.

        Rows whose choice is not known count: shares and scores that rest on them are marked.
        """
        if self.chosen is None:
            return self.labelled
        drawn = np.array([word is None or word == RANDOM for word in self.chosen.tolist()], bool)
        return np.asarray(self.labelled & drawn)

    def rows(self, index: Any) -> Split:
        """The same split on a selection of rows (a mask, a slice or indices)."""
        pick = {
            name: None if value is None else value[index]
            for name in ("vectors", "y", "ids", "chosen")
            for value in [getattr(self, name)]
        }
        return Split(self.votes.rows(index), **pick)

    def followed_by(self, other: Split) -> Split:
        """These rows and then those of another split of the same sources, classes and kind."""
        check_alike(self, other)
        if (self.vectors is None) != (other.vectors is None):
            raise AlignmentError(
                "splits can be joined when both have vectors or neither has; embed the rows of both"
            )
        named = [each.votes.sequences for each in (self, other)]
        if (named[0] is None) != (named[1] is None):
            raise AlignmentError(
                "splits can be joined when both name their sequences or neither does; "
                "give the votes of both sequences=…"
            )
        given = [each for each in named if each is not None]
        sequences = np.concatenate(given) if given else None
        matrix = np.concatenate([self.votes.matrix, other.votes.matrix])
        votes = Votes(matrix, self.votes.sources, self.classes, sequences=sequences)
        both = self, other
        words = [
            np.full(each.n_rows, None, dtype=object) if each.chosen is None else each.chosen
            for each in both
        ]
        vectors = None
        if self.vectors is not None and other.vectors is not None:
            vectors = np.concatenate([self.vectors, other.vectors])
            vectors.flags.writeable = False
        y = np.concatenate([each.truth for each in both])
        ids = np.concatenate([np.asarray(each.ids) for each in both])
        return Split.of_checked(votes, vectors, y, ids, np.concatenate(words))

    @property
    def truth(self) -> np.ndarray:
        """True labels as indices, −1 where unknown, also where none was given; (n_rows,)."""
        return np.full(self.n_rows, ABSTAIN) if self.y is None else self.y

    def id_of(self, at: int) -> Any:
        """The name of a row, as a plain number or string."""
        value = at if self.ids is None else self.ids[at]
        return value.item() if isinstance(value, np.generic) else value

    def position_of(self, row: Any) -> int:
        """Where a row is: by its id, or by position when ids are not what was given."""
        assert self.ids is not None  # filled when made
        found = np.flatnonzero(self.ids.astype(str) == str(row))
        if len(found):
            return int(found[0])
        if isinstance(row, int | np.integer) and 0 <= row < self.n_rows:
            return int(row)
        first = self.ids[0] if self.n_rows else "–"
        raise AlignmentError(
            f"no row {row!r} in this split of {self.n_rows} rows; "
            f"give one of its ids (the first is {first!r}) or a position"
        )

    @classmethod
    def of_checked(
        cls,
        votes: Votes,
        vectors: np.ndarray | None,
        y: np.ndarray | None,
        ids: np.ndarray | None,
        chosen: np.ndarray | None = None,
    ) -> Split:
        """Wrap parts that were checked before, without copying or checking again."""
        made = object.__new__(cls)
        vars(made).update(votes=votes, vectors=vectors, y=y, ids=ids, chosen=chosen)
        return made

    def without_sequences(self) -> Split:
        """The same rows, each on its own."""
        votes = Votes.of_checked(self.votes.matrix, self.votes.sources, self.classes)
        return self.with_votes(votes)

    def with_votes(self, votes: Votes) -> Split:
        """Other votes about the same rows; vectors, labels and ids are shared, not checked again."""
        if votes.n_rows != self.n_rows:
            raise AlignmentError(
                f"a Split must be row-aligned, got {{'votes': {votes.n_rows}, 'rows': {self.n_rows}}}"
            )
        return Split.of_checked(votes, self.vectors, self.y, self.ids, self.chosen)

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        vectors = "no vectors" if self.vectors is None else f"{self.vectors.shape[1]}-d vectors"
        known = int(self.labelled.sum())
        return f"Split({self.votes!r}, {vectors}, {known} true labels)"

    def _repr_html_(self) -> str:
        return sources_in_html(self.votes, repr(self))


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


def check_alike(first: Split, *others: Split) -> None:
    """Refuse splits of different sources or classes."""
    for other in others:
        if other.votes.sources != first.votes.sources or other.classes != first.classes:
            raise AlignmentError(
                f"splits must have the same sources and classes, got "
                f"{list(first.votes.sources)[:5]} / {list(first.classes)[:5]} and "
                f"{list(other.votes.sources)[:5]} / {list(other.classes)[:5]}; "
                "apply the same labeling functions"
            )


def _as_words(chosen: Any) -> np.ndarray:
    """One word or None per row; NaN, as pandas writes it, is None."""
    words = np.empty(len(chosen), dtype=object)
    words[:] = [None if each is None or each != each else str(each) for each in chosen]
    return words


def _as_labels(y: Any, classes: Sequence[str], ids: Any) -> np.ndarray:
    """Class names or indices to indices; None, NaN and −1 are unknown. Rows without ids have a number."""
    position: Mapping[str, int] = {name: index for index, name in enumerate(classes)}
    # a list of names and NaN would become an array of strings, "nan" among them
    raw = y if isinstance(y, np.ndarray) else np.asarray(y, dtype=object)
    if raw.ndim != 1:
        raise LabelError(f"y holds one label per row, got shape {raw.shape}")
    if raw.dtype.kind in "iu" or (raw.dtype.kind == "f" and np.isfinite(raw).all()):
        found = raw.astype(np.int64)
        wrong = (found < ABSTAIN) | (found >= len(classes)) | (found != raw)
    else:
        found = np.array([_label_index(value, position) for value in raw.tolist()], dtype=np.int64)
        wrong = found < ABSTAIN
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        what = raw.tolist()[row]
        where = f"row {row}" if ids is None else f"the row with id {as_ids(ids).tolist()[row]!r}"
        raise LabelError(
            f"y holds {what!r} on {where}; {meant(what, classes)}"
            f"expected one of {list(classes)[:10]}, an index of it, or None where unknown"
        )
    return found


def _label_index(value: Any, position: Mapping[str, int]) -> int:
    if value is None or value != value:  # NaN is what pandas makes of a missing label
        return ABSTAIN
    if isinstance(value, str):
        return position.get(value, -2)
    if isinstance(value, int | float | np.number) and not isinstance(value, bool):
        return int(value) if value == int(value) and ABSTAIN <= value < len(position) else -2
    return position.get(str(value), -2)
