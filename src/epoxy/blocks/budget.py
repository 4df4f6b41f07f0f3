"""How many rows fit: memory is set beforehand, and blocks are cut so that it is kept."""

from __future__ import annotations

import re

from ..errors import ParameterError

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
MEMORY = "4GB"
FIXED = 450 * 10**6
"""Bytes that the process holds before any row is read: interpreter, libraries, compiled code, tiles."""
FEWEST, MOST = 1024, 1 << 16
"""Rows of a block, at least and at most: more would make a killed run lose more work."""


def bytes_of(text: str | int | float) -> int:
    """A size such as `4GB`, `500MB` or `2GiB` as bytes."""
    if isinstance(text, int | float) and not isinstance(text, bool) and text > 0:
        return int(text)
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\s*", str(text).lower())
    size = 0 if found is None else int(float(found[1]) * ({**_UNITS, **_BINARY}[found[2] or ""]))
    if size <= 0:
        raise ParameterError(f"memory is a size such as 4GB or 500MB, got {text!r}; write one")
    return size


def row_bytes(text: float, dimension: int, n_sources: int, n_classes: int) -> float:
    """Bytes that one row takes while its block is worked on, at most.

    Its columns, here and in the process that votes; the vectors of two blocks, as they are and at length
    one; features and what is made of them; votes and who lends, twice; some tables of classes.
    """
    return 4 * text + 4 * 6 * dimension + 2 * 14 * n_sources + 10 * 8 * n_classes + 64


def rows_within(budget: int, each: float, what: str) -> int:
    """Rows of a block within a budget of bytes; refuses one that is too small to work with."""
    rows = int((budget - FIXED) / each)
    if rows < FEWEST:
        needed = FIXED + each * FEWEST
        raise ParameterError(
            f"{budget / 1e6:,.0f} MB are too little for {what}: {FIXED / 1e6:,.0f} MB are needed before "
            f"a row is read, and {each / 1e3:,.1f} kB for each of {FEWEST} rows; "
            f"give --memory {max(1, -(-needed // 10**6)):.0f}MB or more"
        )
    return min(rows, MOST)
