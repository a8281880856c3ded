"""The box's journal: numbers for new rows, and reading rows by number.

The journal is no copy: rows carry `seq`. History, timeline and records have an index on it (a new version of a record
takes a new number, so only the newest one is sent). The track, by far the largest
table, has none: consecutive numbers are also close in time, so `journal_blocks` keeps for each run of numbers the
stretch of time that its track rows lie in, and a read goes through the table's own key. A row that is far from
the block's time (a backfill, a clock that jumped) begins a new block. The last block is the counter; it is written in
the transaction of the rows that it numbers, so a number is never given twice, whatever is killed or deleted.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from core.domain.errors import ConflictError
from core.domain.ids import MowerId, StreamId
from core.storage.sqlite_columns import (
    HISTORY_COLUMNS,
    POSITION_COLUMNS,
    RECORD_COLUMNS,
    TIMELINE_COLUMNS,
    decode_history,
    decode_position,
    decode_record,
    decode_timeline,
)
from core.storage.telemetry_store import JournalHead, JournalSlice
from core.telemetry.rows import SequencedRow

BLOCK_ROWS = 1_024
BLOCK_SPAN_US = 600_000_000
"""A block is at most this long in numbers and in time: what a read scans in vain is bounded by it."""
SWEEP_BLOCKS = 1_000
"""Blocks looked at in one transaction when dead ones are deleted."""
SLICE_WINDOWS = 64
"""How often a read looks further when most rows of a stretch are gone."""

_POSITIONS_BY_SEQ = f"""
SELECT {", ".join("p." + name.strip() for name in POSITION_COLUMNS.split(","))}
FROM journal_blocks b CROSS JOIN mowers m CROSS JOIN mower_positions p
WHERE b.first_seq <= :last AND b.first_seq > :first - {BLOCK_ROWS} AND b.last_seq >= :first
  AND p.mower_no = m.mower_no AND p.observed_us BETWEEN b.first_us AND b.last_us
  AND p.seq BETWEEN max(b.first_seq, :first) AND min(b.last_seq, :last)
"""

_IS_ALIVE = """EXISTS (
    SELECT 1 FROM mowers m CROSS JOIN mower_positions p
    WHERE p.mower_no = m.mower_no AND p.observed_us BETWEEN b.first_us AND b.last_us
      AND p.seq BETWEEN max(b.first_seq, :after + 1) AND b.last_seq
)"""
"""Whether a block still has a row of the track after a number."""


class JournalNumbers:
    """Gives numbers to rows, on the writer's thread. Without `is_enabled` (the relay) every number is None."""

    def __init__(self, *, is_enabled: bool) -> None:
        self._is_enabled = is_enabled
        self._is_loaded = False
        self._is_new = False
        self._first_seq = 1
        self._last_seq = 0
        self._first_us: int | None = None
        self._last_us: int | None = None

    def forget(self) -> None:
        """Drops what is remembered (after a rollback)."""
        self._is_loaded = False

    def peek(self, connection: sqlite3.Connection) -> int | None:
        """The number of the next row; `take` it once the row is in."""
        if not self._is_enabled:
            return None
        if not self._is_loaded:
            self._load(connection)
        return self._last_seq + 1

    def take(self, connection: sqlite3.Connection, observed_us: int | None) -> None:
        """The peeked number belongs to a row; `observed_us` is its time when it is a row of the track."""
        if not self._is_enabled:
            return
        if not self._fits(observed_us):
            self.save(connection)
            self._first_seq, self._first_us, self._last_us = self._last_seq + 1, None, None
        self._last_seq += 1
        if observed_us is not None:
            self._first_us = observed_us if self._first_us is None else min(self._first_us, observed_us)
            self._last_us = observed_us if self._last_us is None else max(self._last_us, observed_us)

    def save(self, connection: sqlite3.Connection) -> None:
        """Writes the open block; before the end of every transaction that took numbers."""
        if self._is_enabled and self._is_loaded and self._last_seq >= self._first_seq:
            connection.execute(
                "INSERT INTO journal_blocks (first_seq, last_seq, first_us, last_us) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (first_seq) DO UPDATE SET "
                "last_seq = excluded.last_seq, first_us = excluded.first_us, last_us = excluded.last_us",
                (self._first_seq, self._last_seq, self._first_us, self._last_us),
            )

    def last_seq(self, connection: sqlite3.Connection) -> int:
        """The last number given."""
        return (self.peek(connection) or 1) - 1

    def _fits(self, observed_us: int | None) -> bool:
        if self._last_seq - self._first_seq + 1 >= BLOCK_ROWS:
            return False
        if observed_us is None or self._first_us is None or self._last_us is None:
            return True
        return self._last_us - BLOCK_SPAN_US <= observed_us <= self._first_us + BLOCK_SPAN_US

    def _load(self, connection: sqlite3.Connection) -> None:
        row = connection.execute(
            "SELECT first_seq, last_seq, first_us, last_us FROM journal_blocks ORDER BY first_seq DESC LIMIT 1"
        ).fetchone()
        self._first_seq, self._last_seq, self._first_us, self._last_us = row or (1, 0, None, None)
        self._is_loaded = True


def begin_stream(connection: sqlite3.Connection, stream_id: StreamId) -> None:
    """Names the stream of a new database; an existing name stays."""
    connection.execute("INSERT OR IGNORE INTO journal_stream (id, stream_id, acked_seq) VALUES (1, ?, 0)", (stream_id,))


def restart_stream(connection: sqlite3.Connection, stream_id: StreamId) -> None:
    """A new life of this database (after a restore): all rows that it still has are to be sent again."""
    connection.execute("UPDATE journal_stream SET stream_id = ?, acked_seq = 0", (stream_id,))


def read_head(connection: sqlite3.Connection, last_seq: int) -> JournalHead:
    """The stream's name and range. `first_seq` is `last_seq + 1` when no row is left."""
    stream_id, acked_seq = connection.execute("SELECT stream_id, acked_seq FROM journal_stream").fetchone()
    first_seq = _next_seq(connection, 0, last_seq)
    return JournalHead(
        stream_id=StreamId(stream_id),
        first_seq=last_seq + 1 if first_seq is None else first_seq,
        last_seq=last_seq,
        acked_seq=acked_seq,
    )


def acknowledge(connection: sqlite3.Connection, acked_seq: int, last_seq: int) -> None:
    """Moves the acknowledged number forward, never back. ConflictError beyond the last number given: then this
    database is an older copy of the one that the relay knows, and needs `restart_stream`."""
    if acked_seq > last_seq:
        raise ConflictError(
            f"the relay has row {acked_seq} of this stream, but the last one here is {last_seq}",
            hint="The database was restored from a copy: its stream has to be started anew.",
        )
    connection.execute("UPDATE journal_stream SET acked_seq = ? WHERE acked_seq < ?", (acked_seq, acked_seq))


def read_slice(connection: sqlite3.Connection, after_seq: int, limit: int, last_seq: int) -> JournalSlice:
    """At most `limit` rows after `after_seq` in order, none beyond `last_seq`. Looks on over stretches whose rows are
    gone until at least half of `limit` is found or the end is reached."""
    rows: list[SequencedRow] = []
    reached = after_seq
    for _ in range(SLICE_WINDOWS):
        following = _next_seq(connection, reached, last_seq)
        if following is None:
            reached = max(reached, last_seq)
            break
        end = min(last_seq, following + limit - len(rows) - 1)
        rows += _read_window(connection, following, end)
        reached = end
        if 2 * len(rows) >= limit or reached == last_seq:
            break
    return JournalSlice(first_seq=after_seq + 1, last_seq=reached, rows=tuple(rows))


def delete_dead_blocks(connection: sqlite3.Connection, after_seq: int, most: int) -> int | None:
    """Deletes those of the next `most` blocks that have no row of the track left; where to go on, None at the end.
    The last block is the counter and stays."""
    ends = connection.execute(
        "SELECT first_seq FROM journal_blocks WHERE first_seq > ? AND first_seq < "
        "(SELECT max(first_seq) FROM journal_blocks) ORDER BY first_seq LIMIT ?",
        (after_seq, most),
    ).fetchall()
    if not ends:
        return None
    end = int(ends[-1][0])
    connection.execute(
        f"DELETE FROM journal_blocks AS b WHERE first_seq > :begin AND first_seq <= :end AND NOT {_IS_ALIVE}",
        {"begin": after_seq, "end": end, "after": 0},
    )
    return end


def _next_seq(connection: sqlite3.Connection, after_seq: int, last_seq: int) -> int | None:
    """A number after which the next living row is at the earliest; None when there is none up to `last_seq`."""
    found = connection.execute(
        f"""SELECT min(seq) FROM (
            SELECT min(seq) AS seq FROM mower_history WHERE seq > :after
            UNION ALL SELECT min(seq) FROM command_timeline WHERE seq > :after
            UNION ALL SELECT min(seq) FROM mower_records WHERE seq > :after
            UNION ALL SELECT * FROM (
                SELECT max(b.first_seq, :after + 1) FROM journal_blocks b
                WHERE b.first_seq > :after - :block AND b.last_seq > :after AND {_IS_ALIVE}
                ORDER BY b.first_seq LIMIT 1))""",
        {"after": after_seq, "block": BLOCK_ROWS},
    ).fetchone()[0]
    return None if found is None or found > last_seq else int(found)


def _read_window(connection: sqlite3.Connection, first: int, last: int) -> list[SequencedRow]:
    ids = {
        number: MowerId(mower_id) for number, mower_id in connection.execute("SELECT mower_no, mower_id FROM mowers")
    }
    bounds: dict[str, Any] = {"first": first, "last": last}
    rows = [
        SequencedRow(seq=columns[2], row=decode_history(columns, ids[columns[0]]))
        for columns in connection.execute(
            f"SELECT {HISTORY_COLUMNS} FROM mower_history WHERE seq BETWEEN :first AND :last", bounds
        )
    ]
    rows += [
        SequencedRow(seq=columns[2], row=decode_position(columns, ids[columns[0]]))
        for columns in connection.execute(_POSITIONS_BY_SEQ, bounds)
    ]
    rows += [
        SequencedRow(seq=columns[5], row=decode_timeline(columns, ids[columns[2]]))
        for columns in connection.execute(
            f"SELECT {TIMELINE_COLUMNS} FROM command_timeline WHERE seq BETWEEN :first AND :last", bounds
        )
    ]
    rows += [
        SequencedRow(seq=columns[5], row=decode_record(columns, ids[columns[0]]))
        for columns in connection.execute(
            f"SELECT {RECORD_COLUMNS} FROM mower_records WHERE seq BETWEEN :first AND :last", bounds
        )
    ]
    rows.sort(key=_seq_of)
    return rows


def _seq_of(row: SequencedRow) -> int:
    return row.seq
