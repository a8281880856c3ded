"""Rows that are too old, and rows of a removed mower: what to delete next, in bounded batches.

Each function here deletes at most one batch in the transaction it is called in, so that recording never waits long.
On the box rows are aged out whether or not the relay has them: the ranges of the journal explain the gap.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

from core.domain.ids import MowerId
from core.storage.sqlite_directory import numbers_of
from core.storage.sqlite_thinning import forget_track

BY_MOWER = {"mower_history": "observed_us", "mower_positions": "observed_us", "command_timeline": "at_us"}
"""Tables that age, with the column of their time; (mower_no, time) is indexed in each. Records age by kind."""
COUNTED = (
    "mower_directory",
    "mower_latest",
    "mower_history",
    "mower_positions",
    "command_timeline",
    "mower_records",
    "edge_streams",
    "quarantine",
    "command_ledger",
)


def delete_older(connection: sqlite3.Connection, table: str, before_us: int, most: int) -> int:
    """Deletes up to about `most` of the rows of `table` (of BY_MOWER) older than `before_us`; how many went."""
    for number in _all_numbers(connection):
        deleted = _delete_oldest(connection, table, number, before_us, most)
        if deleted:
            return deleted
    return 0


def delete_old_records(
    connection: sqlite3.Connection, now_us: int, keep_us: Mapping[str, int | None], keep_others_us: int, most: int
) -> int:
    """Deletes up to `most` records that are older than their kind is kept (None: for ever); how many went."""
    kinds = connection.execute("SELECT DISTINCT mower_no, kind FROM mower_records").fetchall()
    for number, kind in kinds:
        keep = keep_us.get(kind, keep_others_us)
        if keep is None:
            continue
        deleted = connection.execute(
            "DELETE FROM mower_records WHERE mower_no = :mower AND kind = :kind AND key IN ("
            "SELECT key FROM mower_records WHERE mower_no = :mower AND kind = :kind AND at_us < :before LIMIT :most)",
            {"mower": number, "kind": kind, "before": now_us - keep, "most": most},
        ).rowcount
        if deleted:
            return deleted
    return 0


def delete_blocks(connection: sqlite3.Connection, before_us: int) -> int:
    """Deletes blocks of the journal whose track rows are all older. The last one is the counter and stays."""
    return connection.execute(
        "DELETE FROM journal_blocks WHERE last_us < ? AND first_seq < (SELECT max(first_seq) FROM journal_blocks)",
        (before_us,),
    ).rowcount


def delete_quarantined(connection: sqlite3.Connection, before_us: int) -> int:
    """Deletes rows that were put into quarantine before; how many went (bounded per box)."""
    return connection.execute("DELETE FROM quarantine WHERE received_us < ?", (before_us,)).rowcount


def purge_some(connection: sqlite3.Connection, mower_id: MowerId, most: int) -> bool:
    """Deletes up to `most` rows per table of a mower; whether there may be more. The last call takes what is left."""
    numbers = numbers_of(connection, mower_id)
    for number in numbers:
        connection.execute("DELETE FROM mower_latest WHERE mower_no = ?", (number,))
        forget_track(connection, number)
        for table in BY_MOWER:
            if _delete_oldest(connection, table, number, 2**62, most) >= most:
                return True
        if _delete_records(connection, number, most) >= most:
            return True
    connection.execute("DELETE FROM command_ledger WHERE mower_id = ?", (mower_id,))
    connection.execute(
        "DELETE FROM mowers WHERE mower_id = ? AND mower_id NOT IN (SELECT mower_id FROM mower_directory)", (mower_id,)
    )
    return False


def count_rows(connection: sqlite3.Connection, tables: Sequence[str] = COUNTED) -> dict[str, int]:
    """Rows by table."""
    return {table: int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]) for table in tables}


def _delete_records(connection: sqlite3.Connection, number: int, most: int) -> int:
    return connection.execute(
        "DELETE FROM mower_records WHERE mower_no = :mower AND (kind, key) IN ("
        "SELECT kind, key FROM mower_records WHERE mower_no = :mower LIMIT :most)",
        {"mower": number, "most": most},
    ).rowcount


def _all_numbers(connection: sqlite3.Connection) -> list[int]:
    return [int(number) for (number,) in connection.execute("SELECT mower_no FROM mowers ORDER BY mower_no")]


def _delete_oldest(connection: sqlite3.Connection, table: str, number: int, before_us: int, most: int) -> int:
    """One stretch of the key: up to the `most`th oldest row, rows of the same microsecond included."""
    time = BY_MOWER[table]
    border = connection.execute(
        f"SELECT {time} FROM {table} WHERE mower_no = ? AND {time} < ? ORDER BY {time} LIMIT 1 OFFSET ?",
        (number, before_us, most - 1),
    ).fetchone()
    until_us = before_us if border is None else border[0] + 1
    return connection.execute(f"DELETE FROM {table} WHERE mower_no = ? AND {time} < ?", (number, until_us)).rowcount
