"""Days of health on SQLite: advanced with each state on the writer's thread, recorded in its transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial
from zoneinfo import ZoneInfo

from core.domain.clock import from_us
from core.domain.ids import MowerId
from core.domain.mower import MowerState
from core.storage.sqlite_columns import RECORD_COLUMNS, decode_record
from core.storage.sqlite_journal import JournalNumbers
from core.storage.sqlite_records import upsert_record
from core.telemetry.health import Version, advance, goes_on
from core.telemetry.health_day import HEALTH_DAY, HealthDay
from core.telemetry.health_tally import Health
from core.telemetry.rows import RecordRow
from core.telemetry.significance import Place

ZoneOf = Callable[[MowerId], ZoneInfo]
"""The time zone of a mower's garden. Called on the writer's thread: only reads memory."""


class HealthDays:
    """Versions of days wait until the states of a batch are through."""

    def __init__(self, numbers: JournalNumbers, zone_of: ZoneOf) -> None:
        self._numbers = numbers
        self._zone_of = zone_of
        self._waiting: list[tuple[int, RecordRow]] = []

    def forget(self) -> None:
        """Drops what waits (after a rollback)."""
        self._waiting.clear()

    def advance(
        self,
        connection: sqlite3.Connection,
        number: int,
        mower_id: MowerId,
        health: Health | None,
        before: tuple[MowerState, int] | None,
        after: tuple[MowerState, int, Place | None],
    ) -> Health:
        """The mower's health after a state newer than all before."""
        if health is not None and before is not None and goes_on(health, before, after):
            return health
        resume = partial(self._find, connection, number, mower_id)
        health, versions = advance(health, before, after, self._zone_of(mower_id), resume)
        for version in versions:
            self._waiting.append((number, _row(mower_id, version)))
        return health

    def flush(self, connection: sqlite3.Connection) -> list[RecordRow]:
        """Writes what waits; the caller saves the numbers."""
        waiting, self._waiting = self._waiting, []
        return [row for number, row in waiting if upsert_record(connection, row, number, self._numbers)]

    def _find(self, connection: sqlite3.Connection, number: int, mower_id: MowerId, key: str) -> HealthDay | None:
        for waiting_number, row in reversed(self._waiting):
            if waiting_number == number and row.key == key:
                return HEALTH_DAY.read(row)
        columns = connection.execute(
            f"SELECT {RECORD_COLUMNS} FROM mower_records WHERE mower_no = ? AND kind = ? AND key = ?",
            (number, HEALTH_DAY.name, key),
        ).fetchone()
        return None if columns is None else HEALTH_DAY.read(decode_record(columns, mower_id))


def _row(mower_id: MowerId, version: Version) -> RecordRow:
    day = version.day
    return HEALTH_DAY.make(mower_id, day.day.isoformat(), day, at=day.starts_at, updated_at=from_us(version.updated_us))
