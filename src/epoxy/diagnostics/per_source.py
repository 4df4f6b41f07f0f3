"""What each source does before and after extension, and how right it is where truth is known."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..numerics import wilson
from ..votes import ABSTAIN, Votes
from .report import Column

SOURCE_COLUMNS = (
    Column("source", "source"),
    Column("polarity", "names"),
    Column("coverage", "coverage", "share"),
    Column("coverage_extended", "extended", "share"),
    Column("overlaps", "overlaps", "share"),
    Column("conflicts", "conflicts", "share"),
    Column("accuracy_original", "right (own votes)", "interval"),
    Column("accuracy_extended", "right (lent votes)", "interval"),
    Column("accuracy_learned", "learned", "share"),
    Column("radius", "radius", "number"),
)


def interval(right: int, total: int, confidence: float = 0.95) -> dict[str, Any] | None:
    """A share with Wilson's score interval, which stays honest for small counts; None for none."""
    if total == 0:
        return None
    z = {0.9: 1.6448536269514722, 0.95: 1.959963984540054, 0.99: 2.5758293035489004}[confidence]
    share = right / total
    low, high = wilson(share, total, z)
    return {"value": share, "low": float(low), "high": float(high), "n": int(total)}


def right_on(own: np.ndarray, both: np.ndarray, y: np.ndarray) -> dict[str, dict[str, Any] | None]:
    """How often a source's own votes, and those lent to it, are right on rows labelled by hand.

    `own` are its votes there, `both` those after extension, `y` the labels; one each per row.
    """
    mine, lent = own != ABSTAIN, (own == ABSTAIN) & (both != ABSTAIN)
    return {
        "own": interval(int((own[mine] == y[mine]).sum()), int(mine.sum())),
        "lent": interval(int((both[lent] == y[lent]).sum()), int(lent.sum())),
    }


def source_rows(
    votes: Votes,
    extended: Votes | None = None,
    y: np.ndarray | None = None,
    *,
    learned: np.ndarray | None = None,
    radii: np.ndarray | None = None,
) -> list[dict[str, Any]]:
    """One dict per source; overlaps and conflicts count other sources' votes on the same row.

    Parameters
    ----------
    votes, extended
        The same rows before and after extension (after = before when not given).
    y
        True labels as indices, −1 where unknown.
    learned, radii
        What the label model thinks of each source, and how far it may speak.
    """
    after = votes if extended is None else extended
    cast = votes.cast
    voters = cast.sum(axis=1)
    disagree = _rows_in_conflict(votes)
    lent = after.cast & ~cast
    named = votes.polarity
    rows = []
    for index, source in enumerate(votes.sources):
        mine = cast[:, index]
        n = max(1, votes.n_rows)
        rows.append(
            {
                "source": source,
                "polarity": list(named[index]),
                "coverage": float(mine.mean()) if votes.n_rows else 0.0,
                "coverage_extended": float(after.cast[:, index].sum() / n),
                "overlaps": float((mine & (voters > 1)).sum() / n),
                "conflicts": float((mine & disagree).sum() / n),
                "accuracy_original": _right(votes.matrix[:, index], mine, y),
                "accuracy_extended": _right(after.matrix[:, index], lent[:, index], y),
                "accuracy_learned": _number(learned, index),
                "radius": _number(radii, index),
            }
        )
    return rows


def _number(values: np.ndarray | None, index: int) -> float | None:
    if values is None or np.isnan(values[index]):
        return None
    return float(values[index])


def _rows_in_conflict(votes: Votes) -> np.ndarray:
    """Rows on which two sources name different classes."""
    named = np.stack([(votes.matrix == k).any(axis=1) for k in range(votes.n_classes)])
    return np.asarray(named.sum(axis=0) > 1)


def _right(column: np.ndarray, where: np.ndarray, y: np.ndarray | None) -> dict[str, Any] | None:
    if y is None:
        return None
    known = where & (y != ABSTAIN)
    return interval(int((column[known] == y[known]).sum()), int(known.sum()))
