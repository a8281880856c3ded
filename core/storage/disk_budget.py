"""How much of the disk the box's file may take, and what is done about it when it takes more.

The file may grow to `budget_bytes`, and to what leaves a tenth of the file system free, whichever is less. Beyond it
old rows go, stage by stage (`sqlite_room.Stage`), until a slack is free again. The pages are used again by new rows,
which costs the card nothing; they are cut off the file (which writes, and wears) only while the file itself is larger
than it may be. Whoever else fills the disk cannot make the box forget everything: FLOOR_BYTES of the newest stay.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import msgspec
import structlog

from core.domain import limits
from core.domain.clock import Clock, to_us
from core.storage import sqlite_journal, sqlite_room
from core.storage.sqlite_database import SqliteDatabase
from core.storage.sqlite_room import Dropped, Pages, Stage

FLOOR_BYTES = 32 * 1024 * 1024
"""Of its own rows the box keeps at least these, however full others make the disk."""
SLACK = 0.05
"""Of what is allowed; a round that must drop makes this much room more, so that it is not needed every minute."""
VACUUM_STEP_BYTES = 1024 * 1024
"""Given back in one transaction."""

_log = structlog.get_logger(__name__)

ReadUsage = Callable[[Path], tuple[int, int, int]]
"""Total, used and free bytes of the file system of a folder. OSError."""


class BudgetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Room of the telemetry file. `dropped_rows` and the rest tell what was let go before its time, ever."""

    allowed_bytes: int
    used_bytes: int
    file_bytes: int
    is_reached: bool
    """The last round had to let rows go."""
    is_disk_short: bool = False
    """The file system has less than its tenth free, and it is not this file that could change that."""
    dropped_rows: dict[str, int] = {}
    unacknowledged_rows: int = 0
    """Of these; the relay never had them."""
    dropped_since: datetime | None = None
    dropped_last_at: datetime | None = None


class DiskBudget:
    """Part of a box's SqliteTelemetryStore, in the same file. `status` is of the last round."""

    def __init__(
        self,
        database: SqliteDatabase,
        *,
        clock: Clock,
        budget_bytes: int,
        reserve_percent: int,
        floor_bytes: int = FLOOR_BYTES,
        read_usage: ReadUsage = shutil.disk_usage,
    ) -> None:
        self._database = database
        self._clock = clock
        self._budget_bytes = budget_bytes
        self._reserve_percent = reserve_percent
        self._floor_bytes = floor_bytes
        self._read_usage = read_usage
        self.status: BudgetStatus | None = None

    async def round(self) -> int:
        """Looks, and makes room if it must; rows dropped. StorageError; what went until then is gone and counted."""
        pages = await self._database.read(sqlite_room.read_pages)
        allowed, is_short = self._allowed(pages)
        dropped = 0
        if pages.used_bytes > allowed:
            try:
                dropped = await self._drop(int(allowed * (1.0 - SLACK)))
            finally:
                await self._note(allowed, is_reached=True, is_short=is_short)
            await self._forget_blocks()
        if pages.file_bytes > allowed:
            await self._give_back(allowed)
        await self._note(allowed, is_reached=dropped > 0, is_short=is_short)
        if dropped:
            _log.warning("the disk budget is reached: old rows were let go", rows=dropped, allowed_bytes=allowed)
        return dropped

    def _allowed(self, pages: Pages) -> tuple[int, bool]:
        """Bytes that the file may take, and whether the disk is short of its reserve for reasons beyond it."""
        try:
            total, _, free = self._read_usage(self._database.path.parent)
        except OSError:  # a disk that cannot be asked: the budget holds
            return max(self._budget_bytes, self._floor_bytes), False
        on_card = pages.file_bytes + free - total * self._reserve_percent // 100
        floor = min(self._floor_bytes, self._budget_bytes)
        return max(min(self._budget_bytes, on_card), floor), on_card < floor

    async def _drop(self, target: int) -> int:
        total = 0
        for stage in Stage:
            while True:
                pages = await self._database.read(sqlite_room.read_pages)
                if pages.used_bytes <= target:
                    return total
                count = await self._drop_batch(stage)
                if count == 0:
                    break
                total += count
        return total

    async def _drop_batch(self, stage: Stage) -> int:
        now_us = to_us(self._clock.now())
        return await self._database.write(
            lambda connection: sqlite_room.drop_oldest(connection, stage, limits.RETENTION_BATCH_ROWS, now_us)
        )

    async def _give_back(self, allowed: int) -> None:
        while True:
            pages = await self._database.read(sqlite_room.read_pages)
            if pages.file_bytes <= allowed or pages.free_bytes == 0:
                return
            step = min(VACUUM_STEP_BYTES, pages.file_bytes - allowed)
            if await self._database.write(lambda connection: sqlite_room.give_back(connection, step)) <= 0:  # noqa: B023
                return

    async def _forget_blocks(self) -> None:
        after: int | None = 0
        while after is not None:
            begin = after
            after = await self._database.write(
                lambda connection: sqlite_journal.delete_dead_blocks(connection, begin, sqlite_journal.SWEEP_BLOCKS)  # noqa: B023
            )

    async def _note(self, allowed: int, *, is_reached: bool, is_short: bool) -> None:
        pages = await self._database.read(sqlite_room.read_pages)
        dropped: list[Dropped] = await self._database.read(sqlite_room.read_dropped)
        self.status = BudgetStatus(
            allowed_bytes=allowed,
            used_bytes=pages.used_bytes,
            file_bytes=pages.file_bytes,
            is_reached=is_reached,
            is_disk_short=is_short,
            dropped_rows={one.table: one.rows for one in dropped},
            unacknowledged_rows=sum(one.unacked_rows for one in dropped),
            dropped_since=min((one.first_at for one in dropped), default=None),
            dropped_last_at=max((one.last_at for one in dropped), default=None),
        )
