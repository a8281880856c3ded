"""The rule of `core.telemetry.binning.bin_history` on SQLite, bin by bin.

A few small statements a bin need no sorting and skip what is empty: a third of the time that one statement took, whose
GROUP BY sorts every row of the range (measured: bench/reads.py).
"""

from __future__ import annotations

import sqlite3
from datetime import datetime

from core.domain.clock import from_us, to_us
from core.domain.ids import AccountId, MowerId
from core.storage.sqlite_columns import activity_of, rtk_fix_of
from core.storage.sqlite_directory import find_number
from core.telemetry.binning import bin_start_us
from core.telemetry.rows import HistoryBin
from core.telemetry.significance import DEGREE

_WITHIN = "WHERE mower_no = ? AND observed_us >= ? AND observed_us < ?"
_FIRST = f"SELECT min(observed_us) FROM mower_history {_WITHIN}"
_TOTALS = f"""
SELECT count(*), (2 * sum(battery) + count(battery)) / (2 * count(battery)), min(battery), max(battery),
       coalesce(max(is_charging), 0)
FROM mower_history {_WITHIN}
"""
_LAST = f"SELECT activity, rtk_fix FROM mower_history {_WITHIN} ORDER BY observed_us DESC LIMIT 1"
_LAST_ERROR = f"""
SELECT error_code FROM mower_history {_WITHIN} AND error_code IS NOT NULL ORDER BY observed_us DESC LIMIT 1
"""
_LAST_PLACE = f"SELECT lat_e7, lon_e7 FROM mower_positions {_WITHIN} ORDER BY observed_us DESC LIMIT 1"


def read_bins(
    connection: sqlite3.Connection,
    account_id: AccountId,
    mower_id: MowerId,
    start: datetime,
    end: datetime,
    step_s: int,
) -> list[HistoryBin]:
    """The bins of a mower that have history rows, oldest first."""
    number = find_number(connection, mower_id, account_id)
    start_us, end_us, step_us = to_us(start), to_us(end), step_s * 1_000_000
    found = []
    at_us = bin_start_us(start_us, step_s)
    while at_us < end_us:
        within = (number, max(at_us, start_us), min(at_us + step_us, end_us))
        totals = connection.execute(_TOTALS, within).fetchone()
        if totals[0]:
            found.append(_make_bin(connection, at_us, within, totals))
            at_us += step_us
            continue
        next_us = connection.execute(_FIRST, (number, at_us + step_us, end_us)).fetchone()[0]
        if next_us is None:
            break
        at_us = bin_start_us(next_us, step_s)
    return found


def _make_bin(
    connection: sqlite3.Connection,
    at_us: int,
    within: tuple[int | None, int, int],
    totals: tuple[int, int | None, int | None, int | None, int],
) -> HistoryBin:
    """One bin that has rows: the last words in it beside its totals."""
    samples, mean, least, most, is_charging = totals
    activity, fix = connection.execute(_LAST, within).fetchone()
    error = connection.execute(_LAST_ERROR, within).fetchone()
    place = connection.execute(_LAST_PLACE, within).fetchone()
    return HistoryBin(
        at=from_us(at_us),
        samples=samples,
        activity=activity_of(activity),
        rtk_fix=rtk_fix_of(fix),
        error_code=None if error is None else error[0],
        battery_mean=mean,
        battery_min=least,
        battery_max=most,
        is_charging=bool(is_charging),
        lat=None if place is None else place[0] / DEGREE,
        lon=None if place is None else place[1] / DEGREE,
    )
