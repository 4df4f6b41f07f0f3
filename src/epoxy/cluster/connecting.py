"""A cluster that runs somewhere, or one that is started here, with its errors in words.

Encryption and everything else that Dask lets one set (`distributed.comm.tls`, `require-encryption`,
time-outs) comes from Dask's own configuration, in files or in environment variables.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import dask
from distributed import Client, LocalCluster

from ..blocks.budget import bytes_of
from ..errors import ClusterError, ParameterError
from .runner import LEAVES, Dask

PATIENCE = 300.0
"""Seconds without any worker on this machine: they are started again, which on a busy one takes a minute."""
_PATIENT = {
    # a worker whose process lives is not given up, however long it had no time to say so
    "distributed.scheduler.worker-ttl": None,
    "distributed.comm.timeouts.connect": "120s",
    "distributed.comm.timeouts.tcp": "120s",
}
_OWN = {
    # what a block of rows gives back, the next one asks for again
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
    # by default three processes take 8 % of a CPU to watch themselves: stacks every 10 ms, clocks every 20
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "2s",
}


@contextmanager
def connect(scheduler: str, *, timeout: float | None = None) -> Iterator[Dask]:
    """The cluster whose scheduler is at an address such as `tcp://10.0.0.1:8786` or `tls://…`.

    `timeout` are seconds to wait for it and for its first worker; else what Dask's configuration says
    (`distributed.comm.timeouts.connect`, 30 s).
    """
    if not re.fullmatch(
        r"([a-z]+://)?\S+:\d+", scheduler
    ):  # a client that cannot begin hangs at its end
        raise _no_address(scheduler, "it names no port")
    said = dask.config.get("distributed.comm.timeouts.connect", "30s")
    seconds = dask.utils.parse_timedelta(said) if timeout is None else timeout
    try:
        client = Client(scheduler, timeout=seconds, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise ClusterError(
            f"no scheduler answers at {scheduler} within {seconds:g} s ({_first_line(error)}); check the "
            "address and that `dask scheduler` runs there, and for tls:// the files named in "
            "distributed.comm.tls of Dask's configuration"
        ) from error
    except (ValueError, RuntimeError, TypeError) as error:
        raise _no_address(scheduler, _first_line(error)) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=seconds)
        except (OSError, TimeoutError) as error:
            raise ClusterError(
                f"the scheduler at {scheduler} has no workers after {seconds:g} s; "
                f"start some: dask worker {scheduler}"
            ) from error
        yield Dask(client)


@contextmanager
def local(workers: int | None = None, *, memory: str | int | None = None) -> Iterator[Dask]:
    """A cluster of processes on this machine, ended with the block.

    `workers` are as many as this process may use CPUs, unless said; `memory` is what each may take, else
    its share of what the machine has.
    """
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    count = cpus if workers is None else workers
    if count < 1:
        raise ParameterError(f"a cluster has at least one worker, got {count}; give 1 or more")
    limit = "auto" if memory is None else int(bytes_of(memory) / LEAVES)
    with (
        dask.config.set(_PATIENT | _OWN),
        _started(count, limit) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield Dask(client, patience=PATIENCE, mend=lambda: cluster.scale(count))


def _no_address(scheduler: str, why: str) -> ClusterError:
    return ClusterError(
        f"{scheduler!r} cannot be used as the address of a scheduler ({why}); "
        "give one such as tcp://10.0.0.1:8786, and for tls:// name the files of your certificates in "
        "distributed.comm.tls of Dask's configuration"
    )


def _started(count: int, limit: int | str) -> LocalCluster:
    try:
        return LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            processes=True,
            memory_limit=limit,
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.ERROR,
        )
    except (OSError, RuntimeError, TimeoutError) as error:
        raise ClusterError(
            f"{count} worker processes could not be started ({_first_line(error)}); give fewer --workers, "
            "and in a script of your own start them below `if __name__ == '__main__':`"
        ) from error


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0] or type(error).__name__
