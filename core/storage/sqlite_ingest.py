"""The relay's side of the journal: rows of boxes with natural keys, watermarks, and a quarantine.

Runs on the writer's thread, inside its transaction: rows and watermark together or not at all.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from core.domain import limits
from core.domain.clock import to_us
from core.domain.ids import AccountId, EdgeId, MowerId, StreamId
from core.storage.sqlite_columns import (
    INSERT_HISTORY,
    INSERT_POSITION,
    INSERT_TIMELINE,
    UPSERT_RECORD,
    Columns,
    encode_history,
    encode_position,
    encode_record,
    encode_timeline,
)
from core.storage.sqlite_directory import SqliteDirectory
from core.storage.telemetry_store import Ingested
from core.sync.messages import RejectedRow
from core.telemetry.admission import find_row_fault
from core.telemetry.rows import HistoryRow, PositionRow, RecordRow, Row, SequencedRow

QUARANTINE_ROWS = 2_000
"""Kept per box; the oldest go first, so that a broken box cannot fill the relay's disk."""
STREAMS = 32
"""Watermarks kept per box. A database's life begins rarely; a box that says otherwise must not fill the disk."""
QUARANTINE_BYTES = limits.BATCH_BYTES
"""Kept of each entry (one may stand for a whole batch that cannot be read)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One batch of a box's stream, as the port's `ingest` takes it."""

    edge_id: EdgeId
    account_id: AccountId
    stream_id: StreamId
    rows: Sequence[SequencedRow]
    last_seq: int
    received_at: datetime
    rejected: Sequence[tuple[RejectedRow, bytes]]


class Ingest:
    """Stores batches."""

    def __init__(self, directory: SqliteDirectory) -> None:
        self._directory = directory

    def ingest(self, connection: sqlite3.Connection, batch: Batch) -> Ingested:
        """Stores what is new in the batch; see the port. Never moves a watermark back.

        New is what has a new key, not what has a new number: a box that lost its last commits in a power cut gives
        their numbers to other rows.
        """
        watermark = read_watermark(connection, batch.edge_id, batch.stream_id) or 0
        faults = list(batch.rejected)
        positions: list[Columns] = []
        histories: list[Columns] = []
        timelines: list[Columns] = []
        records: list[tuple[RecordRow, Columns]] = []
        numbers = self._numbers(connection, batch, batch.rows)
        for item in batch.rows:
            row = item.row
            number = numbers[row.mower_id]
            fault = find_row_fault(row, batch.received_at) if isinstance(number, int) else number
            if fault is not None or not isinstance(number, int):
                faults.append((RejectedRow(seq=item.seq, reason=fault or "unknown-mower"), _payload(row)))
            elif isinstance(row, PositionRow):
                positions.append(encode_position(row, number, None))
            elif isinstance(row, HistoryRow):
                histories.append(encode_history(row, number, None))
            elif isinstance(row, RecordRow):
                records.append((row, encode_record(row, number, None)))
            else:
                timelines.append(encode_timeline(row, number, None))
        written = {
            "mower_positions": _insert(connection, INSERT_POSITION, positions),
            "mower_history": _insert(connection, INSERT_HISTORY, histories),
            "command_timeline": _insert(connection, INSERT_TIMELINE, timelines),
        }
        newer = [row for row, columns in records if connection.execute(UPSERT_RECORD, columns).rowcount == 1]
        written["mower_records"] = len(newer)
        stored = sum(written.values())
        if faults:
            _quarantine(connection, batch, faults)
        if batch.last_seq > watermark:
            write_watermark(connection, batch.edge_id, batch.stream_id, batch.last_seq)
        accepted = len(positions) + len(histories) + len(timelines) + len(records)
        return Ingested(
            acked_seq=max(watermark, batch.last_seq),
            stored=stored,
            duplicates=accepted - stored,
            rejected=tuple(fault for fault, _ in faults),
            records=tuple(newer),
            stored_by_table={table: count for table, count in written.items() if count},
        )

    def _numbers(
        self, connection: sqlite3.Connection, batch: Batch, rows: Sequence[SequencedRow]
    ) -> dict[MowerId, int | str]:
        """The number of each mower in the batch, or why its rows are refused."""
        entries = self._directory.entries(connection)
        numbers: dict[MowerId, int | str] = {}
        for mower_id in {item.row.mower_id for item in rows}:
            entry = entries.get(mower_id)
            if entry is None:
                numbers[mower_id] = "unknown-mower"
            elif entry.edge_id != batch.edge_id or entry.account_id != batch.account_id:
                numbers[mower_id] = "foreign-mower"
            else:
                numbers[mower_id] = self._directory.number(connection, mower_id, entry.account_id)
        return numbers


def _insert(connection: sqlite3.Connection, statement: str, rows: Sequence[Columns]) -> int:
    """Returns how many were new."""
    before = connection.total_changes
    connection.executemany(statement, rows)
    return connection.total_changes - before


def read_watermark(connection: sqlite3.Connection, edge_id: EdgeId, stream_id: StreamId) -> int | None:
    """How far the stream is stored; None for one never seen."""
    row = connection.execute(
        "SELECT acked_seq FROM edge_streams WHERE edge_id = ? AND stream_id = ?", (edge_id, stream_id)
    ).fetchone()
    return None if row is None else int(row[0])


def write_watermark(connection: sqlite3.Connection, edge_id: EdgeId, stream_id: StreamId, acked_seq: int) -> None:
    """Sets the watermark."""
    connection.execute(
        "INSERT OR REPLACE INTO edge_streams (edge_id, stream_id, acked_seq) VALUES (?, ?, ?)",
        (edge_id, stream_id, acked_seq),
    )


def start_stream(connection: sqlite3.Connection, edge_id: EdgeId, stream_id: StreamId, acked_seq: int) -> int:
    """Begins the stream at `acked_seq` unless it is known; returns the watermark. Of more than STREAMS the oldest
    others (ids sort by age) are forgotten: rows that come again are known by their keys."""
    connection.execute(
        "INSERT OR IGNORE INTO edge_streams (edge_id, stream_id, acked_seq) VALUES (?, ?, ?)",
        (edge_id, stream_id, acked_seq),
    )
    connection.execute(
        "DELETE FROM edge_streams WHERE edge_id = :edge AND stream_id IN (SELECT stream_id FROM edge_streams "
        "WHERE edge_id = :edge AND stream_id != :stream ORDER BY stream_id DESC LIMIT -1 OFFSET :keep)",
        {"edge": edge_id, "stream": stream_id, "keep": STREAMS - 1},
    )
    return read_watermark(connection, edge_id, stream_id) or 0


def _quarantine(connection: sqlite3.Connection, batch: Batch, faults: Sequence[tuple[RejectedRow, bytes]]) -> None:
    received_us = to_us(batch.received_at)
    connection.executemany(
        "INSERT OR IGNORE INTO quarantine (edge_id, stream_id, seq, reason, payload, received_us) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        [
            (batch.edge_id, batch.stream_id, fault.seq, fault.reason, payload[:QUARANTINE_BYTES], received_us)
            for fault, payload in faults
        ],
    )
    connection.execute(
        "DELETE FROM quarantine WHERE edge_id = :edge AND id <= "
        "(SELECT id FROM quarantine WHERE edge_id = :edge ORDER BY id DESC LIMIT 1 OFFSET :keep)",
        {"edge": batch.edge_id, "keep": QUARANTINE_ROWS},
    )


def _payload(row: Row) -> bytes:
    return msgspec.json.encode(row)
