"""Cares for the box's file: lets old rows go, keeps it within its room, and says what that cost."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable

import msgspec
import structlog
from prometheus_client import CollectorRegistry

from core.domain.errors import StorageError
from core.storage.disk_budget import BudgetStatus, DiskBudget
from core.storage.retention_metrics import RetentionMetrics
from core.storage.sqlite_store import SqliteTelemetryStore
from edge_agent.clock.keeper import ClockKeeper
from edge_agent.recorder.card_wear import CardWear, WearStatus
from edge_agent.recorder.retention import Retention
from edge_agent.settings import EdgeSettings

_log = structlog.get_logger(__name__)

ROOM_EVERY_S = 60.0
"""How often the file's room is looked at; a mower writes about a megabyte a day."""
MIB = 1024 * 1024
TERABYTE = 10**12


class StorageStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The room of the telemetry file (None before the first look), and the wear of the card that it lies on."""

    budget: BudgetStatus | None = None
    wear: WearStatus | None = None


class StorageCare:
    """`run` cares until cancelled; `status` and `problems` are for people."""

    def __init__(
        self,
        settings: EdgeSettings,
        store: SqliteTelemetryStore,
        clock: ClockKeeper,
        registry: CollectorRegistry,
        on_change: Callable[[], None] = lambda: None,
        *,
        budget: DiskBudget | None = None,
    ) -> None:
        self._store = store
        self._folder = settings.data_dir
        self._wear = CardWear(
            monotonic=clock.monotonic,
            endurance_bytes=settings.card_endurance_tbw * TERABYTE or None,
        )
        self._on_change = on_change
        self._metrics = RetentionMetrics(registry)
        self._retention = Retention(store=store, clock=clock, metrics=self._metrics)
        self._budget = budget or store.disk_budget(
            budget_bytes=settings.disk_budget_mib * MIB, reserve_percent=settings.disk_reserve_percent
        )

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._retention.run(), name="retention")
            group.create_task(self._keep_room(), name="disk budget")

    async def look(self) -> None:
        """One look at the room, making some if it must. A card that is too full to drop rows is looked at again."""
        problems = self.problems()
        before = {} if self._budget.status is None else self._budget.status.dropped_rows
        try:
            with self._metrics.timed("room"):
                await self._budget.round()
        except StorageError as err:
            _log.warning("the disk budget could not be kept and is tried again", code=err.code, detail=err.detail)
        status = self._budget.status
        if status is not None:
            self._wear.note_used(status.used_bytes)
            rows = {table: count - before.get(table, 0) for table, count in status.dropped_rows.items()}
            self._metrics.count(rows, reason="room")
        if self.problems() != problems:
            self._on_change()

    def status(self) -> StorageStatus:
        """Room as of the last look, wear as of now."""
        try:
            disk_bytes = shutil.disk_usage(self._folder).total
        except OSError:
            disk_bytes = None
        wear = self._wear.status(self._store.commit_counts, disk_bytes=disk_bytes)
        return StorageStatus(budget=self._budget.status, wear=wear)

    def problems(self) -> tuple[str, ...]:
        """Sentences for a person."""
        status = self._budget.status
        if status is None:
            return ()
        found = []
        if status.dropped_since is not None:
            rows = sum(status.dropped_rows.values())
            found.append(
                f"The telemetry file has reached its room of {status.allowed_bytes // MIB} MiB: {rows} old rows were "
                f"let go since {status.dropped_since:%Y-%m-%d} ({status.unacknowledged_rows} of them the relay never had)."
            )
        if status.is_disk_short:
            found.append("The disk is nearly full, and not of telemetry: make room on it.")
        return tuple(found)

    async def _keep_room(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(ROOM_EVERY_S)
