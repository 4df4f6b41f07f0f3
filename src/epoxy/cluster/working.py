"""What happens on a worker: one shard at a time, within the memory that was agreed.

A shard is cut so that one of them fits the budget of a process. A worker with several threads is sent
several; they take turns, and the one whose turn it is uses all threads that Dask gave to the worker.
"""

from __future__ import annotations

import atexit
import errno
import os
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from distributed import get_worker

from .. import __version__
from ..errors import ClusterError, CodeError, EpoxyError, StoreError
from ..neighbors.workers import LIMITS
from ..shards import Shard, Summary
from ..shards.runner import Do
from ..shards.voting import close

_turn = threading.Lock()
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, eq=False)
class Given:
    """What is the same for all shards of a stage, and who sent it."""

    version: str
    do: Do
    constants: tuple[Any, ...]


def keep(given: Given) -> Given:
    """Be the result of a task, which Dask moves, keeps and makes again by itself."""
    return given


def work(shard: Shard, given: Given) -> Summary:
    """Do it to one shard, here; whatever goes wrong is said with the name of the worker."""
    if given.version != __version__:  # a worker that came after the others had been asked
        raise ClusterError(
            f"{here()} has epoxy {__version__}, and the driver has {given.version}; "
            "install the same version everywhere"
        )
    with _turn, faults_named():
        _use_threads()
        return given.do(shard, *given.constants)


@contextmanager
def faults_named() -> Iterator[None]:
    """Turn what a worker's system refuses into a sentence that names the worker."""
    try:
        yield
    except CodeError as error:  # at the driver they ran
        raise CodeError(
            f"labeling functions do not run on {here()}: {error}; what travels is the text of lfs.py and "
            "of what it imports of its folder, so install the rest on every worker"
        ) from error
    except EpoxyError:
        raise
    except FileNotFoundError as error:
        raise StoreError(
            f"{here()} does not find {error.filename}; put the project folder and its rows on a file "
            "system that all workers share, under the same path"
        ) from error
    except OSError as error:
        what = "has no room left for" if error.errno in _FULL else "cannot use"
        raise StoreError(
            f"{here()} {what} {error.filename or 'a file'} ({error.strerror or error}); make room or "
            "mend it and run again: what is finished is not done again"
        ) from error
    except MemoryError as error:
        raise ClusterError(
            f"{here()} ran out of memory; give a smaller --memory, so that shards are smaller, or "
            "workers with more"
        ) from error


def here() -> str:
    """The worker this is, for a message."""
    return f"worker {get_worker().address} on {platform.node() or 'its machine'}"


def _use_threads() -> None:
    """Dask tells libraries to use one thread, since tasks run side by side; ours take turns."""
    count = str(get_worker().state.nthreads)
    os.environ.update(dict.fromkeys(LIMITS, count))


atexit.register(close)
