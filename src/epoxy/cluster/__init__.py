"""Past one machine: the workers of a Dask cluster vote, embed and find neighbours, with the same answer.

`Dask(client)` is a map, as `epoxy.blocks.label` takes one. Scheduling, transport, retries, encryption and the
dashboard are Dask's own.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from ..errors import MissingExtra

_HOME = {"Dask": "runner", "connect": "connecting", "local": "connecting"}

__all__ = ["Dask", "connect", "local"]

if TYPE_CHECKING:
    from .connecting import connect as connect
    from .connecting import local as local
    from .runner import Dask as Dask
else:  # names are fetched when first used: the rest of the package goes without Dask

    def __getattr__(name):
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            module = importlib.import_module(f".{_HOME[name]}", __name__)
        except ImportError as error:
            missing = error.name or "distributed"
            raise MissingExtra.of("epoxy.cluster", missing, "cluster") from error
        return getattr(module, name)
