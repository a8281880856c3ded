"""What goes up at once and overtakes the backlog: results first, then replies, then events.

Results are in the journal as well, so losing one here only costs time. Events are nowhere else: what does not fit
is counted and said.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

import structlog

from core.domain import limits
from core.domain.commands import CommandResult
from core.domain.events import MowerEvent
from core.domain.ids import EdgeId, MowerId
from core.sync.messages import EventMessage, Reply, ResultMessage, encode
from core.sync.topics import UP_EVENT, UP_REPLY, UP_RESULT, topic

_log = structlog.get_logger(__name__)

Publish = Callable[[str, bytes], Awaitable[None]]


class Outbox:
    """Bounded; survives reconnects. `put_*` never blocks."""

    def __init__(self, edge_id: EdgeId, *, capacity: int = limits.EVENT_QUEUE) -> None:
        self._edge_id = edge_id
        self._capacity = capacity
        self._results: deque[tuple[str, bytes]] = deque()
        self._replies: deque[tuple[str, bytes]] = deque()
        self._events: deque[tuple[str, bytes]] = deque()
        self._arrived = asyncio.Event()
        self.dropped_events = 0
        self.dropped_results = 0
        """Only here: the journal has them."""

    def put_result(self, result: CommandResult) -> None:
        """A transition of a command."""
        self.dropped_results += self._put(
            self._results, topic(self._edge_id, UP_RESULT, result.mower_id), encode(ResultMessage(result=result))
        )

    def put_reply(self, reply: Reply) -> None:
        """The answer to a call."""
        self._put(self._replies, topic(self._edge_id, UP_REPLY, reply.request_id), encode(reply))

    def put_event(self, mower_id: MowerId, event: MowerEvent) -> None:
        """A past fact about a mower."""
        message = encode(EventMessage(mower_id=mower_id, event=event))
        dropped = self._put(self._events, topic(self._edge_id, UP_EVENT, mower_id), message)
        if dropped:
            self.dropped_events += dropped
            if self.dropped_events == 1 or self.dropped_events % 1_000 == 0:
                _log.warning("events wait too long for the relay; the oldest are lost", dropped=self.dropped_events)

    def _put(self, lane: deque[tuple[str, bytes]], where: str, data: bytes) -> int:
        is_full = len(lane) >= self._capacity
        if is_full:
            lane.popleft()
        lane.append((where, data))
        self._arrived.set()
        return int(is_full)

    async def run(self, publish: Publish) -> None:
        """Sends until `publish` fails (what could not be sent waits for the next connection)."""
        while True:
            lane = next((lane for lane in (self._results, self._replies, self._events) if lane), None)
            if lane is None:
                self._arrived.clear()
                await self._arrived.wait()
                continue
            message = lane[0]
            await publish(*message)
            if lane and lane[0] is message:
                lane.popleft()
