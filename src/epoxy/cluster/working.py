"""What happens on a worker: one part at a time, within the memory that Dask gave it.

A worker with several threads is sent several parts; they take turns, and the one whose turn it is uses all
threads that Dask gave to the worker.
"""

from __future__ import annotations

import atexit
import errno
import os
import platform
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from distributed import get_worker

from .. import __version__, mapped
from ..errors import ClusterError, CodeError, EpoxyError, StoreError
from ..neighbors.workers import LIMITS
from ..project.voting import end

_turn = threading.Lock()
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, eq=False)
class Given:
    """What is the same for all parts, and who sent it."""

    version: str
    function: Callable[[Any], Any]


def keep(given: Given) -> Given:
    """Be the result of a task, which Dask moves, keeps and makes again by itself."""
    return given


def work(part: Any, given: Given) -> Any:
    """Do it to one part, here; whatever goes wrong is said with the name of the worker."""
    if given.version != __version__:  # a worker that came after the others had been asked
        raise ClusterError(
            f"{here()} has epoxy {__version__}, and the driver has {given.version}; "
            "install the same version everywhere"
        )
    with _turn, faults_named():
        # Dask tells libraries to use one thread, since tasks run side by side; ours take turns
        os.environ.update(dict.fromkeys(LIMITS, str(get_worker().state.nthreads)))
        mapped.bound(get_worker().memory_manager.memory_limit)
        return given.function(part)


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
    except OSError as error:
        what = "has no room left for" if error.errno in _FULL else "cannot use"
        raise StoreError(
            f"{here()} {what} {error.filename or 'a file'} ({error.strerror or error}); make room or "
            "mend it and run again: what is kept is not done again"
        ) from error
    except MemoryError as error:
        raise ClusterError(
            f"{here()} ran out of memory; give a smaller --memory, or workers with more"
        ) from error


def here() -> str:
    """The worker this is, for a message."""
    return f"worker {get_worker().address} on {platform.node() or 'its machine'}"


atexit.register(end)
