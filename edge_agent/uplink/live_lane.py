"""The live lane: the newest state per mower, about one in LIVE_INTERVAL_S, QoS 0, never waiting for anybody."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from core.domain import limits
from core.domain.ids import EdgeId, MowerId
from core.domain.mower import MowerState
from core.sync.messages import StateMessage, encode
from core.sync.topics import UP_STATE, topic

Publish = Callable[[str, bytes], Awaitable[None]]
Redate = Callable[[MowerState], MowerState]

REFILL_S = 0.95 * limits.LIVE_INTERVAL_S
"""A mower earns a turn this often: a little faster than it reports, so that one that was held back after a burst
catches up with its own rhythm again instead of staying late for ever."""
BURST_S = 2 * REFILL_S + 0.01
"""Turns that can be saved up: a state that a command has caused goes at once, between two of the regular ones."""


class LiveLane:
    """States waiting to go up, conflated: a slow line gets fewer of them, each the newest. A state whose turn it is
    goes at once."""

    def __init__(
        self, edge_id: EdgeId, *, monotonic: Callable[[], float], redate: Redate = lambda state: state
    ) -> None:
        self._edge_id = edge_id
        self._monotonic = monotonic
        self._redate = redate
        self._waiting: dict[MowerId, MowerState] = {}
        self._turns: dict[MowerId, float] = {}
        """When each mower has earned back all the turns it took (monotonic)."""
        self._arrived = asyncio.Event()

    def put(self, mower_id: MowerId, state: MowerState) -> None:
        """The newest state of a mower."""
        self._waiting[mower_id] = state
        self._arrived.set()

    def forget(self, mower_id: MowerId) -> None:
        """The mower was removed."""
        self._waiting.pop(mower_id, None)
        self._turns.pop(mower_id, None)

    async def run(self, publish: Publish) -> None:
        """Sends until `publish` fails."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.pause_s()):
                    await self._arrived.wait()
            self._arrived.clear()
            for mower_id, state in self.take_due():
                message = StateMessage(mower_id=mower_id, state=self._redate(state))
                await publish(topic(self._edge_id, UP_STATE, mower_id), encode(message))

    def pause_s(self) -> float | None:
        """Until the next turn of a mower with a waiting state; None while nothing waits."""
        if not self._waiting:
            return None
        turn = min(self._turns.get(mower_id, 0.0) for mower_id in self._waiting)
        return max(0.0, turn - BURST_S - self._monotonic())

    def take_due(self) -> list[tuple[MowerId, MowerState]]:
        """The waiting states whose turn it is; their mowers' next turns are set."""
        now = self._monotonic()
        due = [mower_id for mower_id in self._waiting if self._turns.get(mower_id, 0.0) - BURST_S <= now]
        for mower_id in due:
            self._turns[mower_id] = max(self._turns.get(mower_id, 0.0), now) + REFILL_S
        return [(mower_id, self._waiting.pop(mower_id)) for mower_id in due]
