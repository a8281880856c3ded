"""Reads of one account, on a reader's thread: latest, history, track, timeline.

A row is found through the number of (mower, account), so a read that names the wrong account finds nothing.
Ranges are half open, rows ascend in time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from core.domain.clock import from_us, to_us
from core.domain.ids import AccountId, MowerId
from core.domain.mower import MowerState
from core.storage.sqlite_columns import (
    HISTORY_COLUMNS,
    POSITION_COLUMNS,
    TIMELINE_COLUMNS,
    decode_history,
    decode_position,
    decode_timeline,
)
from core.storage.sqlite_directory import find_number
from core.storage.telemetry_store import LatestState, Page
from core.telemetry.rows import HistoryRow, PositionRow, TimelineRow

_states = msgspec.json.Decoder(MowerState)
_TICK = timedelta(microseconds=1)

_LATEST = """
SELECT m.mower_id, l.received_us, l.state
FROM mowers m JOIN mower_latest l ON l.mower_no = m.mower_no
WHERE m.account_id = ? AND m.mower_id = ?
"""


def read_latest(
    connection: sqlite3.Connection, account_id: AccountId, mower_ids: Sequence[MowerId]
) -> list[LatestState]:
    """Those of the mowers that the account has and that have reported, in the order asked."""
    found = []
    for mower_id in mower_ids:
        row = connection.execute(_LATEST, (account_id, mower_id)).fetchone()
        if row is not None:
            found.append(
                LatestState(
                    mower_id=mower_id,
                    account_id=account_id,
                    state=_states.decode(row[2]),
                    received_at=from_us(row[1]),
                )
            )
    return found


def read_history(
    connection: sqlite3.Connection,
    account_id: AccountId,
    mower_id: MowerId,
    start: datetime,
    end: datetime,
    limit: int,
) -> tuple[list[HistoryRow], Page]:
    """At most `limit` changes of state."""
    rows = connection.execute(
        f"SELECT {HISTORY_COLUMNS} FROM mower_history "
        "WHERE mower_no = ? AND observed_us >= ? AND observed_us < ? ORDER BY observed_us LIMIT ?",
        (find_number(connection, mower_id, account_id), to_us(start), to_us(end), limit + 1),
    )
    found = [decode_history(columns, mower_id) for columns in rows]
    return found[:limit], _page([row.observed_at for row in found[:limit]], is_truncated=len(found) > limit)


def read_positions(
    connection: sqlite3.Connection,
    account_id: AccountId,
    mower_id: MowerId,
    start: datetime,
    end: datetime,
    limit: int,
) -> tuple[list[PositionRow], Page]:
    """At most `limit` steps of the track."""
    rows = connection.execute(
        f"SELECT {POSITION_COLUMNS} FROM mower_positions "
        "WHERE mower_no = ? AND observed_us >= ? AND observed_us < ? ORDER BY observed_us LIMIT ?",
        (find_number(connection, mower_id, account_id), to_us(start), to_us(end), limit + 1),
    )
    found = [decode_position(columns, mower_id) for columns in rows]
    return found[:limit], _page([row.observed_at for row in found[:limit]], is_truncated=len(found) > limit)


def read_timeline(
    connection: sqlite3.Connection,
    account_id: AccountId,
    mower_id: MowerId,
    start: datetime,
    end: datetime,
    limit: int,
) -> tuple[list[TimelineRow], Page]:
    """Transitions of commands; `limit` is overrun by those of the same microsecond, so that a cursor skips none."""
    number, start_us, end_us = find_number(connection, mower_id, account_id), to_us(start), to_us(end)
    ordered = "ORDER BY at_us, command_id, status"
    border = connection.execute(
        f"SELECT at_us FROM command_timeline WHERE mower_no = ? AND at_us >= ? AND at_us < ? {ordered} LIMIT 1 OFFSET ?",
        (number, start_us, end_us, limit - 1),
    ).fetchone()
    until_us = end_us if border is None else border[0] + 1
    rows = connection.execute(
        f"SELECT {TIMELINE_COLUMNS} FROM command_timeline WHERE mower_no = ? AND at_us >= ? AND at_us < ? {ordered}",
        (number, start_us, until_us),
    )
    found = [decode_timeline(columns, mower_id) for columns in rows]
    following = connection.execute(
        "SELECT 1 FROM command_timeline WHERE mower_no = ? AND at_us >= ? AND at_us < ? LIMIT 1",
        (number, until_us, end_us),
    ).fetchone()
    return found, _page([row.result.at for row in found], is_truncated=following is not None)


def _page(times: Sequence[datetime], *, is_truncated: bool) -> Page:
    return Page(is_truncated=True, cursor=times[-1] + _TICK) if is_truncated and times else Page()
