"""The TrackThinner on SQLite. A slice is one job of the writer's thread, in one transaction: other writers have their
turn between slices, and whatever is killed, a slice is thinned once or not at all.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from core.domain.clock import from_us, to_us
from core.domain.ids import AccountId, MowerId
from core.storage import sqlite_thinning_rules as rules
from core.storage.sqlite_database import SqliteDatabase
from core.storage.sqlite_directory import find_number
from core.storage.track_thinner import SLICE, ThinnedSlice, TrackNo
from core.telemetry.binning import bin_start_us
from core.telemetry.thinning import COARSE_BIN_S, GRID_US, stated_mm

SLICE_ROWS = 10_000
"""A slice of more rows than these is made shorter, down to one cell of the grid: writers wait for it."""

PROBE = "SELECT sqrt(4)"

_TRACKS = """
SELECT m.mower_no, m.mower_id FROM mowers m LEFT JOIN mower_positions_thinning t USING (mower_no)
WHERE EXISTS (SELECT 1 FROM mower_positions p WHERE p.mower_no = m.mower_no
              AND p.observed_us >= coalesce(t.thinned_until_us, 0) AND p.observed_us < ?)
ORDER BY coalesce(t.thinned_until_us, 0), m.mower_no
"""
_FIRST = """
SELECT min(observed_us) FROM mower_positions WHERE mower_no = :mower AND observed_us < :before
AND observed_us >= coalesce((SELECT thinned_until_us FROM mower_positions_thinning WHERE mower_no = :mower), 0)
"""
_BORDER = """
SELECT observed_us FROM mower_positions WHERE mower_no = ? AND observed_us >= ? AND observed_us < ?
ORDER BY observed_us LIMIT 1 OFFSET ?
"""
_DROPPED = "SELECT at FROM thin_rows WHERE n >= :first AND n < :last AND n NOT IN thin_kept"


class SqliteTrackThinner:
    """Part of a SqliteTelemetryStore, in the same file."""

    def __init__(self, database: SqliteDatabase, *, length: timedelta = SLICE) -> None:
        self._database = database
        self._length_us = length // timedelta(microseconds=1)

    async def tracks(self, before: datetime, held: Collection[MowerId] = ()) -> Sequence[TrackNo]:
        border, held_ids = _grid_us(before), frozenset(held)
        return await self._database.read(
            lambda connection: [
                TrackNo(number)
                for number, mower_id in connection.execute(_TRACKS, (border,))
                if mower_id not in held_ids
            ]
        )

    async def thin_slice(self, track: TrackNo, before: datetime) -> ThinnedSlice | None:
        return await self._database.write(
            lambda connection: thin_next(connection, track, _grid_us(before), length_us=self._length_us)
        )


def thin_next(
    connection: sqlite3.Connection,
    mower_no: int,
    before_us: int,
    *,
    length_us: int = SLICE // timedelta(microseconds=1),
    most_rows: int = SLICE_ROWS,
) -> ThinnedSlice | None:
    """Thins the next slice before `before_us`, which is on the grid, and moves the watermark, in the transaction that
    it is called in."""
    first_us = connection.execute(_FIRST, {"mower": mower_no, "before": before_us}).fetchone()[0]
    if first_us is None:
        return None
    start_us = bin_start_us(first_us, COARSE_BIN_S)
    end_us = min(start_us + length_us, before_us)
    border = connection.execute(_BORDER, (mower_no, start_us, end_us, most_rows)).fetchone()
    if border is not None:
        end_us = max(start_us + GRID_US, bin_start_us(border[0], COARSE_BIN_S))
    scanned, deleted, error_mm = _thin(connection, mower_no, start_us, end_us)
    connection.execute("INSERT OR REPLACE INTO mower_positions_thinning VALUES (?, ?)", (mower_no, end_us))
    if deleted:
        connection.execute(
            "INSERT INTO thinned_stretches VALUES (?, ?, ?, ?)", (mower_no, start_us, end_us - 1, error_mm)
        )
    return ThinnedSlice(
        start=from_us(start_us), end=from_us(end_us), scanned=scanned, deleted=deleted, error_m=error_mm / 1000
    )


def _thin(connection: sqlite3.Connection, mower_no: int, start_us: int, end_us: int) -> tuple[int, int, int]:
    """Thins `start <= observed_us < end` of a mower: rows scanned, rows deleted, stated error in millimetres."""
    _prepare(connection)
    given = rules.PARAMETERS | {"mower": mower_no, "start": start_us, "end": end_us}
    tail, slice_ = rules.LOAD
    first = connection.execute(tail, given).rowcount + 1
    connection.execute(slice_, given)
    last = connection.execute("SELECT count(*) + 1 FROM thin_rows WHERE at < :end", given).fetchone()[0]
    given |= {"first": first, "last": last}
    connection.execute(rules.MEASURE, given)
    connection.execute(rules.JUDGE, given)
    square = _bound(connection, given)
    deleted = _delete(connection, given)
    connection.execute("DELETE FROM thinning_tails WHERE mower_no = :mower", given)
    connection.execute(rules.SAVE_TAIL, given)
    _clear(connection)
    return last - first, deleted, stated_mm(square) if deleted else 0


def _bound(connection: sqlite3.Connection, given: dict[str, float]) -> float:
    """Rounds until no gap is beyond its tolerance; the largest square that is left."""
    connection.execute(rules.FIRST_GAPS, given)
    largest = 0.0
    while True:
        connection.execute(rules.FIND_FARTHEST, given)
        largest = max(largest, float(connection.execute(rules.LARGEST).fetchone()[0]))
        connection.execute("DELETE FROM thin_gaps")
        if connection.execute(rules.KEEP_FARTHEST).rowcount == 0:
            return largest
        connection.execute(rules.NEXT_GAPS)
        connection.execute("DELETE FROM thin_farthest")


def _delete(connection: sqlite3.Connection, given: dict[str, float]) -> int:
    return connection.execute(
        f"DELETE FROM mower_positions WHERE mower_no = :mower AND observed_us IN ({_DROPPED})", given
    ).rowcount


def _prepare(connection: sqlite3.Connection) -> None:
    try:
        connection.execute(PROBE)
    except sqlite3.OperationalError:  # a SQLite built without mathematics
        connection.create_function("sqrt", 1, _sqrt, deterministic=True)
    for table in rules.TABLES:
        connection.execute(table)
    _clear(connection)


def _clear(connection: sqlite3.Connection) -> None:
    for clear in rules.CLEAR:
        connection.execute(clear)


def _sqrt(value: float | None) -> float | None:
    return None if value is None else math.sqrt(value)


def _grid_us(at: datetime) -> int:
    """The last instant of the 5-minute grid not after `at`."""
    return bin_start_us(to_us(at), COARSE_BIN_S)


def read_error_mm(
    connection: sqlite3.Connection, account_id: AccountId, mower_id: MowerId, start: datetime, end: datetime
) -> int:
    """The largest stated error of the stretches that a range touches; 0 where every row is still there."""
    row = connection.execute(
        "SELECT max(error_mm) FROM thinned_stretches WHERE mower_no = ? AND first_us < ? AND last_us >= ?",
        (find_number(connection, mower_id, account_id), to_us(end), to_us(start)),
    ).fetchone()
    return row[0] or 0


def delete_stretches(connection: sqlite3.Connection, before_us: int) -> int:
    """Deletes stretches that ended before; how many went."""
    return connection.execute("DELETE FROM thinned_stretches WHERE last_us < ?", (before_us,)).rowcount


def forget_track(connection: sqlite3.Connection, mower_no: int) -> None:
    """Deletes all that thinning knows of a track."""
    for table in ("mower_positions_thinning", "thinned_stretches", "thinning_tails"):
        connection.execute(f"DELETE FROM {table} WHERE mower_no = ?", (mower_no,))
