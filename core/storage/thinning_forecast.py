"""What a night of thinning would do to a file, without touching it: the very statements of the night, on a copy of one
slice at a time in memory. Memory is bounded by a slice.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from core.domain.clock import to_us
from core.storage.migrations import migrate, read_migrations
from core.storage.sqlite_thinning import thin_next
from core.storage.track_thinner import SLICE
from core.telemetry.binning import bin_start_us
from core.telemetry.thinning import COARSE_BIN_S, CONTEXT_US, GRID_US

_NO = 1
_SLICE_US = SLICE // timedelta(microseconds=1)
_COPIED = "mower_no, observed_us, seq, lat_e7, lon_e7, heading, accuracy, rtk_fix, rtk_source, blades_on, wifi, mobile, satellites"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackForecast:
    """Rows of one mower's track by what would become of them.

    `young_rows`: younger than the detail days, never touched. `behind_rows`: thinned already, or too late for it.
    `expired_rows`: older than the retention, they go whole. Of `scanned_rows`, the old ones in between, `thinned_rows`
    would go: no rule keeps them, and each is within `error_m` of the line through what is left.
    """

    mower_id: str
    account_id: str
    young_rows: int
    behind_rows: int
    expired_rows: int
    scanned_rows: int
    thinned_rows: int
    error_m: float


def forecast(
    connection: sqlite3.Connection,
    now: datetime,
    *,
    detail: timedelta,
    retention: timedelta | None,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> list[TrackForecast]:
    """Every track of a file; `on_progress` gets rows looked at and rows there are. `retention` None: for ever."""
    before_us = bin_start_us(to_us(now - detail), COARSE_BIN_S)
    expired_us = None if retention is None else to_us(now - retention)
    total = connection.execute("SELECT count(*) FROM mower_positions WHERE observed_us < ?", (before_us,)).fetchone()[0]
    done = 0
    found = []
    for number, mower_id, account_id in connection.execute(
        "SELECT mower_no, mower_id, account_id FROM mowers"
    ).fetchall():
        until_us, kept_us = _watermark(connection, number), expired_us or 0
        scanned = thinned = 0
        error_m = 0.0
        for slice_scanned, slice_thinned, slice_error_m in _slices(
            connection, number, max(until_us, kept_us), before_us
        ):
            scanned, thinned = scanned + slice_scanned, thinned + slice_thinned
            error_m = max(error_m, slice_error_m)
            on_progress(done + scanned, total)
        done += scanned
        found.append(
            TrackForecast(
                mower_id=mower_id,
                account_id=account_id,
                young_rows=_count(connection, number, before_us, None),
                behind_rows=_count(connection, number, kept_us, max(until_us, kept_us)),
                expired_rows=0 if expired_us is None else _count(connection, number, None, expired_us),
                scanned_rows=scanned,
                thinned_rows=thinned,
                error_m=error_m,
            )
        )
    return found


def _watermark(connection: sqlite3.Connection, number: int) -> int:
    row = connection.execute(
        "SELECT thinned_until_us FROM mower_positions_thinning WHERE mower_no = ?", (number,)
    ).fetchone()
    return 0 if row is None else int(row[0])


def _count(connection: sqlite3.Connection, number: int, since_us: int | None, until_us: int | None) -> int:
    return int(
        connection.execute(
            "SELECT count(*) FROM mower_positions WHERE mower_no = ? AND observed_us >= ? AND observed_us < ?",
            (number, -(2**63) if since_us is None else since_us, 2**63 - 1 if until_us is None else until_us),
        ).fetchone()[0]
    )


def _slices(
    connection: sqlite3.Connection, number: int, reached_us: int, before_us: int
) -> Iterator[tuple[int, int, float]]:
    """Scanned, deleted and stated error of each slice, as thin_next would make them one after the other."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as scratch:
        migrate(scratch, read_migrations())
        _copy_mark(connection, scratch, number)
        while True:
            first_us = connection.execute(
                "SELECT min(observed_us) FROM mower_positions WHERE mower_no = ? AND observed_us >= ? AND observed_us < ?",
                (number, reached_us, before_us),
            ).fetchone()[0]
            if first_us is None:
                return
            start_us = bin_start_us(first_us, COARSE_BIN_S)
            end_us = min(start_us + max(_SLICE_US, GRID_US), before_us)
            _copy_slice(connection, scratch, number, (max(start_us, reached_us), end_us))
            made = thin_next(scratch, _NO, before_us)
            if made is None:
                return
            reached_us = to_us(made.end)
            scratch.execute("DELETE FROM mower_positions")
            scratch.execute("DELETE FROM mower_history")
            scratch.execute("DELETE FROM thinned_stretches")
            yield made.scanned, made.deleted, made.error_m


def _copy_mark(connection: sqlite3.Connection, scratch: sqlite3.Connection, number: int) -> None:
    """How far the track is thinned, and what the next slice sees behind itself."""
    mark = _watermark(connection, number)
    if mark:
        scratch.execute("INSERT INTO mower_positions_thinning VALUES (?, ?)", (_NO, mark))
    tails = connection.execute(
        "SELECT ?, observed_us, lat_e7, lon_e7, rtk_fix, blades_on FROM thinning_tails WHERE mower_no = ?",
        (_NO, number),
    )
    scratch.executemany("INSERT INTO thinning_tails VALUES (?, ?, ?, ?, ?, ?)", tails)


def _copy_slice(
    connection: sqlite3.Connection, scratch: sqlite3.Connection, number: int, span: tuple[int, int]
) -> None:
    """A slice, what is just after it, and the instants of errors in it."""
    start_us, end_us = span
    rows = connection.execute(
        f"SELECT {_COPIED} FROM mower_positions WHERE mower_no = ? AND observed_us >= ? AND observed_us <= ?",
        (number, start_us, end_us + CONTEXT_US),
    )
    marks = ", ".join("?" * 13)
    scratch.executemany(f"INSERT INTO mower_positions ({_COPIED}) VALUES ({marks})", ((_NO, *row[1:]) for row in rows))
    errors = connection.execute(
        "SELECT observed_us, error_code FROM mower_history WHERE mower_no = ? AND observed_us >= ? AND observed_us < ? "
        "AND error_code IS NOT NULL",
        (number, start_us, end_us),
    )
    scratch.executemany(
        "INSERT INTO mower_history (mower_no, observed_us, activity, connectivity, error_code) VALUES (?, ?, 0, 0, ?)",
        ((_NO, *error) for error in errors),
    )
