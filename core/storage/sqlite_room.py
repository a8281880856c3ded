"""Room in the box's file: how much it holds, which rows go first when it holds too much, and giving pages back.

Each function is one job of the writer's thread, in the transaction that it is called in.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum

from core.domain.clock import from_us
from core.storage.sqlite_retention import BY_MOWER

DAY_US = 86_400_000_000
DROPPED_TABLES = ("mower_positions", "mower_history")
"""Tables that make room. Commands, records and the latest states are small, and kept."""


class Stage(IntEnum):
    """Which rows go, in this order. What the relay has is not lost, so it goes first."""

    ACKED_THINNED = 0
    ACKED = 1
    THINNED = 2
    ANY = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """Bytes of the file, and those of them in pages that hold nothing and are used again."""

    file_bytes: int
    free_bytes: int

    @property
    def used_bytes(self) -> int:
        return self.file_bytes - self.free_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """Rows of one table that went for want of room, ever; `unacked_rows` of them the relay never had."""

    table: str
    rows: int
    unacked_rows: int
    first_at: datetime
    last_at: datetime


def read_pages(connection: sqlite3.Connection) -> Pages:
    """The file as the newest commit left it."""
    size, count, free = (
        int(connection.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("page_size", "page_count", "freelist_count")
    )
    return Pages(file_bytes=size * count, free_bytes=size * free)


def drop_oldest(connection: sqlite3.Connection, stage: Stage, most: int, now_us: int) -> int:
    """Deletes about `most` rows at most of the oldest day that has any of the stage, and counts them in the same
    transaction; 0 when the stage has none left."""
    acked_seq = int(connection.execute("SELECT acked_seq FROM journal_stream").fetchone()[0])
    is_acked = stage in (Stage.ACKED_THINNED, Stage.ACKED)
    if is_acked and acked_seq == 0:
        return 0
    tables = DROPPED_TABLES[:1] if stage in (Stage.ACKED_THINNED, Stage.THINNED) else DROPPED_TABLES
    heads = []
    for table in tables:
        for number, until_us in _limits(connection, stage):
            given = {"mower": number, "until": until_us, "acked": acked_seq if is_acked else 2**62}
            oldest = connection.execute(
                f"SELECT observed_us FROM {table} WHERE mower_no = :mower AND observed_us < :until "
                "AND seq <= :acked ORDER BY observed_us LIMIT 1",
                given,
            ).fetchone()
            if oldest is not None:
                heads.append((int(oldest[0]), table, given))
    if not heads:
        return 0
    oldest_us, table, given = min(heads, key=lambda head: head[0])
    given["until"] = min(given["until"], (oldest_us // DAY_US + 1) * DAY_US)
    unacked, deleted = _delete(connection, table, given | {"from": oldest_us, "most": most}, acked_seq)
    connection.execute(
        "INSERT INTO dropped_rows VALUES (:table, :rows, :unacked, :now, :now) ON CONFLICT (table_name) DO UPDATE SET "
        "rows = rows + :rows, unacked_rows = unacked_rows + :unacked, last_us = :now",
        {"table": table, "rows": deleted, "unacked": unacked, "now": now_us},
    )
    return deleted


def _limits(connection: sqlite3.Connection, stage: Stage) -> list[tuple[int, int]]:
    """Each mower's number and the time before which its rows belong to the stage."""
    if stage in (Stage.ACKED_THINNED, Stage.THINNED):
        return connection.execute("SELECT mower_no, thinned_until_us FROM mower_positions_thinning").fetchall()
    return [(number, 2**62) for (number,) in connection.execute("SELECT mower_no FROM mowers ORDER BY mower_no")]


def _delete(connection: sqlite3.Connection, table: str, given: dict[str, int], acked_seq: int) -> tuple[int, int]:
    """Rows deleted that the relay had not acknowledged, and rows deleted."""
    time = BY_MOWER[table]
    chosen = f"FROM {table} WHERE mower_no = :mower AND {time} >= :from AND {time} < :until AND seq <= :acked"
    border = connection.execute(f"SELECT {time} {chosen} ORDER BY {time} LIMIT 1 OFFSET :most", given).fetchone()
    if border is not None:
        given = given | {"until": int(border[0])}
    unacked = connection.execute(f"SELECT count(*) {chosen} AND seq > :sent", given | {"sent": acked_seq}).fetchone()
    return int(unacked[0]), connection.execute(f"DELETE {chosen}", given).rowcount


def give_back(connection: sqlite3.Connection, bytes_: int) -> int:
    """Cuts up to `bytes_` of free pages off the file (in WAL mode the file itself shrinks at the next checkpoint);
    bytes that went."""
    before = read_pages(connection)
    pages = max(1, bytes_ // int(connection.execute("PRAGMA page_size").fetchone()[0]))
    connection.execute(f"PRAGMA incremental_vacuum({pages})").fetchall()
    return before.file_bytes - read_pages(connection).file_bytes


def read_dropped(connection: sqlite3.Connection) -> list[Dropped]:
    """What the budget has cost so far."""
    return [
        Dropped(table=table, rows=rows, unacked_rows=unacked, first_at=from_us(first), last_at=from_us(last))
        for table, rows, unacked, first, last in connection.execute("SELECT * FROM dropped_rows ORDER BY table_name")
    ]
