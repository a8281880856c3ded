"""Heatmaps made beside the loop, one at a time: each may take a second and a hundred megabytes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from core.domain.errors import RateLimitedError
from core.domain.ids import AccountId, MowerId
from core.storage.telemetry_store import TelemetryStore
from core.telemetry.track_columns import Layer, TrackColumns

WAITING = 8
"""Askers that wait for their turn; more are sent away."""
AGAIN_S = 5.0
Made = TypeVar("Made")


class HeatmapDesk:
    """One per host."""

    def __init__(self, store: TelemetryStore) -> None:
        self._store = store
        self._turn = asyncio.Semaphore(1)
        self._thread = threading.Lock()  # a thread whose asker has gone away still works
        self._askers = 0

    async def make(
        self,
        account_id: AccountId,
        mower_id: MowerId,
        span: tuple[datetime, datetime],
        layer: Layer,
        job: Callable[[TrackColumns], Made],
    ) -> Made:
        """What `job` makes of a track, on another thread. RateLimitedError when too many wait; what reading and `job`
        raise."""
        if self._askers > WAITING:
            raise RateLimitedError("too many heatmaps are asked for at once", retry_after_s=AGAIN_S)
        self._askers += 1
        try:
            async with self._turn:
                track = await self._store.track_columns(account_id, mower_id, *span, layer=layer)
                return await asyncio.to_thread(self._run, job, track)
        finally:
            self._askers -= 1

    def _run(self, job: Callable[[TrackColumns], Made], track: TrackColumns) -> Made:
        with self._thread:
            return job(track)
