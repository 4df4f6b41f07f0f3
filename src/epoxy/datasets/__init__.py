"""Data to start from: readers of folders, a real data set that is always there, a generator.

Nothing is downloaded. Every reader checks that rows, votes, vectors and labels belong together and
says which file does not.
"""

from __future__ import annotations

from ..errors import UnknownName
from .dataset import Dataset
from .digits import digits
from .folder import read_folder
from .synthetic import SyntheticSource, synthetic
from .wrench import read_wrench

__all__ = ["Dataset", "SyntheticSource", "load", "read_folder", "read_wrench", "synthetic"]

_KNOWN = {"digits": digits}


def load(name: str) -> Dataset:
    """Load a data set that a dependency ships, by name: `digits`.

    Examples
    --------
    >>> load("digits")
    Dataset('digits', train 1200, dev 97, test 500, 10 classes)
    """
    if name not in _KNOWN:
        raise UnknownName.of("data set", name, _KNOWN)
    return _KNOWN[name]()
