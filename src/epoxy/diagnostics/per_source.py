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


def interval(right: int, total: int) -> dict[str, Any] | None:
    """A share with Wilson's 95 % interval, which stays honest for small counts; None for none."""
    if total == 0:
        return None
    share = right / total
    low, high = wilson(share, total)
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
    extended: Votes,
    *,
    learned: np.ndarray | None = None,
    radii: np.ndarray | None = None,
) -> list[dict[str, Any]]:
    """One dict per source; overlaps and conflicts count other sources' votes on the same row.

    Parameters
    ----------
    votes, extended
        The same rows before and after extension.
    learned, radii
        What the label model thinks of each source, and how far it may speak.
    """
    cast, after = votes.cast, extended.coverage
    voters = cast.sum(axis=1)
    disagree, named = _rows_in_conflict(votes), votes.polarity
    n = max(1, votes.n_rows)
    return [
        {
            "source": source,
            "polarity": list(named[index]),
            "coverage": float(cast[:, index].sum() / n),
            "coverage_extended": float(after[index]),
            "overlaps": float((cast[:, index] & (voters > 1)).sum() / n),
            "conflicts": float((cast[:, index] & disagree).sum() / n),
            "accuracy_original": None,
            "accuracy_extended": None,
            "accuracy_learned": _number(learned, index),
            "radius": _number(radii, index),
        }
        for index, source in enumerate(votes.sources)
    ]


def _number(values: np.ndarray | None, index: int) -> float | None:
    if values is None or np.isnan(values[index]):
        return None
    return float(values[index])


def _rows_in_conflict(votes: Votes) -> np.ndarray:
    """Rows on which two sources name different classes."""
    named = np.stack([(votes.matrix == k).any(axis=1) for k in range(votes.n_classes)])
    return np.asarray(named.sum(axis=0) > 1)
