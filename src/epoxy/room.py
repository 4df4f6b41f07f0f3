"""Arrays that grow at their end without being copied each time.

`followed` puts rows behind those of an array, into memory that was set aside with it; where there is
none left, or where somebody else wrote there first, the array is copied once to where there is room for a
quarter more. Memory that is set aside and not written to takes none. Whoever holds the shorter array
goes on reading it: what stands in it is never written again.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

import numpy as np

SHARE = 4  # a quarter of the rows is set aside
LEAST = 1024

_owners: weakref.WeakValueDictionary[int, np.ndarray] = weakref.WeakValueDictionary()
_used: dict[int, int] = {}  # rows of each that somebody holds
_guard = threading.Lock()


def roomy(n_rows: int, width: int, dtype: Any) -> np.ndarray:
    """An array to fill, (n_rows, width), behind which there is room."""
    with _guard:
        return _made(n_rows, (width,), np.dtype(dtype))


def followed(old: np.ndarray, more: np.ndarray) -> np.ndarray:
    """The rows of one array and then those of another, of the type of the first."""
    count, total = len(old), len(old) + len(more)
    with _guard:
        address = _address(old)
        owner = _owners.get(address)
        if (
            owner is None
            or not old.flags.c_contiguous
            or (owner.dtype, owner.shape[1:]) != (old.dtype, old.shape[1:])
            or _used[address] != count
            or total > len(owner)
        ):
            whole = _made(total, old.shape[1:], old.dtype)
            whole[:count] = old
        else:
            whole = owner[:total]
            _used[address] = total
        whole[count:] = more
    return whole


def _made(n_rows: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    owner: np.ndarray = np.empty((n_rows + max(LEAST, n_rows // SHARE), *shape), dtype)
    _owners[_address(owner)] = owner
    _used[_address(owner)] = n_rows
    return owner[:n_rows]


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])
