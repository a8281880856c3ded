"""What waits to be sent to one viewer: states conflated per mower, everything else in a bounded queue."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from core.domain import limits
from core.domain.ids import AccountId, MowerId


@dataclass(frozen=True, slots=True)
class Frame:
    """One encoded text frame. `account_id` and `mower_id` say whose data it carries; None for answers that carry
    none."""

    data: bytes
    account_id: AccountId | None = None
    mower_id: MowerId | None = None


class Outbox:
    """Newest wins for states, so it holds at most one per mower; overflow of the rest is the caller's to act on."""

    def __init__(self, capacity: int = limits.VIEWER_QUEUE) -> None:
        self.ready = asyncio.Event()
        """Set whenever something was put in."""
        self._capacity = capacity
        self._queue: deque[Frame] = deque()
        self._states: dict[MowerId, Frame] = {}
        self._is_ping_due = False
        self._pong: bytes | None = None

    def put(self, frame: Frame) -> bool:
        """False when the queue is full: the viewer is too slow."""
        if len(self._queue) >= self._capacity:
            return False
        self._queue.append(frame)
        self.ready.set()
        return True

    def put_state(self, mower_id: MowerId, frame: Frame) -> None:
        """Replaces a state of this mower that still waits; it keeps its turn."""
        self._states[mower_id] = frame
        self.ready.set()

    def put_ping(self) -> None:
        self._is_ping_due = True
        self.ready.set()

    def put_pong(self, payload: bytes) -> None:
        """Only the newest ping has to be answered (RFC 6455 section 5.5.3)."""
        self._pong = payload
        self.ready.set()

    def drop(self, mower_ids: Iterable[MowerId]) -> None:
        """Forgets what waits of these mowers."""
        gone = set(mower_ids)
        for mower_id in gone:
            self._states.pop(mower_id, None)
        self._queue = deque(frame for frame in self._queue if frame.mower_id not in gone)

    def take_control(self) -> tuple[bool, bytes | None]:
        """Whether to ping, and the payload of a pong to send."""
        taken = self._is_ping_due, self._pong
        self._is_ping_due, self._pong = False, None
        return taken

    def take(self) -> Frame | None:
        """The next frame: the queue first (it is bounded, states are not starved), then the oldest state."""
        if self._queue:
            return self._queue.popleft()
        if self._states:
            return self._states.pop(next(iter(self._states)))
        return None

    def take_queued(self) -> Frame | None:
        """The next frame of the queue only, for the last words before a close."""
        return self._queue.popleft() if self._queue else None
