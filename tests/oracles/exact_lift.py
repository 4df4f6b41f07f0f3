"""The paper's general case, every source extended: what `theory.lift.single_lift` must agree with."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np

from epoxy.errors import AlignmentError, ParameterError

_CERTAIN = 1e-6
_STATES = 2_000_000  # enumerated up to here: 5 states per source, so m = 9


@dataclass(frozen=True, eq=False)
class Participation:
    """Per source, how it takes part before and after extension (the general case).

    Each source is in one of three states on a row: silent, voting by itself (probability
    `support`, accuracy `accuracy`), or voting only by extension (probability `reached`, true
    accuracy `new`). The label model weighs extended votes by `extended` and original ones by
    `accuracy`.
    """

    accuracy: np.ndarray  # (n_sources,) a
    extended: np.ndarray  # (n_sources,) ā
    new: np.ndarray  # (n_sources,) ã
    support: np.ndarray  # (n_sources,) p_i
    reached: np.ndarray  # (n_sources,) Pr(B_r)

    def __post_init__(self) -> None:
        for name in (each.name for each in fields(self)):
            value = np.atleast_1d(np.asarray(getattr(self, name), dtype=np.float64))
            if value.shape != np.shape(np.atleast_1d(self.accuracy)):
                raise AlignmentError(
                    f"participation needs one {name} per source, got {value.size} "
                    f"for {np.size(self.accuracy)}"
                )
            if not ((value >= 0) & (value <= 1)).all():
                raise ParameterError(
                    f"{name} must lie between 0 and 1, got {value.tolist()}; clip bounds first"
                )
            object.__setattr__(self, name, value)
        if (self.support + self.reached > 1 + 1e-9).any():
            raise ParameterError(
                "support and newly reached share of a source sum to more than 1; "
                "reached counts only rows it abstained on"
            )


@dataclass(frozen=True)
class Lift:
    """A lift, and how exactly it is known: `error` is 0 for enumeration, else a 95 % half-width."""

    value: float
    error: float
    method: str


def exact_lift(
    sources: Participation, balance: float = 0.5, *, samples: int = 200_000, seed: int = 0
) -> Lift:
    """R(f_WS) − R(f_E) with any number of sources extended: the paper's general case.

    Σ over the participation v ∈ {0, 1, 2}^m and the votes of Pr(v, votes, Y) · sign(Y) ·
    (Pr(Y=1 | extended votes) − Pr(Y=1 | votes)). Assumes the label model's own world: sources, and
    where they take part, independent given Y and abstaining regardless of Y; two classes. Up to 9
    sources it is enumerated; beyond, drawn `samples` times (each draw serves both classes) with a
    95 % half-width from the spread of the draws.
    """
    if not 0 < balance < 1:
        raise ParameterError(f"balance is Pr(Y = 1) between 0 and 1, got {balance}; 0.5 is even")
    states = _states(sources)
    if math.prod(len(chance) for chance, _, _ in states) <= _STATES:
        chance, before, after = _enumerated(states)
        return Lift(float(chance @ _gain(before, after, balance)), 0.0, "enumerated")
    generator = np.random.default_rng(seed)
    before, after = np.zeros(samples), np.zeros(samples)
    for chance, first, second in states:
        drawn = generator.choice(len(chance), samples, p=chance / chance.sum())
        before += first[drawn]
        after += second[drawn]
    gain = _gain(before, after, balance)
    error = 1.96 * float(gain.std(ddof=1)) / math.sqrt(samples)
    return Lift(float(gain.mean()), error, f"{samples:,} draws")


def _states(sources: Participation) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Per source: chance of each state given Y = 1, its log odds before and after extension."""
    found = []
    numbers = (getattr(sources, each.name) for each in fields(sources))
    for a, whole, fresh, support, reached in zip(*numbers, strict=True):
        own, lent = _log_odds(a), _log_odds(whole)
        voting, lending = np.array([a, 1 - a]), np.array([fresh, 1 - fresh])
        silent = max(0.0, 1 - support - reached)
        chance = np.concatenate([[silent], support * voting, reached * lending])
        before = np.array([0, own, -own, 0, 0])
        after = np.array([0, own, -own, lent, -lent])
        keep = chance > 0
        found.append((chance[keep], before[keep], after[keep]))
    return found


def _enumerated(
    states: list[tuple[np.ndarray, np.ndarray, np.ndarray]],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    chance, before, after = np.ones(1), np.zeros(1), np.zeros(1)
    for each, first, second in states:
        chance = np.outer(chance, each).ravel()
        before = np.add.outer(before, first).ravel()
        after = np.add.outer(after, second).ravel()
    return chance, before, after


def _gain(before: np.ndarray, after: np.ndarray, balance: float) -> np.ndarray:
    """Expected gain over both classes; given Y = −1 the same votes come with their signs turned."""
    prior = _log_odds(balance)
    positive = _sigmoid(prior + after) - _sigmoid(prior + before)
    negative = _sigmoid(prior - before) - _sigmoid(prior - after)
    return np.asarray(balance * positive + (1 - balance) * negative)


def _log_odds(probability: float) -> float:
    p = min(max(float(probability), _CERTAIN), 1 - _CERTAIN)
    return math.log(p / (1 - p))


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-np.clip(x, -500, 500))))
