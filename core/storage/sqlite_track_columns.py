"""A long track with one reading a row, as columns of numbers, page by page on the reader's threads."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from datetime import datetime

from core.domain.clock import from_us, to_us
from core.domain.errors import InvalidInputError
from core.domain.ids import AccountId, MowerId
from core.domain.mower import RtkFix
from core.storage.sqlite_columns import RTK_FIX_CODES
from core.storage.sqlite_database import SqliteDatabase
from core.storage.sqlite_directory import find_number
from core.telemetry.track_columns import MOST_ROWS, UNKNOWN, Layer, TrackColumns

PAGE_ROWS = 20_000
_READINGS: dict[Layer, str] = {
    "coverage": "blades_on",
    "rtk": f"CASE rtk_fix WHEN {RTK_FIX_CODES[RtkFix.UNKNOWN]} THEN NULL ELSE rtk_fix = {RTK_FIX_CODES[RtkFix.FIXED]} END",
    "wifi": "wifi",
    "mobile": "mobile",
}
_THINNED = "SELECT coalesce(max(thinned_until_us), 0) FROM mower_positions_thinning WHERE mower_no = ?"


async def read_columns(
    database: SqliteDatabase,
    account_id: AccountId,
    mower_id: MowerId,
    start: datetime,
    end: datetime,
    layer: Layer,
    *,
    most_rows: int = MOST_ROWS,
    page_rows: int = PAGE_ROWS,
) -> TrackColumns:
    """Each page is a read of its own, so that others come in between. Rows may be thinned meanwhile: how far is read last."""
    statement = (
        f"SELECT observed_us, lat_e7, lon_e7, coalesce({_READINGS[layer]}, {UNKNOWN}) FROM mower_positions "
        "WHERE mower_no = ? AND observed_us >= ? AND observed_us < ? ORDER BY observed_us LIMIT ?"
    )
    found = TrackColumns()
    begin_us, end_us = to_us(start), to_us(end)

    def read(connection: sqlite3.Connection) -> tuple[int, int]:
        number = find_number(connection, mower_id, account_id)
        rows = connection.execute(statement, (number, begin_us, end_us, page_rows)).fetchall()
        found.extend(rows)
        return len(rows), int(connection.execute(_THINNED, (number,)).fetchone()[0])

    while True:
        count, thinned_until_us = await database.read(read)
        if len(found) > most_rows:
            until = from_us(found.at_us[most_rows]).isoformat().replace("+00:00", "Z")
            raise InvalidInputError.of("to", f"the range has more than {most_rows} rows; up to {until} would fit")
        if count < page_rows:
            return replace(found, thinned_until_us=thinned_until_us)
        begin_us = found.at_us[-1] + 1
