"""Connections that send nothing, or send slowly, do not keep the studio from those that work.

A connection has a few seconds to send a request whole. Where there are too many, the one that came first
of those that were refused makes room, or else the first that never asked, or else the first that waits
after an answer; those in the middle of a request, and WebSockets, stay. A busy machine hands over many
connections and requests at once: which of them are refused is then asked before they are told, or a
hundred that wait for a refusal would pass for people at work.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from .security import CONNECTIONS, PATIENCE


class PatientProtocol(H11Protocol):
    """uvicorn's HTTP protocol with limits on those who wait."""

    deadline: asyncio.TimerHandle | None = None
    since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room, and begin to wait."""
        if len(self.connections) >= CONNECTIONS:
            mine = [each for each in self.connections if isinstance(each, PatientProtocol)]
            spare = [each for each in mine if each.is_refused or each.is_idle]
            if not spare:
                transport.abort()
                return
            first = min(spare, key=PatientProtocol._worth)
            self.connections.discard(first)
            first.transport.abort()
        super().connection_made(transport)
        self.since = self.loop.time()
        self._wait()

    def _worth(self) -> tuple[bool, bool, float]:
        """The least first: refused ones, those that never asked, those that were answered and wait."""
        return not self.is_refused, self.cycle is not None, self.since

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        cycle: Any = self.cycle
        return cycle is None or bool(cycle.response_complete)

    @property
    def is_refused(self) -> bool:
        """Whether its last request was refused, or will be."""
        guard: Any = self.config.app
        return self.cycle is not None and bool(guard.refuses(self.cycle.scope))

    def _wait(self) -> None:
        self.deadline = self.loop.call_later(PATIENCE, self._give_up, self.cycle)

    def _give_up(self, before: Any) -> None:
        """End a connection that began no request since the last look, or that answers none."""
        if self.is_idle and self.cycle is before:
            self.transport.abort()
        else:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        if self.deadline is not None:
            self.deadline.cancel()
            super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: Any) -> None:
        """A WebSocket may be quiet."""
        if self.deadline is not None:
            self.deadline.cancel()
        super().handle_websocket_upgrade(event)
