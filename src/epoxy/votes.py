"""The two values everything else is a function of: `Votes`, and the row-aligned `Split`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import AlignmentError, LabelError, VoteError, meant
from .inputs import as_ids, finite_vectors
from .room import followed
from .vote_matrix import ABSTAIN as ABSTAIN
from .vote_matrix import Votes as Votes
from .vote_matrix import sources_in_html

RANDOM = "random"
"""In `Split.chosen`: the row was drawn at random, so that what it shows holds for the others."""


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
        object.__setattr__(self, "votes", votes)
        object.__setattr__(self, "vectors", None if vectors is None else finite_vectors(vectors))
        object.__setattr__(self, "y", None if y is None else _as_labels(y, votes.classes, ids))
        object.__setattr__(self, "ids", np.arange(votes.n_rows) if ids is None else as_ids(ids))
        object.__setattr__(self, "chosen", None if chosen is None else _as_words(chosen))

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
        y = np.concatenate([each.truth for each in (self, other)])
        words = [
            np.full(each.n_rows, None, dtype=object) if each.chosen is None else each.chosen
            for each in (self, other)
        ]
        ids = np.concatenate([np.asarray(self.ids), np.asarray(other.ids)])
        joined = Split(votes, None, y, ids, np.concatenate(words))
        if self.vectors is None or other.vectors is None:
            return joined
        vectors = followed(self.vectors, other.vectors)  # checked when each was made
        vectors.flags.writeable = False
        return Split.of_checked(joined.votes, vectors, joined.y, joined.ids, joined.chosen)

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
        parts = {"votes": votes, "vectors": vectors, "y": y, "ids": ids, "chosen": chosen}
        for name, value in parts.items():
            object.__setattr__(made, name, value)
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
