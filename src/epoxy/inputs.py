"""What a user hands over, in the form that `Votes` and `Split` keep: whole numbers, names, finite vectors.

Only the form is checked here. What a number means (which class, an abstention, an unknown truth) is
checked where it is given that meaning, in `votes`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any

import numpy as np

from . import mapped
from .errors import AlignmentError, LabelError, ParameterError, VectorError, VoteError

MOST_CLASSES = 32_767
LARGEST = 1e18
"""Beyond it a sum of squares may leave float32, and distances would be infinite or NaN."""


def as_matrix(matrix: Any) -> np.ndarray:
    """Votes as a table of whole numbers, rows × sources; whether each is a class is not asked here."""
    raw = np.asarray(matrix)
    if raw.ndim != 2:
        raise VoteError(
            f"votes are a matrix of rows × sources, got an array of shape {raw.shape}; "
            "reshape one column with [:, None]"
        )
    if raw.dtype == bool or raw.dtype.kind not in "iuf":
        raise VoteError(
            f"votes are class indices with -1 for abstain, got dtype {raw.dtype}; "
            "use apply(...) or from_column(...) for votes given as names"
        )
    if raw.dtype.kind == "f":
        if not np.array_equal(raw, np.floor(raw)):  # false for NaN too
            raise VoteError("votes are whole numbers, got fractions or NaN; write -1 for abstain")
        raw = raw.astype(np.int64)
    return raw


def _listed(names: Iterable[str], what: str) -> tuple[str, ...]:
    try:
        return tuple(str(name) for name in names)
    except TypeError:
        raise ParameterError(
            f"{what} are a list of texts, got {names!r:.60}; give one each"
        ) from None


def source_names(sources: Iterable[str] | None, count: int) -> tuple[str, ...]:
    """One name per column, all different; `source_0`, `source_1`, … when not given."""
    if sources is None:
        return tuple(f"source_{index}" for index in range(count))
    names = _listed(sources, "source names")
    if len(names) != count:
        raise AlignmentError(
            f"the matrix has {count} columns and {len(names)} source names; give one name per column"
        )
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise VoteError(f"source names must differ, got {twice} more than once; rename one of them")
    return names


def class_names(classes: Iterable[str] | None, raw: np.ndarray) -> tuple[str, ...]:
    """At least two class names, all different; as many as `raw` votes for when not given."""
    if classes is None:
        largest = int(raw.max()) if raw.size else 1
        if largest >= MOST_CLASSES:
            raise VoteError(
                f"votes are class indices below {MOST_CLASSES}, got {largest}; name the classes"
            )
        return tuple(str(index) for index in range(max(2, largest + 1)))
    names = _listed(classes, "class names")
    if len(names) < 2:
        raise LabelError(
            f"labeling needs at least 2 classes, got {list(names)}; "
            "name the class a row has when no source is right about it"
        )
    if len(set(names)) < len(names):
        raise LabelError(f"class names must differ, got {list(names)}; rename one of them")
    return names


def as_sequences(sequences: Any, n_rows: int) -> np.ndarray | None:
    """One sequence id per row, rows of one sequence adjacent; None when not given."""
    if sequences is None:
        return None
    ids = np.asarray(sequences)
    if ids.shape != (n_rows,):
        raise AlignmentError(
            f"sequences must name one sequence per row, got shape {ids.shape} for {n_rows} rows"
        )
    starts = np.flatnonzero(np.r_[True, ids[1:] != ids[:-1]]) if n_rows else np.empty(0, int)
    names, times = np.unique(ids[starts], return_counts=True)
    if (times > 1).any():
        again = names[times > 1].tolist()[0]
        raise AlignmentError(
            f"rows of sequence {again!r} are not adjacent; sort the rows by sequence and position"
        )
    return ids


def as_table(vectors: Any, who: str = "") -> np.ndarray:
    """Numbers, rows × dimension, as they are; `who` begins the message where they are not."""
    raw = np.asarray(vectors)
    if raw.ndim != 2 or raw.shape[1] == 0 or raw.dtype.kind not in "fiu":
        raise VectorError(
            f"{_named(who)}vectors are numbers, rows × dimension, got shape {raw.shape} and dtype "
            f"{raw.dtype}; give one vector per row"
        )
    return raw


def check_finite(
    vectors: np.ndarray, who: str = "", name: Callable[[int], Any] = lambda row: row
) -> None:
    """Refuse NaN, infinity, and numbers whose squares float32 cannot hold; `name` names a row."""
    parts = (vectors[part] for part in mapped.blocks(len(vectors) if vectors.size else 0))
    with np.errstate(invalid="ignore"):  # extremes are NaN where anything is
        if all(part.min() >= -LARGEST and part.max() <= LARGEST for part in parts):
            return
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        raise VectorError(
            f"{_named(who)}vectors must be finite, got NaN or infinity in {len(bad)} rows, first row "
            f"{name(int(bad[0]))!r}; embed those rows again or drop them from every split"
        )
    row, at = np.unravel_index(np.abs(vectors).argmax(), vectors.shape)
    raise VectorError(
        f"{_named(who)}vectors must lie within ±{LARGEST:g}, got {vectors[row, at]:.3g} in row "
        f"{name(int(row))!r}; divide all vectors by a constant"
    )


def as_float32(
    vectors: Any,
    who: str = "",
    *,
    copy: bool | None = None,
    name: Callable[[int], Any] = lambda row: row,
) -> np.ndarray:
    """One finite float32 vector per row; copied if asked, or if it must be."""
    raw = as_table(vectors, who)
    with np.errstate(over="ignore"):  # what overflows is infinite, and said to be
        stored = np.array(raw, dtype=np.float32, order="C", copy=copy)
    check_finite(stored, who, name)
    return stored


def _named(who: str) -> str:
    return f"{who}: " if who else ""


def finite_vectors(vectors: Any) -> np.ndarray:
    """The same in an array that nobody else can change."""
    if isinstance(vectors, np.ndarray) and mapped.is_file(vectors) and vectors.dtype == np.float32:
        stored = as_float32(vectors).view()  # nobody else writes there
    else:
        stored = as_float32(vectors, copy=True)
    stored.flags.writeable = False
    return stored


def as_ids(ids: Any) -> np.ndarray:
    """One name per row."""
    found = np.asarray(ids)
    if found.ndim != 1:
        raise AlignmentError(f"ids hold one name per row, got shape {found.shape}")
    return found


def nearly(word: str, meant: str) -> bool:
    """Whether a word is not the one meant, and yet is but for case, blanks or a letter or two."""
    given = word.strip().casefold()
    return word != meant and bool(get_close_matches(given, [meant], cutoff=0.65))
