"""A `Runner` over a Dask client: one task per shard, summaries in order, a bounded number on the way.

What is the same for all shards is the result of a task of its own: it travels to each worker once, from
worker to worker, and is made again where the worker that held it is lost. To scatter it would be as
quick, but scattered data has no recipe: with the last worker that held it, it would be gone.
"""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import dask
from distributed import Client, Future

from .. import __version__
from ..errors import ClusterError, ParameterError
from ..shards import Shard, Summary
from ..shards.budget import bytes_of
from ..shards.runner import MEMORY, Do
from .checking import check_files, check_versions
from .faults import told
from .working import Given, keep, work

AHEAD = 3
"""Shards on the way for each thread of the cluster: one that is worked on and two that wait.

More would keep workers busy past a shard that takes longer than others, and would leave more summaries
waiting on the workers for their turn.
"""
SHARDS, SMALLEST, LARGEST = 16, 2_048, 25_000
"""How many shards there are at least, and rows of one: few enough to be shared out evenly, many enough
to be worth a task. Not a matter of how many workers there are, so that a run that is taken up with
more or fewer of them finds its shards again."""
LEAVES = 0.8
"""The share of a worker's memory that Dask lets tasks fill before it gives it no more of them."""


class Dask:
    """Shards on the workers of a Dask cluster.

    Parameters
    ----------
    client
        Connected to the cluster: see `connect` and `local`, or make one with Dask's own means.
    patience
        Seconds to wait for a worker when there is none left, or none that takes work.
    mend
        What to do now and then while there is none left: how a local cluster starts them again.

    Examples
    --------
    >>> import distributed, epoxy
    >>> client = distributed.Client("tcp://10.0.0.1:8786")  # doctest: +SKIP
    >>> epoxy.shards.label("spam/", runner=epoxy.cluster.Dask(client))  # doctest: +SKIP
    """

    def __init__(
        self, client: Client, *, patience: float = 60.0, mend: Callable[[], None] = lambda: None
    ) -> None:
        self.client, self.patience, self._mend = client, patience, mend
        self._checked: set[str] = set()
        self._alone: float | None = None  # since when there is no worker
        self._paused: float | None = None  # since when none takes work

    def each(self, do: Do, shards: Sequence[Shard], *constants: Any) -> Iterator[Summary]:
        """The summaries in the order of the shards; the rest is cancelled when nobody asks on."""
        if not shards:
            return
        name = (constants[0] if constants and callable(constants[0]) else do).__name__
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

    def memory(self, asked: str | int | None) -> str | int:
        """What a worker may take, as asked, or what Dask says of the smallest; refuses more than that."""
        with told(self.client, "the start"):
            workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
        limits = [each["memory_limit"] for each in workers if each["memory_limit"]]
        most = int(min(limits) * LEAVES) if limits else None
        if asked is None:
            return MEMORY if most is None else most
        if most is not None and bytes_of(asked) > most * 1.001:
            raise ParameterError(
                f"--memory {asked} is more than the {most / 1e6:,.0f} MB that Dask lets the smallest "
                "worker fill (four fifths of its memory limit); give less, or start workers with more"
            )
        return asked

    def rows_per_shard(self, n_rows: int) -> int:
        """Rows of a shard at most, by the number of all rows alone."""
        return min(LARGEST, max(SMALLEST, -(-n_rows // SHARDS)))

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
                if self._n_threads():
                    self._check_paused()
        return future.result()  # type: ignore[no-any-return]

    def _n_threads(self) -> int:
        """Threads of all workers now; refuses to wait for ever where there are none."""
        count: int = sum(self.client.nthreads().values())
        if count:
            self._alone = None
            return count
        self._alone, waited = _since(self._alone)
        if waited >= self.patience:
            raise ClusterError(
                f"the scheduler at {self.client.scheduler.address} has had no worker for "
                f"{waited:.0f} s; start some with `dask worker` and run again: "
                "what is finished is not done again"
            )
        self._mend()
        return 1

    def _check_paused(self) -> None:
        """Refuse to wait for ever for workers that Dask gives no work, because their memory is full."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
        if not workers or any(each["status"] != "paused" or _is_busy(each) for each in workers):
            self._paused = None
            return
        self._paused, waited = _since(self._paused)
        if waited >= self.patience:
            most = max(each["metrics"]["memory"] for each in workers)
            raise ClusterError(
                f"no worker has taken work for {waited:.0f} s, because Dask pauses one whose memory is "
                f"four fifths full (up to {most / 1e6:,.0f} MB are in use); give a smaller --memory, or "
                "workers with more, and run again: what is finished is not done again"
            )


def _since(start: float | None) -> tuple[float, float]:
    """When something began, now if not before, and the seconds since then."""
    now = time.monotonic()
    start = now if start is None else start
    return start, now - start


def _is_busy(worker: Any) -> bool:
    return bool(worker["metrics"].get("task_counts", {}).get("executing", 0))
