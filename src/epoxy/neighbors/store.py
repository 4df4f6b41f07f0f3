"""Arrays of a graph on disk, with room to grow where they are read for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..room import roomy
from ..storage import read_arrays, sweep, write_arrays

save = write_arrays


def load(
    path: Path, names: tuple[str, ...] | None, *, room: bool = False
) -> dict[str, np.ndarray] | None:
    """The named arrays (None: all of them), or None where the file is missing or damaged."""
    found = read_arrays(path, names)
    for name, table in (found or {}).items() if room else ():
        if found is not None and table.ndim == 2 and table.size:
            found[name] = roomy(len(table), table.shape[1], table.dtype)
            found[name][:] = table
    return found


def remove(path: Path) -> None:
    """Delete the file, and what killed processes left beside it."""
    path.unlink(missing_ok=True)
    sweep(path.parent)
