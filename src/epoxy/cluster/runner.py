"""A `Runner` over a Dask client: one task per shard, summaries in order, a bounded number on the way.

What is the same for all shards is the result of a task of its own: it travels to each worker once, from
worker to worker, and is made again where the worker that held it is lost. To scatter it would be as
quick, but scattered data has no recipe: with the last worker that held it, it would be gone.
"""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import dask
from distributed import Client, Future

from .. import __version__
from ..errors import ClusterError
from ..shards import Shard, Summary
from ..shards.runner import Do
from .checking import check_files, check_versions
from .faults import told
from .working import Given, keep, work

AHEAD = 3
"""Shards on the way for each thread of the cluster: one that is worked on and two that wait.

More would keep workers busy past a shard that takes longer than others, and would leave more summaries
waiting on the workers for their turn.
"""


class Dask:
    """Shards on the workers of a Dask cluster.

    Parameters
    ----------
    client
        Connected to the cluster: see `connect` and `local`, or make one with Dask's own means.
    patience
        Seconds to wait for a worker when there is none left.

    Examples
    --------
    >>> from epoxy import cluster, shards
    >>> with cluster.local(workers=2, memory="1GB") as client:  # doctest: +SKIP
    ...     shards.label("spam/", runner=cluster.Dask(client), memory="1GB")
    """

    def __init__(self, client: Client, *, patience: float = 60.0) -> None:
        self.client, self.patience = client, patience
        self._checked: set[str] = set()
        self._alone: float | None = None  # since when there is no worker

    def each(self, do: Do, shards: Sequence[Shard], *constants: Any) -> Iterator[Summary]:
        """The summaries in the order of the shards; the rest is cancelled when nobody asks on."""
        if not shards:
            return
        name = getattr(constants[0] if constants else do, "__name__", "shard")
        with told(self.client, name):
            self._check(shards, constants)
            given = self._send(Given(__version__, do, constants), name)
        left, waiting = iter(shards), deque[Future]()
        try:
            while True:
                with told(self.client, name):
                    room = max(1, AHEAD * self._n_threads() - len(waiting))
                    for shard in islice(left, room):
                        key = f"{name}-{shard.number:05d}-{uuid.uuid4().hex}"
                        made = self.client.submit(work, shard, given, key=key, pure=False)
                        waiting.append(made)
                    if not waiting:
                        return
                    found = self._result(waiting[0])
                waiting.popleft()
                yield found
        finally:
            if self.client.status == "running":
                self.client.cancel([*waiting, given], reason=f"{name} was ended")

    def _check(self, shards: Sequence[Shard], constants: Sequence[Any]) -> None:
        """Before anything is sent: that workers fit, and see the files."""
        if "versions" not in self._checked:
            check_versions(self.client)
            self._checked.add("versions")
        check_files(self.client, shards, constants, self._checked)

    def _send(self, given: Given, name: str) -> Future:
        # Dask warns of 10 MB in a graph; these are sums and samples that every shard needs
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"}):
            key = f"{name}-given-{uuid.uuid4().hex}"
            return self.client.submit(keep, given, key=key, pure=False)

    def _result(self, future: Future) -> Summary:
        """What a shard came to; waits as long as there are workers, or may be again."""
        while not future.done():
            try:
                return future.result(timeout=min(5.0, self.patience))  # type: ignore[no-any-return]
            except TimeoutError:  # of the wait: what a task says of one comes as an error of ours
                self._n_threads()
        return future.result()  # type: ignore[no-any-return]

    def _n_threads(self) -> int:
        """Threads of all workers now; refuses to wait for ever where there are none."""
        count: int = sum(self.client.nthreads().values())
        if count:
            self._alone = None
            return count
        now = time.monotonic()
        self._alone = now if self._alone is None else self._alone
        if now - self._alone >= self.patience:
            raise ClusterError(
                f"the scheduler at {self.client.scheduler.address} has had no worker for "
                f"{now - self._alone:.0f} s; start some with `dask worker` and run again: "
                "what is finished is not done again"
            )
        return 1
