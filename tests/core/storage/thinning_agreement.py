"""SQL against the pure rule on one track: the same rows, the same error, in any slices."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence

from core.storage.migrations import migrate, read_migrations
from core.storage.sqlite_thinning import SLICE_ROWS, thin_next
from core.telemetry.thinning import GRID_US, TrackPoint, thin

MOWER_NO = 7


def open_track(
    path: str,
    rows: Sequence[TrackPoint],
    errors: frozenset[int],
    factory: type[sqlite3.Connection] = sqlite3.Connection,
) -> sqlite3.Connection:
    """A database with one track, and another mower's beside it."""
    connection = sqlite3.connect(path, isolation_level=None, factory=factory)
    migrate(connection, read_migrations())
    connection.execute("BEGIN")
    connection.executemany(
        "INSERT INTO mower_positions (mower_no, observed_us, seq, lat_e7, lon_e7, rtk_fix, blades_on) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (number, row.at_us, index, row.lat_e7, row.lon_e7, row.rtk_fix, row.blades_on)
            for number in (MOWER_NO, MOWER_NO + 1)
            for index, row in enumerate(rows)
        ],
    )
    connection.executemany(
        "INSERT INTO mower_history (mower_no, observed_us, activity, connectivity, error_code) VALUES (?, ?, 7, 1, ?)",
        [(MOWER_NO, at_us, "stuck") for at_us in errors] + [(MOWER_NO + 1, row.at_us, "stuck") for row in rows],
    )
    connection.execute("COMMIT")
    return connection


def left(connection: sqlite3.Connection, number: int = MOWER_NO) -> set[int]:
    found = connection.execute("SELECT observed_us FROM mower_positions WHERE mower_no = ?", (number,))
    return {at_us for (at_us,) in found}


def assert_agreement(
    rows: Sequence[TrackPoint],
    errors: frozenset[int],
    *,
    length_us: int,
    most_rows: int = SLICE_ROWS,
    factory: type[sqlite3.Connection] = sqlite3.Connection,
) -> None:
    with contextlib.closing(open_track(":memory:", rows, errors, factory)) as connection:
        end_us = rows[-1].at_us // GRID_US * GRID_US + 2 * GRID_US
        worst_m = 0.0
        while thinned := thin_next(connection, MOWER_NO, end_us, length_us=length_us, most_rows=most_rows):
            worst_m = max(worst_m, thinned.error_m)
        expected = thin(rows, errors)
        assert left(connection) == expected.kept
        assert round(worst_m * 1_000) == expected.error_mm
        assert len(left(connection, MOWER_NO + 1)) == len(rows)
        assert connection.execute("SELECT count(*) FROM thinning_tails").fetchone()[0] <= 700
