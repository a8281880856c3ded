"""The live lane: the newest state per mower, at most one in LIVE_INTERVAL_S, QoS 0, never waiting for anybody."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from core.domain import limits
from core.domain.ids import EdgeId, MowerId
from core.domain.mower import MowerState
from core.sync.messages import StateMessage, encode
from core.sync.topics import UP_STATE, topic

Publish = Callable[[str, bytes], Awaitable[None]]
Redate = Callable[[MowerState], MowerState]


class LiveLane:
    """States waiting to go up, conflated: a slow line gets fewer of them, each the newest."""

    def __init__(self, edge_id: EdgeId, *, redate: Redate = lambda state: state) -> None:
        self._edge_id = edge_id
        self._redate = redate
        self._waiting: dict[MowerId, MowerState] = {}
        self._arrived = asyncio.Event()

    def put(self, mower_id: MowerId, state: MowerState) -> None:
        """The newest state of a mower."""
        self._waiting[mower_id] = state
        self._arrived.set()

    def forget(self, mower_id: MowerId) -> None:
        """The mower was removed."""
        self._waiting.pop(mower_id, None)

    async def run(self, publish: Publish) -> None:
        """Sends until `publish` fails."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            waiting, self._waiting = self._waiting, {}
            for mower_id, state in waiting.items():
                message = StateMessage(mower_id=mower_id, state=self._redate(state))
                await publish(topic(self._edge_id, UP_STATE, mower_id), encode(message))
            await asyncio.sleep(limits.LIVE_INTERVAL_S)
