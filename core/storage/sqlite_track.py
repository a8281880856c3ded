"""A track for a map: as many rows as are asked for, the ones that say most of it, on a reader's thread."""

from __future__ import annotations

import sqlite3
from datetime import datetime, timedelta

from core.domain import limits
from core.domain.clock import from_us, to_us
from core.domain.ids import AccountId, MowerId
from core.storage.sqlite_columns import POSITION_COLUMNS, Columns, decode_position
from core.storage.sqlite_directory import find_number
from core.storage.sqlite_thinning import read_error_mm
from core.storage.telemetry_store import Page, TrackView
from core.telemetry.simplifying import simplify
from core.telemetry.thinning import TrackPoint

_WITHIN = "WHERE mower_no = ? AND observed_us >= ? AND observed_us < ?"
_ROWS = f"SELECT {POSITION_COLUMNS} FROM mower_positions {_WITHIN} ORDER BY observed_us LIMIT ?"
_ERRORS = f"SELECT observed_us FROM mower_history {_WITHIN} AND error_code IS NOT NULL"


def read_track(
    connection: sqlite3.Connection, account_id: AccountId, mower_id: MowerId, start: datetime, end: datetime, most: int
) -> TrackView:
    """At most `most` of the first SIMPLIFIED_ROWS rows of the range."""
    number = find_number(connection, mower_id, account_id)
    looked_at = max(most, limits.SIMPLIFIED_ROWS)
    rows = connection.execute(_ROWS, (number, to_us(start), to_us(end), looked_at + 1)).fetchall()
    page, until = Page(), end
    if len(rows) > looked_at:
        rows.pop()
        until = from_us(rows[-1][1]) + timedelta(microseconds=1)
        page = Page(is_truncated=True, cursor=until)
    stored_mm = read_error_mm(connection, account_id, mower_id, start, until)
    if len(rows) <= most:
        found = [decode_position(row, mower_id) for row in rows]
        return TrackView(rows=found, page=page, is_simplified=False, error_m=stored_mm / 1000)
    errors = {at_us for (at_us,) in connection.execute(_ERRORS, (number, rows[0][1], rows[-1][1] + 1))}
    simplified = simplify([_point(row) for row in rows], most, errors)
    return TrackView(
        rows=[decode_position(rows[index], mower_id) for index in simplified.kept],
        page=page,
        is_simplified=True,
        error_m=(stored_mm + simplified.error_mm) / 1000,
    )


def _point(row: Columns) -> TrackPoint:
    _, at_us, _, lat_e7, lon_e7, _, _, fix, _, blades, *_ = row
    return TrackPoint(
        at_us=at_us, lat_e7=lat_e7, lon_e7=lon_e7, rtk_fix=fix, blades_on=None if blades is None else bool(blades)
    )
