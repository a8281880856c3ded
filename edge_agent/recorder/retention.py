"""Lets old rows go, once an hour."""

from __future__ import annotations

import asyncio

import structlog

from core.domain.errors import StorageError
from core.storage.retention_metrics import RetentionMetrics
from core.storage.telemetry_store import TelemetryStore
from edge_agent.clock.keeper import ClockKeeper

_log = structlog.get_logger(__name__)

EVERY_S = 3600.0
FIRST_AFTER_S = 120.0
"""Not while the box is still starting."""


class Retention:
    """Runs the store's retention, and only by a clock that can be believed: one from the next century would
    let everything go."""

    def __init__(self, *, store: TelemetryStore, clock: ClockKeeper, metrics: RetentionMetrics) -> None:
        self._store = store
        self._clock = clock
        self._metrics = metrics

    async def run(self) -> None:
        """Rounds until cancelled."""
        await asyncio.sleep(FIRST_AFTER_S)
        while True:
            await self.round()
            await asyncio.sleep(EVERY_S)

    async def round(self) -> dict[str, int]:
        """One round; rows deleted by table (none while the clock is in doubt or the store fails)."""
        if not self._clock.is_trusted:
            _log.info("retention waits for the clock")
            return {}
        try:
            with self._metrics.timed("age"):
                deleted = await self._store.retain(self._clock.now())
        except StorageError as err:
            _log.warning("retention failed and is tried again in an hour", code=err.code, detail=err.detail)
            return {}
        self._metrics.count(deleted, reason="age")
        if any(deleted.values()):
            _log.info("old rows let go", **deleted)
        return deleted
