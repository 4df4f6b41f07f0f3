"""Questions to an answerer, several at a time, until all are answered or something ends the run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Generic, TypeVar

from ..errors import EndpointError
from ..progress import Progress, silent
from .budget import Spent
from .server import Stopped, Unanswered

T = TypeVar("T")
LOST, LOST_AT_FIRST = 5, 2
"""Questions in a row without an answer that end a run, and those that do before the first answer."""


class Run(Generic[T]):
    """Asks questions, one by one until the first answer: a wrong key or address costs one call."""

    def __init__(self, ask: Callable[[T], object], stop: threading.Event) -> None:
        self._ask, self._stop = ask, stop
        self._lock = threading.Lock()
        self._lost = 0
        self.answered = 0
        self.unanswered = 0
        """Questions that got no answer, however often they were asked."""
        self.interrupted = False

    def over(
        self, questions: Sequence[T], at_once: int, progress: Progress = silent
    ) -> BaseException | None:
        """Ask all of them; returns what ended the run before the end, None if nothing did."""
        todo, total = iter(questions), len(questions)

        def work(until_answered: bool) -> None:
            while not (until_answered and self.answered):
                with self._lock:
                    each = None if self._stop.is_set() else next(todo, None)
                if each is None:
                    return
                try:
                    self._one(each)
                except BaseException:
                    self._stop.set()
                    raise
                progress(self.answered, total)

        futures: list[Future[None]] = []
        with ThreadPoolExecutor(at_once) as pool:
            for workers in (1, at_once):
                futures += [pool.submit(work, not futures) for _ in range(workers)]
                self._wait(futures)
        errors = [error for each in futures if (error := each.exception()) is not None]
        errors.sort(key=lambda error: isinstance(error, Spent | Stopped))  # the telling ones first
        return errors[0] if errors else None

    def _one(self, question: T) -> None:
        try:
            self._ask(question)
        except Unanswered as error:
            with self._lock:
                self.unanswered += 1
                self._lost += 1
                if self._lost >= (LOST if self.answered else LOST_AT_FIRST):
                    raise EndpointError(
                        f"{error}; the run ends here, and the same command goes on from there"
                    ) from None
        else:
            with self._lock:
                self._lost = 0
                self.answered += 1

    def _wait(self, futures: Sequence[Future[None]]) -> None:
        """Wait for calls; Ctrl-C ends the run when those in flight are answered."""
        try:
            while wait(
                futures, timeout=0.1
            ).not_done:  # not all at once: a signal may not end a wait
                pass
        except KeyboardInterrupt:
            self.interrupted = True
            self._stop.set()
            wait(futures)
