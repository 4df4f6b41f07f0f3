"""How many rows a source reaches, and how often it is right there, at every radius.

Both are read off the distances to the rows that would lend; nothing is fitted.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..loans import Loans
from ..numerics import wilson
from ..votes import ABSTAIN
from ..workspace import TRAIN, Source, Workspace

FEWEST = 3
"""Labelled rows a share needs to be told."""


@dataclass(frozen=True)
class RadiusCurve:
    """A source's lent votes at growing radii; lists of one length."""

    radius: list[float]
    covered: list[float]
    """Share of train rows with a vote of the source, own or lent."""
    right: list[float | None]
    """Share of lent votes that equal the hand label; None below three labelled rows."""
    low: list[float | None]
    high: list[float | None]
    """Wilson's interval of `right`, 95 %."""
    n: list[int]
    """Labelled rows that a vote is lent to."""

    def to_dict(self) -> dict[str, Any]:
        """The lists by name."""
        return asdict(self)


def curve_of(workspace: Workspace, source: Source, points: int) -> RadiusCurve:
    """The curve of one source, at 0 and where equal shares of the rows that it can reach are reached."""
    loans = source.loans
    train = loans[TRAIN]
    far = np.sort(_distances(train))
    which = np.linspace(0, max(len(far) - 1, 0), max(points - 1, 1)).astype(np.intp)
    radii = np.unique(np.concatenate([[0.0], far[which] if len(far) else far]))
    own = np.count_nonzero(train.own != ABSTAIN)
    reached = own + np.searchsorted(far, radii, side="right")
    parts = [_labelled(each, y) for each, y in zip(loans, workspace.labels.y)]
    distance, hit = (np.concatenate(each) for each in zip(*parts))
    order = np.argsort(distance, kind="stable")
    n = np.searchsorted(distance[order], radii, side="right")
    hits = np.concatenate([[0], np.cumsum(hit[order])])[n]
    share = hits / np.maximum(n, 1)
    low, high = wilson(share, n)
    told = n >= FEWEST
    return RadiusCurve(
        radius=radii.tolist(),
        covered=(reached / max(1, len(train.own))).tolist(),
        right=_where(told, share),
        low=_where(told, low),
        high=_where(told, high),
        n=n.tolist(),
    )


def _distances(loans: Loans) -> np.ndarray:
    """How far the lender of each abstaining row is that has one."""
    far = loans.distance[loans.own == ABSTAIN]
    return np.asarray(far[np.isfinite(far)])


def _labelled(loans: Loans, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of labelled rows that borrow at some radius: the lender's distance, and whether it is right."""
    rows = np.flatnonzero((y != ABSTAIN) & (loans.own == ABSTAIN) & np.isfinite(loans.distance))
    return loans.distance[rows], loans.vote[rows] == y[rows]


def _where(told: np.ndarray, values: np.ndarray) -> list[float | None]:
    return [value if is_told else None for value, is_told in zip(values.tolist(), told.tolist())]
