"""The box's telemetry file, by its settings, with the gardens whose zones its days are counted in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from core.domain.clock import Clock
from core.storage.sqlite_store import SqliteTelemetryStore
from edge_agent.household.gardens import Gardens
from edge_agent.settings import EdgeSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """The open store, and what it asks for time zones."""

    store: SqliteTelemetryStore
    gardens: Gardens


@asynccontextmanager
async def open_telemetry(settings: EdgeSettings, clock: Clock) -> AsyncIterator[Telemetry]:
    """Open within the context. DatabaseNewerError, StorageError."""
    gardens = Gardens(settings.time_zone)
    store = SqliteTelemetryStore(
        settings.telemetry_path,
        clock=clock,
        is_journal=True,
        history_retention=timedelta(days=settings.history_days),
        positions_retention=timedelta(days=settings.positions_days),
        timeline_retention=timedelta(days=settings.timeline_days),
        zone_of=gardens.zone_of,
    )
    await store.open()
    try:
        yield Telemetry(store=store, gardens=gardens)
    finally:
        await store.close()
