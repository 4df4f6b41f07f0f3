"""Past one machine: the same stages on the workers of a Dask cluster, with the same answer.

`Dask(client)` is a `Runner`, as labelling in shards asks for one: all it does is to say where a shard
is worked on. Scheduling, transport, retries, encryption and the dashboard are Dask's own.
"""

from __future__ import annotations

from ..errors import MissingExtra

try:
    import distributed as _distributed  # noqa: F401
except ImportError as error:
    raise MissingExtra.of("epoxy.cluster", error.name or "distributed", "cluster") from error

from .connecting import connect, local, memory_of
from .labelling import label
from .runner import Dask

__all__ = ["Dask", "connect", "label", "local", "memory_of"]
