"""How many rows fit: memory is set beforehand, and so many rows are worked on at a time that it is kept."""

from __future__ import annotations

import re

from ..errors import ParameterError

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
MEMORY = "4GB"
FIXED = 450 * 10**6
"""Bytes that the process holds before any row is read: interpreter, libraries, compiled code."""
EACH = 64_000
"""Bytes that a row may take while it is worked on: as text and as a vector, here and where functions run."""
FEWEST, MOST = 1024, 1 << 16
"""Rows that are worked on at a time, at least and at most."""


def bytes_of(text: str | int | float) -> int:
    """A size such as `4GB`, `500MB` or `2GiB` as bytes."""
    if isinstance(text, int | float) and not isinstance(text, bool) and text > 0:
        return int(text)
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\s*", str(text).lower())
    size = 0 if found is None else int(float(found[1]) * ({**_UNITS, **_BINARY}[found[2] or ""]))
    if size <= 0:
        raise ParameterError(f"memory is a size such as 4GB or 500MB, got {text!r}; write one")
    return size


def rows_within(memory: int) -> int:
    """Rows that are worked on at a time; refuses memory that is too little to work with."""
    rows = (memory - FIXED) // EACH
    if rows < FEWEST:
        needed = FIXED + EACH * FEWEST
        raise ParameterError(
            f"{memory / 1e6:,.0f} MB are too little: {FIXED / 1e6:,.0f} MB are needed before a row is read, "
            f"and {EACH / 1e3:,.0f} kB for each of {FEWEST} rows; give {-(-needed // 10**6)}MB or more"
        )
    return min(rows, MOST)
