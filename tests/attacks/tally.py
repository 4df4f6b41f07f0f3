"""What attacks came to: refused in words, without effect, or one of four things that must not be."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import epoxy

LIMIT = 60
"""Seconds after which whatever is attacked counts as hanging."""


class Hang(BaseException):
    """Nothing came back in time."""


@dataclass
class Tally:
    """Counts of one kind of attack."""

    attacks: int = 0
    refused: int = 0
    lost: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    raw: list[str] = field(default_factory=list)
    hung: list[str] = field(default_factory=list)

    def check(self, what: str, ask: Callable[[], Any], right: Callable[[Any], bool]) -> None:
        """Attack once: `ask` must give an answer that is `right`, or raise an EpoxyError, in time."""
        self.attacks += 1
        try:
            with within(LIMIT):
                answer = ask()
        except epoxy.EpoxyError:
            self.refused += 1
        except Hang:
            self.hung.append(what)
        except BaseException as error:  # noqa: BLE001 — to count them is the point
            self.raw.append(f"{what}: {type(error).__name__}: {error}"[:300])
        else:
            if not right(answer):
                self.different.append(what)

    @property
    def harm(self) -> list[str]:
        """All that must not be."""
        return [*self.lost, *self.different, *self.raw, *self.hung]

    def __str__(self) -> str:
        bad = (len(each) for each in (self.lost, self.different, self.raw, self.hung))
        return " | ".join(map(str, (self.attacks, self.refused, *bad)))


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Raise `Hang` in what takes longer."""

    def end(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
