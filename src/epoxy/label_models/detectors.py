"""Sources read class by class: how any two of them compare, and what each says about the class.

Every edit waits for these two steps, so they are compiled loops. `readings` has the model behind them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiling import compiled


def compare(
    joint: np.ndarray, n: int, named: np.ndarray, balance: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """M of two detectors from all rows, its error, and the co-firing expected if they knew nothing."""
    found = np.empty_like(joint), np.empty_like(joint), np.empty_like(joint)
    _compare(joint, n, balance, named, found)
    return found


def warm() -> None:
    """Compile now, so that the first edit does not wait for it."""
    one, first = np.ones(1), np.zeros(1, dtype=np.int64)
    half = np.full(2, 0.5)
    compare(np.ones((1, 1)), 1, first, half)
    tabulate((first, first), (one, one, one), half, 1, (np.ones((1, 3, 2)), np.ones(1)))


@compiled
def _compare(joint: Any, n: int, balance: Any, named: Any, found: Any) -> None:
    moment, spread, expected = found
    rate, odds = np.diag(joint) / n, np.sqrt((1 - balance) / balance)
    two = balance.shape[0] == 2  # what one class is the other is not, whatever their shares
    for i in range(joint.shape[0]):
        for j in range(joint.shape[0]):
            alike = named[i] == named[j]
            scale = 1.0 if alike else -1.0 if two else -(odds[named[i]] * odds[named[j]])
            chance, together = rate[i] * rate[j], joint[i, j] / n
            # with few co-firings the observed count is the better guess of its own variance
            variance = max(chance * ((1 - rate[i]) * (1 - rate[j])), together / n) / n
            moment[i, j] = (together - chance) * scale
            spread[i, j] = np.sqrt(variance) * abs(scale) if chance > 0 else np.inf
            expected[i, j] = chance * n


@compiled
def tabulate(units: Any, seen: Any, balance: Any, n: int, found: Any) -> None:
    """Write Pr(vote | class) of detectors, and how often each of their sources is right.

    `units` are (source, class) of each, `seen` its (θ, firing rate, firings) on `n` rows; `found` are
    the tables (n_sources, 1 + n_classes, n_classes), one where nothing is written, and (n_sources,).
    """
    (source, named), (theta, rate, fires), (prob, right) = units, seen, found
    edge = 0.5 / (n + 1)  # half a row: nothing seen is certain, nothing is impossible
    said = np.zeros((prob.shape[0], prob.shape[2]))
    total, mean = np.zeros(prob.shape[0]), np.zeros(prob.shape[0])
    for unit in range(source.shape[0]):
        at, label = source[unit], named[unit]
        share, often = balance[label], rate[unit]
        alpha = theta[unit] / np.sqrt(share * (1 - share))
        alpha = min(alpha, min(often / share, (1 - often) / (1 - share)))
        hit = min(max(often + (1 - share) * alpha, edge), 1 - edge)
        false = min(max(often - share * alpha, min(edge, often / 2)), 1 - edge)
        for true in range(prob.shape[2]):
            prob[at, 1 + label, true] = hit if true == label else false
            said[at, true] += prob[at, 1 + label, true]
        precision = hit * share / (hit * share + false * (1 - share))
        total[at] += fires[unit]
        mean[at] += precision * fires[unit]
    for at in range(prob.shape[0]):
        for true in range(prob.shape[2]):
            prob[at, 0, true] = max(1 - said[at, true], 1 / (n + 2))
        if total[at] > 0:
            right[at] = mean[at] / max(total[at], 1.0)
