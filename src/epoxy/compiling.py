"""How inner loops are compiled and how they index, and the one that two packages share."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np

U = np.uint64  # a signed index costs a wrap-around test that stops vectorisation
F = TypeVar("F")


def compiled(function: F, **options: Any) -> F:
    """Compile at the first call, keep on disk, run without the interpreter lock."""
    return cast("F", _Loop(cast("Callable[..., Any]", function), options))


def reordered(function: F) -> F:
    """Like `compiled`, and sums may be taken in whatever order is fast."""
    return compiled(function, fastmath={"reassoc", "contract", "nsz"})


class _Loop:
    """A function to compile; the compiler, a third of a second to import, waits for the first call."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self.function, self.options = function, options

    def __call__(self, *arguments: Any) -> Any:
        return self.ready(*arguments)

    @cached_property
    def ready(self) -> Callable[..., Any]:
        """What the compiler makes of it, and of the loops it calls."""
        import numba

        known = self.function.__globals__
        for name in self.function.__code__.co_names:
            if isinstance(known.get(name), _Loop):
                known[name] = known[name].ready
        made: Callable[..., Any] = numba.njit(
            nogil=True, cache=True, error_model="numpy", **self.options
        )(self.function)
        return made


@compiled
def select_largest(keys: Any, count: Any, keep: Any) -> None:
    """Bring the `keep` largest keys to the front (Hoare's quickselect)."""
    low, high, last = np.int64(0), np.int64(count) - 1, np.int64(keep) - 1
    while low < high:
        pivot = keys[U((low + high) >> 1)]
        i, j = low, high
        while i <= j:
            while keys[U(i)] > pivot:
                i += 1
            while keys[U(j)] < pivot:
                j -= 1
            if i <= j:
                held = keys[U(i)]
                keys[U(i)] = keys[U(j)]
                keys[U(j)] = held
                i += 1
                j -= 1
        if last <= j:
            high = j
        elif last >= i:
            low = i
        else:
            return
