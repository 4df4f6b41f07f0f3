"""What may be spent, and what was: counted before a call is made, so that no call goes beyond it."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from ..errors import ParameterError


class Spent(Exception):
    """There is no room for one more call."""


@dataclass(frozen=True)
class Budget:
    """The most that a run may spend: calls, tokens, and money at prices per million tokens."""

    calls: int
    tokens: int | None = None
    money: float | None = None
    prices: tuple[float, float] | None = None  # of a million tokens sent, and of a million answered

    def __post_init__(self) -> None:
        for name in ("calls", "tokens", "money"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise ParameterError(f"a budget of {value} {name} cannot be kept; give 0 or more")
        if self.prices is not None and not all(0 <= each < float("inf") for each in self.prices):
            raise ParameterError(f"prices are {self.prices}; give 0 or more for a million tokens")
        if self.money is not None and self.prices is None:
            raise ParameterError(
                "a budget in money needs prices; give those of a million tokens sent and answered"
            )

    def cost(self, sent: float, answered: float) -> float | None:
        """The money that so many tokens cost; None where no prices are known."""
        if self.prices is None:
            return None
        return (sent * self.prices[0] + answered * self.prices[1]) / 1e6


class Meter:
    """What was spent of a budget, by several threads.

    A call first takes the most it could cost, and gives back the rest when it is known. A call that
    does not fit waits for those in flight to give back; with none in flight there is no room.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.calls = 0
        self.sent = self.answered = 0  # tokens
        self._held: dict[int, tuple[int, int]] = {}  # of calls in flight, by number
        self._changed = threading.Condition()

    @property
    def money(self) -> float | None:
        """The money spent; None where no prices are known."""
        return self.budget.cost(self.sent, self.answered)

    def take(self, sent: int, answered: int) -> int:
        """Count a call that needs at most so many tokens; returns its number, or raises `Spent`."""
        with self._changed:
            while not self._fits(sent, answered):
                if not self._held or self.calls >= self.budget.calls:
                    raise Spent
                self._changed.wait()
            self.calls += 1
            self._held[self.calls] = (sent, answered)
            return self.calls

    def settle(self, number: int, sent: int, answered: int) -> None:
        """Tell what a call needed in the end."""
        with self._changed:
            del self._held[number]
            self.sent += sent
            self.answered += answered
            self._changed.notify_all()

    def _fits(self, sent: int, answered: int) -> bool:
        if self.calls >= self.budget.calls:
            return False
        sent += self.sent + sum(each for each, _ in self._held.values())
        answered += self.answered + sum(each for _, each in self._held.values())
        money = self.budget.cost(sent, answered)
        most, paid = self.budget.tokens, self.budget.money
        cheap = paid is None or money is None or money <= paid
        return cheap and (most is None or sent + answered <= most)
