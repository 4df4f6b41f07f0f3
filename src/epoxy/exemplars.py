"""A labeling function of example rows: it votes wherever a row lies near one of them.

It is written as data and holds no vectors. Whoever runs it (a session, a project) has the rows and
their vectors; another encoder gives other votes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .declarative import check_label, slug
from .errors import ParameterError, RadiusError, VectorError


@dataclass(frozen=True)
class Like:
    """Votes one label on rows near example rows; made by `like`."""

    name: str
    label: str
    rows: tuple[str, ...]  # ids
    radius: float

    @property
    def labels(self) -> tuple[str, ...]:
        """The one label it gives."""
        return (self.label,)

    def vote(self, frame: Any) -> list[str | None]:
        """Refuse: a frame has no vectors."""
        raise VectorError(
            f"labeling function {self.name!r} votes on rows near its examples, and rows alone have no "
            "vectors; use it in a project's lfs.py or in session.add"
        )


def like(label: str, *, rows: Sequence[str | int], radius: float, name: str | None = None) -> Like:
    """Vote `label` on every row whose vector lies within `radius` of one of these rows.

    Parameters
    ----------
    rows
        Ids of the example rows (without an id column: their positions in the rows file). A row
        votes for itself.
    radius
        A distance of the project's metric; a row at exactly this distance is voted on.

    Examples
    --------
    >>> like("spam", rows=["m17", "m4"], radius=0.3)
    Like(name='like_m17_m4', label='spam', rows=('m17', 'm4'), radius=0.3)
    """
    if isinstance(rows, str) or not isinstance(rows, Sequence) or not rows:
        raise ParameterError(
            f"like needs a list of at least one row id, got {rows!r:.60}; "
            'write like("spam", rows=["17"], radius=0.3)'
        )
    for each in rows:
        if isinstance(each, bool) or not isinstance(each, str | int):
            raise ParameterError(
                f"like names rows by id, got {each!r:.60}; give ids as text or whole numbers"
            )
    number = isinstance(radius, int | float) and not isinstance(radius, bool)
    if not number or not math.isfinite(radius) or radius < 0:
        raise RadiusError(
            f"the radius of like is a distance of at least 0, got {radius!r:.60}; "
            "give a number, such as 0.3"
        )
    ids = tuple(dict.fromkeys(map(str, rows)))
    found = slug("like", ids) if name is None else name
    check_label(label, found)
    return Like(found, label, ids, float(radius))
