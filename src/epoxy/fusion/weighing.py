"""What the votes of one source weigh in a fitted fusion: how far labels would move without them.

Sources have no weights of their own in Fusion: a vote counts in a majority, among loans, and as hand labels
taught. So a source is silenced on rows it votes on, with all that was learned left as it is, and the mean
change of the log-odds of the class it names is its weight.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..engines.base import Outcome
from ..votes import ABSTAIN
from .fitted import Fitted, Rows

MOST = 500
"""Rows a source is silenced on, evenly spaced among those it votes on."""


def weight_of_source(outcome: Outcome, train: Rows, source: str) -> float | None:
    """That of an active source of an outcome; a copy of another does not speak, so it adds nothing."""
    fitted: Fitted = outcome.model.fitted_
    place = np.flatnonzero(fitted.columns == outcome.workspace.names.index(source))
    return weight_of_votes(fitted, train, int(place[0])) if len(place) else 0.0


def weight_of_votes(fitted: Fitted, rows: Rows, column: int) -> float | None:
    """What an own vote adds to the log-odds of its class on average; None for one that never votes.

    `column` counts the sources that are no copies.
    """
    voted = np.flatnonzero(rows.cast[column] != ABSTAIN)
    if not len(voted):
        return None
    some = rows.take(voted[:: -(-len(voted) // MOST)])
    votes, cast, distance = some.votes.copy(), some.cast.copy(), some.distance.copy()
    said = cast[column].astype(np.intp)
    votes[column], cast[column], distance[column] = ABSTAIN, ABSTAIN, np.inf
    silent = replace(some, votes=votes, unheard=cast, distance=distance)
    with_it, without = (_log_odds(fitted.logits(each), said) for each in (some, silent))
    return float((with_it - without).mean())


def _log_odds(logits: np.ndarray, said: np.ndarray) -> np.ndarray:
    """Of the classes said, against all others together; (n_rows,)."""
    at = np.arange(len(said))
    others = logits.copy()
    others[at, said] = -np.inf
    return np.asarray(logits[at, said] - np.logaddexp.reduce(others, axis=1))
