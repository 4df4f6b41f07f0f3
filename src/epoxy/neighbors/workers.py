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
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

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
def many_threaded_blas() -> Iterator[None]:
    """Within this block products use all threads: for one large product that cannot be shared out."""
    _take_control()
    with _pools().limit(limits=n_threads(), user_api="blas"):
        yield


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
    with single_threaded_blas():
        if count < 2:
            for done, task in enumerate(tasks):
                progress(done, total)
                do(task)
        else:
            pool = ThreadPoolExecutor(count)
            try:
                for done, _ in enumerate(pool.map(do, tasks)):
                    progress(done, total)
            finally:
                pool.shutdown(cancel_futures=True)
    progress(total, total)


class Work(Generic[T]):
    """Tasks done in order by several threads, in one go or in slices of time.

    `done` tasks from the front are finished whenever no slice is running. After Ctrl-C they are begun,
    and all finished only if there were several threads and it came once: those complete their tasks
    before the interrupt goes on, the only thread stops where it is.
    """

    def __init__(self, tasks: Sequence[T], *, done: int = 0) -> None:
        self.tasks = tasks
        self.done = done
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._failure: BaseException | None = None

    @property
    def finished(self) -> bool:
        """Nothing is left to do."""
        return self.done >= len(self.tasks)

    def run(
        self,
        worker: Callable[[], Callable[[T], None]],
        *,
        threads: int | None = None,
        seconds: float = float("inf"),
        progress: Progress = silent,
    ) -> None:
        """Work until everything is done or `seconds` have passed; each thread does one task at least.

        `worker()` is called once per thread and returns what that thread does with a task.
        """
        self._stop.clear()
        deadline = time.monotonic() + seconds
        count = min(threads or n_threads(), max(1, len(self.tasks) - self.done))
        with single_threaded_blas():
            if count == 1:
                self._loop(worker, deadline, progress)
            else:
                self._spread(worker, deadline, progress, count)
        if self._failure is not None:
            raise self._failure
        progress(self.done, max(1, len(self.tasks)))

    def _loop(
        self, worker: Callable[[], Callable[[T], None]], deadline: float, progress: Progress
    ) -> None:
        do = worker()
        while True:
            with self._lock:
                if self._stop.is_set() or self.finished:
                    return
                task = self.tasks[self.done]
                self.done += 1
            do(task)
            progress(self.done, len(self.tasks))
            if time.monotonic() >= deadline:
                return

    def _spread(
        self,
        worker: Callable[[], Callable[[T], None]],
        deadline: float,
        progress: Progress,
        count: int,
    ) -> None:
        def guarded() -> None:
            try:
                self._loop(worker, deadline, silent)
            except BaseException as failure:  # noqa: BLE001 — raised again in the calling thread
                self._failure = failure
                self._stop.set()

        threads = [threading.Thread(target=guarded, daemon=True) for _ in range(count)]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():
                    thread.join(0.1)
                    progress(self.done, len(self.tasks))
        finally:  # Ctrl-C, or a progress callback that wants to stop
            self._stop.set()
            for thread in threads:
                thread.join()
