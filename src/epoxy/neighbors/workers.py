"""Two or more Python threads, each with single-threaded BLAS and kernels that drop the lock.

Measured against one pass with a threaded BLAS: the same speed in the matrix multiplication, and the
work between multiplications runs on every core instead of one. The number of threads is what the
environment allows: the CPUs this process may use, and less if `OMP_NUM_THREADS`,
`OPENBLAS_NUM_THREADS` or `NUMBA_NUM_THREADS` says less.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from .. import mapped
from ..progress import Progress, silent

LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
T = TypeVar("T")


def n_threads() -> int:
    """How many threads this process may keep busy."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    said = [os.environ.get(name, "") for name in LIMITS]
    return min([cpus, *(int(each) for each in said if each.isdigit() and int(each) > 0)])


@functools.cache
def _pools() -> Any:
    from scipy import linalg  # noqa: F401 — its BLAS is not NumPy's, and is found once it is loaded
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()  # finding the libraries takes a millisecond, limiting them none


_entered = 0
_limit: Any = None
_guard = threading.Lock()


def _take_control() -> None:
    """Let this thread set limits.

    From threadpoolctl 3.8 on the thread that set them first is the only one that may, and what others set is
    silently dropped; the guard below is what keeps threads from setting them against each other.
    """
    for library in _pools().lib_controllers:
        let_go = getattr(library, "clear_controlling_thread", None)
        if let_go is not None:
            let_go(force=True)


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Within this block a matrix multiplication uses the thread that calls it, and no other.

    The limit belongs to the whole process, so of blocks that overlap in several threads the first
    sets it and the last lifts it.
    """
    global _entered, _limit
    with _guard:
        _entered += 1
        if _entered == 1:
            _take_control()
            _limit = _pools().limit(limits=1, user_api="blas")
    try:
        yield
    finally:
        with _guard:
            _entered -= 1
            if _entered == 0:
                _take_control()
                _limit.restore_original_limits()
                _take_control()  # from nobody: others may set limits again


def spread(do: Callable[[T], None], tasks: Sequence[T], progress: Progress = silent) -> None:
    """Do tasks with as many threads as may be used; after Ctrl-C those that were begun are finished."""
    total, count = max(1, len(tasks)), min(n_threads(), len(tasks))

    def one(task: T) -> None:
        do(task)
        mapped.let_go()

    with single_threaded_blas():
        if count < 2:
            for done, task in enumerate(tasks):
                progress(done, total)
                one(task)
        else:
            pool = ThreadPoolExecutor(count)
            try:
                for done, _ in enumerate(pool.map(one, tasks)):
                    progress(done, total)
            finally:
                pool.shutdown(cancel_futures=True)
    progress(total, total)
