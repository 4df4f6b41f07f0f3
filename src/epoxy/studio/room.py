"""One session, the pages that look at it, and one thread that does their work in order.

A verb is asked for with `ask` from any thread and done in the worker thread under the session's lock, so
that an answer is of one moment. After an edit, whoever made it (a page, a saved file, another process, the
notebook), every page is sent the marks that changed, and when nothing waits any more the new state.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..engines import Outcome
from ..errors import EpoxyError
from . import replies, showing
from .frames import as_json, packed
from .marks import Scene, difference, paint
from .sources import SourceTable

if TYPE_CHECKING:
    from ..session import Change, Session
    from .picture import Pictures

log = logging.getLogger("epoxy.studio")
WAITING, QUIET = 256, 0.3
"""Most verbs of one page that may wait, and seconds without work before the doctor looks; where he took
longer the last time, so many more, because whoever comes meanwhile waits for him."""


class Busy(EpoxyError):
    """A page asks faster than it can be answered."""


@dataclass(eq=False)
class Page:
    """One that asks, a page or an agent: what it colours by, what it tries, what it has selected."""

    push: Callable[[str | bytes], None] = lambda message: None
    by_name: str | None = None  # an agent; None: the person at the page
    may_write: bool = True
    given: dict[int, str | None] = field(default_factory=dict)  # how rows came that it was given
    labelled: set[int] = field(default_factory=set)  # by it, since it came or since its last undo
    by: str | None = None  # None: it has not asked for marks yet
    source: str | None = None
    marks: np.ndarray | None = None  # what it shows
    trial: Outcome | None = None  # what would follow from what it tries
    flipped: np.ndarray | None = None  # rows that would flip then
    draft: tuple[np.ndarray, ...] | None = None
    selection: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def forget(self) -> None:
        """Try nothing any more."""
        self.trial = self.flipped = self.draft = None

    def chosen(self, rows: Sequence[int] | Literal["mine"] | None) -> np.ndarray | None:
        """Rows that a request names: by number, by the word "mine", or None where it names none."""
        if rows == "mine":
            return self.selection
        return None if rows is None else np.array(rows, dtype=np.int64)


class Room:
    """A session and those who look at it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.pictures: Pictures | None = None
        self.pages: list[Page] = []
        self.scored: dict[int, tuple[dict[str, float], int] | tuple[None, None]] = {
            session.last_edit: (None, None)
        }
        """Accuracy of each model after edits made in this room, and labels flipped, by number in the log."""
        self.findings: tuple[int, list[replies.Finding]] = (-1, [])
        self.code_error: replies.CodeError | None = None
        self.written: tuple[str, dict[str, Any]] = ("", {})  # hash of lfs.py, its functions
        self.jobs: dict[int, threading.Event] = {}
        self.seconds = 0.0
        self._table: SourceTable | None = None
        self._examined = 0.0  # seconds that the doctor took last
        self._version = self._told = session.version
        self._changes: deque[Change] = deque(maxlen=WAITING)
        self._waiting: deque[tuple[Page | None, Callable[[], Any], Future[Any]]] = deque()
        self._wake = threading.Condition()
        self._open = True
        self._stop_watching = session.subscribe(self._noticed)
        self._worker = threading.Thread(target=self._work, name="epoxy-studio", daemon=True)
        self._worker.start()

    def close(self) -> None:
        """Do no more; what waits is answered as refused."""
        with self._wake:
            if not self._open:
                return
            self._open = False
            self._wake.notify()
        self._stop_watching()
        if self.pictures is not None:
            self.pictures.close()
        self._worker.join(10)

    # asking

    def ask(self, page: Page | None, run: Callable[[], Any]) -> Future[Any]:
        """Do `run` in the worker thread after all that was asked for before."""
        done: Future[Any] = Future()
        with self._wake:
            mine = sum(page is not None and each is page for each, _, _ in self._waiting)
            if not self._open:
                done.set_exception(Busy("the studio is closing; start it again"))
            elif mine >= WAITING:
                done.set_exception(Busy(f"{WAITING} requests wait already; wait for their answers"))
            else:
                self._waiting.append((page, run, done))
            self._wake.notify()
        return done

    def tell(self, type: str, **fields: Any) -> None:  # noqa: A002 - the protocol's word
        """Send every page a message."""
        text = as_json({"id": 0, "type": type, **fields})
        for page in tuple(self.pages):
            page.push(text)

    # the worker thread

    def _work(self) -> None:
        while True:
            with self._wake:
                if not self._waiting and self._open and not self._changed():
                    self._wake.wait(max(QUIET, self._examined))
                if not self._open:
                    break
                work = self._waiting.popleft() if self._waiting else None
            if work is not None:
                self._do(*work[1:])
            try:
                self._look(busy=work is not None)
            except Exception:  # the room stays open whatever one look runs into
                log.exception("what changed could not be shown")
        for _, _, done in self._waiting:
            done.set_exception(Busy("the studio is closing; start it again"))

    def _do(self, run: Callable[[], Any], done: Future[Any]) -> None:
        if not done.set_running_or_notify_cancel():
            return
        try:
            with self.session.lock:
                found = run()
                if self._changed():
                    self._repaint()  # before the answer: what is painted is what takes time
        except BaseException as error:  # noqa: BLE001 - whoever asked is told
            done.set_exception(error)
            return
        done.set_result(found)

    def _look(self, busy: bool) -> None:
        """Show what changed since the last look, once nothing waits; then let the doctor look."""
        with self.session.lock:
            if self._changed():
                self._repaint()
            if not self._waiting and self._told != self.session.version:
                self._tell_changes()
            elif not busy and not self.examined:
                start = time.monotonic()
                self.findings = (self.session.version, showing.findings(self.session))
                self._examined = time.monotonic() - start
                self.tell("findings", findings=self.findings[1])

    @property
    def examined(self) -> bool:
        """Whether the findings are about the session as it is."""
        return self.findings[0] == self.session.version

    def _changed(self) -> bool:
        return self._version != self.session.version

    def _repaint(self) -> None:
        """Send every page the marks that changed with the session; nothing is tried any more."""
        self._version = self.session.version
        for page in tuple(self.pages):
            page.forget()
            self.show(page)

    def _tell_changes(self) -> None:
        self._told = self.session.version
        changes = [self._changes.popleft() for _ in range(len(self._changes))]
        state = showing.state(self)
        self._compare(state)
        for each in changes or [self._followed()]:
            self.tell("change", change=showing.change(each), state=state)

    def _followed(self) -> Change:
        """What others decided, of which only the result is known."""
        from ..session import Change

        now, none = self.session, np.zeros(0, np.int64)
        what = "edits by another process"
        return Change(now.version, what, None, none, {}, dict(now.scores), None, 0.0, now.problem)

    def _compare(self, state: replies.State) -> None:
        """Set the other models' scores beside those of an edit that was just made."""
        scores, _ = self.scored.get(state.number, (None, None))
        for each in state.comparison:
            if scores is not None and each.accuracy is not None:
                scores.setdefault(each.name, each.accuracy.value)

    def _noticed(self, change: Change) -> None:
        """An edit was made, in whichever thread; the worker looks at it next."""
        self._changes.append(change)
        self.seconds = change.seconds
        name, own = self.session.engine.name, change.after.get("accuracy")
        scores = {} if own is None else {name: own}
        self.scored.setdefault(self.session.last_edit, (scores, len(change.flipped)))
        if threading.current_thread() is not self._worker:
            with self._wake:
                self._wake.notify()

    # what pages show

    @property
    def table(self) -> SourceTable:
        """The sources as they are now; what was worked out of them is kept until something changes."""
        if self._table is None or self._table.outcome is not self.session.outcome:
            self._table = SourceTable(self.session.outcome)
        return self._table

    def painted(self, page: Page) -> np.ndarray:
        """The marks a page should show now; a source that is gone shows nothing."""
        real = self.session.outcome
        source = page.source if page.source in self.session.sources else None
        return paint(page.by or "label", Scene(page.trial or real, real, source, page.draft))

    def show(self, page: Page, request: int = 0) -> None:
        """Send a page what changed in its marks."""
        if page.by is None:
            return
        start, now = page.marks, self.painted(page)
        page.marks = now
        sparse, n, data = difference(start, now)
        if sparse and not n and not request:
            return
        head = {"id": 0, "type": "marks", "by": page.by, "source": page.source}
        head |= {"version": self.session.version, "request": request, "sparse": sparse, "n": n}
        page.push(packed(head, data))

    # jobs

    def start_job(self, what: str, run: Callable[[Callable[[int, int], None]], str]) -> int:
        """Do long work in a thread of its own, report its progress, and end it where it is cancelled."""
        number, ended = max(self.jobs, default=0) + 1, threading.Event()
        self.jobs[number] = ended
        last = [0.0]

        def told(state: str, done: int = 0, total: int | None = None, message: str = "") -> None:
            fields = {"job": number, "what": what, "done": done, "total": total}
            self.tell("job", **fields, state=state, message=message)

        def progress(done: int, total: int) -> None:
            if ended.is_set():
                raise _Cancelled
            if time.monotonic() - last[0] > 0.1 or done >= total:
                last[0] = time.monotonic()
                told("running", done, total)

        def work() -> None:
            try:
                message = run(progress)
                told("done", 1, 1, message)
            except _Cancelled:
                told("cancelled", message=f"{what} was cancelled; nothing was changed")
            except EpoxyError as error:
                told("failed", message=str(error))
            except Exception:
                log.exception("%s failed", what)
                told("failed", message=f"{what} failed; the terminal says why")

        threading.Thread(target=work, name=f"epoxy-studio-{what}", daemon=True).start()
        return number


class _Cancelled(Exception):
    """Somebody does not want the work done any more."""
