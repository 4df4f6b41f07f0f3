"""A map over a Dask client: one task per part, results in order, a bounded number on the way.

What is the same for all parts is the result of a task of its own: it travels to each worker once, from
worker to worker, and is made again where the worker that held it is lost. To scatter it would be as
quick, but scattered data has no recipe: with the last worker that held it, it would be gone.
"""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import dask
from distributed import Client, Future

from .. import __version__, mapped
from ..blocks.budget import MEMORY, bytes_of
from ..errors import ClusterError, ParameterError
from .checking import check_files, check_versions
from .faults import told
from .working import Given, keep, work

AHEAD = 3
"""Parts on the way for each thread of the cluster: one that is worked on and two that wait.

More would keep workers busy past a part that takes longer than others, and would leave more results
waiting on the workers for their turn.
"""
LEAVES = 0.8
"""The share of a worker's memory that Dask lets tasks fill before it gives it no more of them."""


class Dask:
    """The workers of a Dask cluster as a map.

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
    >>> epoxy.blocks.label("spam/", run=epoxy.cluster.Dask(client))  # doctest: +SKIP
    """

    def __init__(
        self, client: Client, *, patience: float = 60.0, mend: Callable[[], None] = lambda: None
    ) -> None:
        self.client, self.patience, self._mend = client, patience, mend
        self._checked: set[Any] = set()
        self._alone: float | None = None  # since when there is no worker
        self._paused: float | None = None  # since when none takes work

    def __call__(self, function: Callable[[Any], Any], parts: Iterable[Any]) -> Iterator[Any]:
        """The results in the order of the parts; the rest is cancelled when nobody asks on."""
        name = getattr(function, "__name__", type(function).__name__).strip("_").lower()
        left, waiting = iter(parts), deque[Future]()
        with told(self.client):
            self._check()
            given = self._send(Given(__version__, function), name)
        try:
            while True:
                with told(self.client):
                    room = max(1, AHEAD * self._n_threads() - len(waiting))
                    for part in islice(left, room):
                        key = f"{name}-{uuid.uuid4().hex}"
                        made = self.client.submit(work, part, given, key=key, pure=False)
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
        with told(self.client):
            self._check()
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

    def _check(self) -> None:
        """Before anything is sent: that workers fit, and see the files."""
        if not self._checked:
            check_versions(self.client)
        now = mapped.limit()
        if now is not None and now.folder not in self._checked:
            check_files(self.client, now.folder)
            self._checked.add(now.folder)
        self._checked.add("versions")

    def _send(self, given: Given, name: str) -> Future:
        # Dask warns of 10 MB in a graph; these are sums and samples that every part needs
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"}):
            key = f"{name}-given-{uuid.uuid4().hex}"
            return self.client.submit(keep, given, key=key, pure=False)

    def _result(self, future: Future) -> Any:
        """What a part came to; waits as long as there are workers, or may be again."""
        while not future.done():
            try:
                return future.result(timeout=min(5.0, self.patience))
            except TimeoutError:  # of the wait: what a task says of one comes as an error of ours
                if self._n_threads():
                    self._check_paused()
        return future.result()

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
                "what is kept is not done again"
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
                "workers with more, and run again: what is kept is not done again"
            )


def _since(start: float | None) -> tuple[float, float]:
    """When something began, now if not before, and the seconds since then."""
    now = time.monotonic()
    start = now if start is None else start
    return start, now - start


def _is_busy(worker: Any) -> bool:
    return bool(worker["metrics"].get("task_counts", {}).get("executing", 0))
