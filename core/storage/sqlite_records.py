"""The RecordBook on SQLite, in the file of the telemetry."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime, timedelta

from core.domain.clock import Clock, from_us, to_us
from core.domain.errors import InvalidInputError
from core.domain.ids import AccountId, MowerId
from core.storage.record_book import RecordListener
from core.storage.sqlite_columns import RECORD_COLUMNS, UPSERT_RECORD, decode_record, encode_record
from core.storage.sqlite_database import SqliteDatabase
from core.storage.sqlite_directory import SqliteDirectory, find_number
from core.storage.sqlite_journal import JournalNumbers
from core.storage.telemetry_store import Page
from core.telemetry.admission import find_record_fault
from core.telemetry.rows import RecordRow

_TICK = timedelta(microseconds=1)


class SqliteRecords:
    """Made and owned by the store."""

    def __init__(
        self, database: SqliteDatabase, directory: SqliteDirectory, numbers: JournalNumbers, clock: Clock
    ) -> None:
        self._database = database
        self._directory = directory
        self._numbers = numbers
        self._clock = clock
        self._listeners: list[RecordListener] = []

    def subscribe(self, listener: RecordListener) -> None:
        self._listeners.append(listener)

    def tell(self, account_id: AccountId, rows: Sequence[RecordRow]) -> None:
        """The store has written these."""
        if rows:
            for listener in self._listeners:
                listener(account_id, rows)

    async def put(
        self, account_id: AccountId, rows: Sequence[RecordRow], *, is_durable: bool = False
    ) -> Sequence[RecordRow]:
        for row in rows:
            fault = find_record_fault(row, self._clock.now())
            if fault is not None:
                raise InvalidInputError(f"a record of kind {row.kind[:64]!r} cannot be stored: {fault}")

        def job(connection: sqlite3.Connection) -> list[RecordRow]:
            entries = self._directory.entries(connection)
            newer = []
            for row in rows:
                entry = entries.get(row.mower_id)
                if entry is None or entry.account_id != account_id:
                    continue
                number = self._directory.number(connection, row.mower_id, account_id)
                if upsert_record(connection, row, number, self._numbers):
                    newer.append(row)
            self._numbers.save(connection)
            return newer

        stored = await self._database.write(job, durable=is_durable)
        self.tell(account_id, stored)
        return stored

    async def get(self, account_id: AccountId, mower_id: MowerId, kind: str, key: str) -> RecordRow | None:
        def job(connection: sqlite3.Connection) -> RecordRow | None:
            columns = connection.execute(
                f"SELECT {RECORD_COLUMNS} FROM mower_records WHERE mower_no = ? AND kind = ? AND key = ?",
                (find_number(connection, mower_id, account_id), kind, key),
            ).fetchone()
            return None if columns is None else decode_record(columns, mower_id)

        return await self._database.read(job)

    async def list_kind(
        self,
        account_id: AccountId,
        mower_id: MowerId,
        kind: str,
        start: datetime,
        end: datetime,
        *,
        limit: int,
        is_newest_first: bool = False,
    ) -> tuple[Sequence[RecordRow], Page]:
        return await self._database.read(
            lambda connection: _list(
                connection,
                (find_number(connection, mower_id, account_id), kind),
                (to_us(start), to_us(end)),
                mower_id,
                limit,
                is_newest_first=is_newest_first,
            )
        )


def upsert_record(connection: sqlite3.Connection, row: RecordRow, number: int, numbers: JournalNumbers) -> bool:
    """Stores a version under the mower's number and the next one of the journal; whether it was new or newer. The
    caller saves the numbers."""
    is_newer = connection.execute(UPSERT_RECORD, encode_record(row, number, numbers.peek(connection))).rowcount == 1
    if is_newer:
        numbers.take(connection, None)
    return is_newer


def _list(
    connection: sqlite3.Connection,
    whose: tuple[int | None, str],
    bounds_us: tuple[int, int],
    mower_id: MowerId,
    limit: int,
    *,
    is_newest_first: bool,
) -> tuple[list[RecordRow], Page]:
    """One page: the stretch of time that ends with the `limit`th record, then whether anything lies beyond it."""
    start_us, end_us = bounds_us
    within = "FROM mower_records WHERE mower_no = ? AND kind = ? AND at_us >= ? AND at_us < ?"
    order = "DESC" if is_newest_first else "ASC"
    border = connection.execute(
        f"SELECT at_us {within} ORDER BY at_us {order} LIMIT 1 OFFSET ?", (*whose, start_us, end_us, limit - 1)
    ).fetchone()
    page_us, rest_us = (start_us, end_us), (end_us, end_us)
    if border is not None and is_newest_first:
        page_us, rest_us = (border[0], end_us), (start_us, border[0])
    elif border is not None:
        page_us, rest_us = (start_us, border[0] + 1), (border[0] + 1, end_us)
    found = [
        decode_record(columns, mower_id)
        for columns in connection.execute(
            f"SELECT {RECORD_COLUMNS} {within} ORDER BY at_us {order}, key {order}", (*whose, *page_us)
        )
    ]
    if connection.execute(f"SELECT 1 {within} LIMIT 1", (*whose, *rest_us)).fetchone() is None:
        return found, Page()
    cursor = from_us(border[0])
    return found, Page(is_truncated=True, cursor=cursor if is_newest_first else cursor + _TICK)
