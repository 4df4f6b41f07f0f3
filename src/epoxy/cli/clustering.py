"""Where `epoxy label` works on shards, if not in its own process: on a Dask cluster, here or elsewhere."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..errors import ParameterError
from .output import complain

if TYPE_CHECKING:
    from ..cluster import Dask


def arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of a command that may work on a cluster."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--cluster",
        choices=("local",),
        help="label in shards in several processes of this machine; --memory is of each",
    )
    where.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="label in shards on the Dask cluster at tcp://… or tls://…; --memory is of each worker",
    )
    parser.add_argument(
        "--workers", type=int, metavar="N", help="processes of --cluster local; default: the CPUs"
    )


def asked_for(options: argparse.Namespace) -> bool:
    """Whether a cluster is to do the work."""
    if options.workers is not None and options.cluster is None:
        raise ParameterError("--workers is the number of processes of --cluster local; add it")
    return options.cluster is not None or options.scheduler is not None


@contextmanager
def runner_of(options: argparse.Namespace) -> Iterator[Dask]:
    """Connect or start, and say where to watch; it ends with the block."""
    from ..cluster import connect, local

    if options.scheduler is not None:
        made = connect(options.scheduler)
    else:
        made = local(options.workers, memory=options.memory)
    with made as runner:
        count = len(runner.client.nthreads())
        complain(f"{count} workers, dashboard: {runner.client.dashboard_link}")
        yield runner
