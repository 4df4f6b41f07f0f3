"""Rows that match a question, in an order: words, likeness, and what votes, labels and the model say.

Every question is answered over all rows at once with masks; rows are numbered through all splits,
train rows first, then dev rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..engines import Outcome
from ..errors import FrameError, ParameterError, UnknownName
from ..loans import Neighbourhood
from ..neighbors import Space
from ..rows import TEXT, Rows
from ..session.edits import known, nearest_of, vectors_at
from ..session.labels import Place
from ..votes import ABSTAIN
from ..workspace import Source, Workspace

if TYPE_CHECKING:
    from ..session.session import Session

UNSURE = 0.8
"""A row is uncertain whose most probable class has less."""
NEAR = 0.05
"""A row is near a radius whose lender is off it by this share of it at most."""
FILTERS = ("all", "uncertain", "conflict", "novote", "wrong", "hand", "near", "voted", "flipped")
SORTS = ("file", "unsure", "sure", "like", "distance")
VOTES = ("any", "own", "lent")


@dataclass(frozen=True, eq=False)
class RowQuery:
    """A question about rows.

    Parameters
    ----------
    find
        Words that a row must hold, in any case; "quoted words" stand together.
    like
        The number of a row; the others come by their distance from it.
    filter
        `uncertain` (best class below 0.8), `conflict` (own votes name different classes), `novote` (nobody
        votes, own or lent), `wrong` (the hand label is not what a model says that did not learn from
        it), `hand` (labelled by hand), `near` (a lender within 5 % of `source`'s radius), `voted` (by
        `source`), `flipped` (one of `flipped`), or `all`.
    votes
        With `voted`: `own`, `lent` or `any`.
    selection
        Only these rows.
    flipped
        The rows that the filter of that name keeps: those a trial would flip, for example.
    sort
        `file`, `unsure`, `sure`, `like`, `distance` (of `source`'s lender); None: by likeness if `like`
        is given, else as in the file.
    """

    find: str = ""
    like: int | None = None
    filter: str = "all"
    source: str | None = None
    votes: str = "any"
    selection: Sequence[int] | np.ndarray | None = None
    flipped: Sequence[int] | np.ndarray | None = None
    sort: str | None = None

    def __post_init__(self) -> None:
        for kind, value, names in (
            ("filter", self.filter, FILTERS),
            ("kind of votes", self.votes, VOTES),
            ("order", "file" if self.sort is None else self.sort, SORTS),
        ):
            if value not in names:
                raise UnknownName.of(kind, value, names)
        for name in ("near", "voted"):
            if self.filter == name and self.source is None:
                raise ParameterError(f"the filter {name!r} is about one source; name it: source=…")
        if self.sort == "distance" and self.source is None:
            raise ParameterError("rows are sorted by distance of one source; name it: source=…")
        if self.sort == "like" and self.like is None:
            raise ParameterError("rows are sorted by likeness to one row; name it: like=…")


@dataclass(frozen=True, eq=False)
class Found:
    """Rows that match, in order, and how many would match under each filter."""

    rows: np.ndarray  # (n,) row numbers
    counts: dict[str, int]

    def __len__(self) -> int:
        return len(self.rows)


def browse(session: Session, query: RowQuery) -> Found:
    """Answer a question about rows."""
    outcome, total = session.outcome, session.n_rows
    source = None if query.source is None else known(outcome.workspace, query.source)
    kept = row_mask(query.selection, total) if query.selection is not None else np.ones(total, bool)
    if query.find.strip():
        sizes = [split.n_rows for split in outcome.workspace.splits]
        kept &= session.need_texts().found(query.find, sizes)
    far = None
    if query.like is not None:
        far = np.concatenate(distances_to(outcome.workspace.near, session.place(query.like)))
        kept[query.like] = False
    masks = _masks(outcome, query, source)
    counts = {name: int(np.count_nonzero(kept & masks[name])) for name in FILTERS}
    rows = np.flatnonzero(kept & masks[query.filter])
    by = query.sort or ("like" if query.like is not None else "file")
    return Found(rows[_order(session, by, source, far, rows)], counts)


def _order(
    session: Session, by: str, source: Source | None, far: Any, rows: np.ndarray
) -> np.ndarray:
    if by == "file":
        key = session.file_order[rows]
    elif by == "like":
        key = far[rows]
    elif by == "distance":
        assert source is not None  # the query was checked
        key = np.concatenate([_lent_from(each) for each in source.loans])[rows]
    else:
        key = best(session.outcome)[rows] * (1 if by == "unsure" else -1)
    return np.argsort(key, kind="stable")


def best(outcome: Outcome) -> np.ndarray:
    """The probability of each row's most probable class; 1 where there are no probabilities."""
    if not outcome.proba:
        return np.ones(sum(split.n_rows for split in outcome.workspace.splits))
    return np.concatenate([_largest(each) for each in outcome.proba])


def in_conflict(columns: Sequence[np.ndarray], n_rows: int) -> np.ndarray:
    """Where two columns name different classes; (n_rows,) bool."""
    most = np.full(n_rows, ABSTAIN, dtype=np.int16)
    least = np.full(n_rows, np.iinfo(np.int16).max, dtype=np.int16)
    for column in columns:
        np.maximum(most, column, out=most)
        np.minimum(least, np.where(column == ABSTAIN, least, column), out=least)
    return np.asarray(most > least)


def nobody_votes(columns: Sequence[np.ndarray], n_rows: int) -> np.ndarray:
    """Where every column abstains; (n_rows,) bool."""
    found = np.ones(n_rows, dtype=bool)
    for column in columns:
        found &= column == ABSTAIN
    return found


def quarrels(workspace: Workspace) -> np.ndarray:
    """Rows on which the active sources' own votes name different classes; (n_rows,) bool."""
    parts = []
    for at, split in enumerate(workspace.splits):
        parts.append(in_conflict([each.own[at] for each in workspace.active], split.n_rows))
    return np.concatenate(parts)


def _masks(outcome: Outcome, query: RowQuery, source: Source | None) -> dict[str, np.ndarray]:
    workspace = outcome.workspace
    total = sum(split.n_rows for split in workspace.splits)
    nothing = np.zeros(total, dtype=bool)
    voted, near = (nothing, nothing) if source is None else _about(outcome, source, query.votes)
    return {
        "all": np.ones(total, dtype=bool),
        "uncertain": best(outcome) < UNSURE,
        "conflict": quarrels(workspace),
        "novote": np.concatenate([nobody_votes(x.columns, x.n_rows) for x in outcome.extended]),
        "wrong": wrong(outcome),
        "hand": np.concatenate([each != ABSTAIN for each in workspace.labels.y]),
        "near": near,
        "voted": voted,
        "flipped": nothing if query.flipped is None else row_mask(query.flipped, total),
    }


def wrong(outcome: Outcome) -> np.ndarray:
    """Rows whose hand label is not what a model says that did not learn from it; (n_rows,) bool."""
    labels, said, held = outcome.workspace.labels, outcome.held_out_labels, outcome.held_out
    found = [np.zeros(len(each), dtype=bool) for each in labels.y]
    if said is not None and held is not None:
        off = np.isfinite(held).all(axis=1) & (said != labels.labels)
        for at in labels.order:
            found[at][labels.rows[at]] = off[labels.part(at)]
    return np.concatenate(found)


def reach_of(outcome: Outcome, source: Source) -> float:
    """How far a source lends now; NaN where it lends nothing or is switched off."""
    names = outcome.workspace.names
    return float(outcome.radii[names.index(source.name)]) if source.name in names else float("nan")


def _about(outcome: Outcome, source: Source, votes: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows a source votes on (own, lent or any), and rows whose lender is about as far as its radius."""
    radius = reach_of(outcome, source)
    voted, near = [], []
    for loans in source.loans:
        own = loans.own != ABSTAIN
        lent = loans.lent(radius)
        voted.append({"own": own, "lent": lent, "any": own | lent}[votes])
        near.append(~own & (np.abs(loans.distance - radius) <= NEAR * radius))
    return np.concatenate(voted), np.concatenate(near)


def _lent_from(loans: Any) -> np.ndarray:
    return np.where(loans.own == ABSTAIN, loans.distance, 0.0)


def _largest(proba: np.ndarray) -> np.ndarray:
    if proba.shape[1] > 16:
        return np.asarray(proba.max(axis=1))
    found = proba[:, 0].copy()  # column by column: many times as fast where rows are short
    for column in range(1, proba.shape[1]):
        np.maximum(found, proba[:, column], out=found)
    return found


def row_mask(rows: Any, total: int) -> np.ndarray:
    """Row numbers as a mask, checked."""
    given = np.asarray(rows)
    if given.size and (given.dtype.kind not in "iu" or given.min() < 0 or given.max() >= total):
        raise ParameterError(
            f"rows are numbered from 0 to {total - 1}, got {given.ravel()[:5].tolist()}; "
            "give whole numbers of that range"
        )
    mask = np.zeros(total, dtype=bool)
    mask[given.astype(np.intp).ravel()] = True
    return mask


_WORDS = re.compile(r'"([^"]+)"|(\S+)')


class RowTexts:
    """The cells behind the splits; lower-cased texts are kept, so that every search after one is quick."""

    def __init__(self, frames: Any, column: str | None = None) -> None:
        given = frames if isinstance(frames, tuple) else (frames,)
        self._parts = [Rows.of(each) for each in given]
        self._lower: list[list[Any]] | None = None
        named = (column, TEXT) if column is not None else (TEXT,)
        known = self._parts[0].names
        self.column = next((name for name in named if name in known), None)
        """The column that holds the text of a row; None where there is none of that kind."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return self._parts[0].names

    def cells(self, at: int, row: int) -> dict[str, str]:
        """Every cell of a row as text; empty where it is missing or the row came without cells."""
        if at >= len(self._parts) or row >= self._parts[at].n_rows:
            return {}
        frame = self._parts[at].frame
        return dict(zip(frame.columns, map(_shown, frame.row(row))))

    def text(self, at: int, row: int) -> str:
        """The text of a row: the text column, or else all cells by name."""
        cells = self.cells(at, row)
        if self.column is not None:
            return cells.get(self.column, "")
        return ", ".join(f"{name} {value}" for name, value in cells.items() if value)

    def found(self, words: str, sizes: Sequence[int]) -> np.ndarray:
        """Rows that hold every word, in any case; "quoted words" are one; (sum of sizes,) bool."""
        import pyarrow.compute as pc

        wanted = [(phrase or word).lower() for phrase, word in _WORDS.findall(words)]
        found = []
        for texts, size in zip(self._lowered(), sizes):
            mask = np.ones(size, dtype=bool)
            for word in wanted:
                hits = np.zeros(size, dtype=bool)
                for each in texts:
                    match = pc.match_substring(each, word).fill_null(False)
                    hits[: len(match)] |= match.to_numpy(zero_copy_only=False)
                mask &= hits
            found.append(mask)
        return np.concatenate(found)

    def column_texts(self) -> list[list[str]] | None:
        """The text column of each split, "" where a text is missing; None where there is no such column."""
        if self.column is None:
            return None
        try:
            return [[each or "" for each in p.texts(self.column).to_pylist()] for p in self._parts]
        except FrameError:  # not a column of texts
            return None

    def _lowered(self) -> list[list[Any]]:
        """The texts of each split in lower case: of the text column, or of every column of texts."""
        import pyarrow.compute as pc

        if self._lower is None:
            names = self.columns if self.column is None else (self.column,)
            self._lower = []
            for part in self._parts:
                texts = []
                for name in names:
                    try:
                        texts.append(pc.utf8_lower(part.texts(name)))
                    except FrameError:  # not a column of texts
                        continue
                self._lower.append(texts)
        return self._lower


def _shown(value: Any) -> str:
    if value is None or value != value or isinstance(value, bytes):
        return ""
    return str(value)


FEW = 10
"""A radius suggested for one row reaches about so many others."""
MOST_ASKED = 200


def distances_to(near: Neighbourhood, place: Place) -> list[np.ndarray]:
    """The distance of every row of every split from one row; inf for rows without a direction."""
    return nearest_of(near, [place], "likeness")


def suggest_radius(near: Neighbourhood, places: Sequence[Place]) -> float:
    """A radius to begin with for "more like these".

    The median distance from one of the rows to the next of them, and no more than reaches some ten
    rows around each.
    """
    asked = [places[at] for at in np.linspace(0, len(places) - 1, MOST_ASKED).astype(int)]
    vectors = vectors_at(near, list(dict.fromkeys(asked)), "a radius")
    mine = Space(vectors, near.metric)
    assert near.spaces is not None
    around = mine.distances(slice(FEW), near.spaces[0])
    last = min(FEW, around.shape[1] - 1)
    reach = float(np.median(np.partition(around, last, axis=1)[:, last]))
    if len(mine) < 2:
        return reach
    table = mine.distances(slice(None), mine)
    np.fill_diagonal(table, np.inf)
    return min(reach, float(np.median(table.min(axis=1))))
