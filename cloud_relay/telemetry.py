"""The relay's telemetry file, by its settings."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from cloud_relay.settings import RelaySettings
from core.domain.clock import Clock
from core.storage.sqlite_store import SqliteTelemetryStore


@asynccontextmanager
async def open_telemetry(settings: RelaySettings, clock: Clock) -> AsyncIterator[SqliteTelemetryStore]:
    """Open within the context. DatabaseNewerError, StorageError."""
    store = SqliteTelemetryStore(
        settings.telemetry_path,
        clock=clock,
        is_journal=False,
        history_retention=timedelta(days=settings.history_days),
        positions_retention=timedelta(days=settings.positions_days),
        timeline_retention=timedelta(days=settings.timeline_days),
    )
    await store.open()
    try:
        yield store
    finally:
        await store.close()
