"""Recording and ingest against the bare `sqlite3` module, and bytes per row of the track.

    python -m bench.recording [--json] [--rows N] [--pairs N]

The baseline inserts the very rows that the store made (latest, history, track, and the open block of the journal) with `executemany` into the same
schema with the same pragmas, one transaction per batch of the same size, in the main thread, everything prepared
before the clock starts. Days of health (a record per mower every five minutes) are the store's only. The ratio is the median over paired runs on fresh files.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from core.domain.clock import SystemClock, to_us
from core.domain.ids import AccountId, EdgeId, MowerId, StreamId
from core.domain.mower import Activity, Connectivity, MowerState, Position, RtkFix, RtkSource, Signals
from core.storage.migrations import migrate, read_migrations
from core.storage.sqlite_columns import HISTORY_COLUMNS, INSERT_HISTORY, INSERT_POSITION, POSITION_COLUMNS
from core.storage.sqlite_journal import BLOCK_ROWS
from core.storage.sqlite_store import SqliteTelemetryStore
from core.storage.telemetry_store import DirectoryEntry
from core.telemetry.rows import SequencedRow

START = datetime(2026, 6, 1, 8, 0, tzinfo=UTC)
ACCOUNT, EDGE, STREAM = AccountId("account"), EdgeId("edge"), StreamId("stream")
MOWERS = [MowerId(f"01kt134r001h4jwgawxty53z{number:02}") for number in range(5)]
RECORD_BATCHES = (5, 50, 500)
INGEST_BATCHES = (100, 1_000)
_LATEST = "INSERT OR REPLACE INTO mower_latest VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_BLOCK = "INSERT OR REPLACE INTO journal_blocks VALUES (?, ?, ?, ?)"
_WATERMARK = "INSERT OR REPLACE INTO edge_streams VALUES (?, ?, ?)"

Item = tuple[MowerId, AccountId, MowerState]


@dataclass(frozen=True, slots=True)
class Pair:
    """Seconds of the store and of the baseline for the same batches."""

    store_s: float
    bare_s: float


def make_states(count: int, seed: int = 1) -> list[Item]:
    """Five mowers at 1 Hz on lanes of 20 m with receiver noise; in the order of time."""
    rng = random.Random(seed)
    return [
        (mower_id, ACCOUNT, _state(rng, number, index // len(MOWERS)))
        for index in range(count)
        for number, mower_id in enumerate(MOWERS)
        if index % len(MOWERS) == number
    ]


def _state(rng: random.Random, number: int, second: int) -> MowerState:
    along, lane = (second * 0.35) % 40.0, int(second * 0.35 / 20.0)
    north_m = along if along < 20.0 else 40.0 - along
    return MowerState(
        observed_at=START + timedelta(seconds=second, microseconds=number * 31_337 + rng.randrange(30_000)),
        activity=Activity.MOWING,
        connectivity=Connectivity.ONLINE,
        battery_percent=max(20, 100 - second // 60),
        is_charging=False,
        position=Position(
            lat=48.1 + number * 1e-3 + (north_m + rng.gauss(0, 0.01)) / 111_200,
            lon=11.5 + (lane * 0.2 + rng.gauss(0, 0.01)) / (111_200 * math.cos(math.radians(48.1))),
            heading_deg=(0.0 if along < 20.0 else 180.0) + rng.random() * 3.0,
            accuracy_m=0.01 + rng.random() * 0.02,
        ),
        rtk_fix=RtkFix.FLOAT if rng.random() < 0.01 else RtkFix.FIXED,
        rtk_source=RtkSource.BASE,
        satellites=rng.randrange(22, 32),
        speed_mps=0.35 + rng.gauss(0, 0.01),
        blades_on=True,
        signals=Signals(wifi_dbm=-60 - rng.randrange(20), mobile_dbm=-95 - rng.randrange(10)),
    )


def in_batches(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [items[index : index + size] for index in range(0, len(items), size)]


async def open_store(path: Path, *, is_journal: bool) -> SqliteTelemetryStore:
    store = SqliteTelemetryStore(path, clock=SystemClock(), is_journal=is_journal)
    await store.open()
    await store.put_directory(
        [DirectoryEntry(mower_id=mower_id, account_id=ACCOUNT, edge_id=EDGE, name="bench") for mower_id in MOWERS]
    )
    return store


def open_bare(path: Path) -> sqlite3.Connection:
    """The same schema and pragmas without the store."""
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("auto_vacuum = INCREMENTAL", "journal_mode = WAL", "synchronous = NORMAL", "secure_delete = FAST"):
        connection.execute(f"PRAGMA {pragma}")
    migrate(connection, read_migrations())
    connection.executemany("INSERT INTO mowers VALUES (?, ?, ?)", [(n, m, ACCOUNT) for n, m in enumerate(MOWERS, 1)])
    return connection


async def record(path: Path, batches: Sequence[Sequence[Item]]) -> tuple[float, list[int]]:
    """Seconds to record, and the journal's number after each batch (from a second, unmeasured run's rows)."""
    store = await open_store(path, is_journal=True)
    days: list[int] = []
    store.records.subscribe(lambda _account, rows: days.append(len(rows)))
    begun = time.perf_counter()
    made = []
    for batch in batches:
        made.append((await store.record_states(batch, received_at=batch[-1][2].observed_at), len(days)))
    elapsed = time.perf_counter() - begun
    await store.close()
    ends, seq = [], 0
    for written, day_count in made:
        seq += sum(w.history + w.position for w in written)
        ends.append(seq + day_count)
    return elapsed, ends


def rows_of(path: Path, ends: Sequence[int], batches: Sequence[Sequence[Item]]) -> list[dict[str, list[Any]]]:
    """What each batch inserted, as prepared values; the latest rows with the bytes of the final ones."""
    connection = sqlite3.connect(path)
    latest = {row[0]: row for row in connection.execute("SELECT * FROM mower_latest")}
    numbers = dict(connection.execute("SELECT mower_id, mower_no FROM mowers"))
    tables = {
        INSERT_HISTORY: sorted(connection.execute(f"SELECT {HISTORY_COLUMNS} FROM mower_history"), key=_seq),
        INSERT_POSITION: sorted(connection.execute(f"SELECT {POSITION_COLUMNS} FROM mower_positions"), key=_seq),
    }
    connection.close()
    prepared = []
    taken = dict.fromkeys(tables, 0)
    for end, batch in zip(ends, batches, strict=True):
        chosen: dict[str, list[Any]] = {}
        for sql, rows in tables.items():
            begin = taken[sql]
            while taken[sql] < len(rows) and rows[taken[sql]][2] <= end:
                taken[sql] += 1
            chosen[sql] = rows[begin : taken[sql]]
        chosen[_LATEST] = [latest[number] for number in sorted({numbers[item[0]] for item in batch})]
        first = (end - 1) // BLOCK_ROWS * BLOCK_ROWS + 1
        chosen[_BLOCK] = [(first, end, to_us(START), to_us(START) + end)] if end else []
        prepared.append(chosen)
    return prepared


def _seq(row: Sequence[Any]) -> int:
    return int(row[2])


def insert(path: Path, batches: Sequence[dict[str, list[Any]]]) -> float:
    """Seconds of the bare module for prepared batches."""
    connection = open_bare(path)
    begun = time.perf_counter()
    for batch in batches:
        connection.execute("BEGIN")
        for sql, rows in batch.items():
            connection.executemany(sql, rows)
        connection.execute("COMMIT")
    elapsed = time.perf_counter() - begun
    connection.close()
    return elapsed


def measure_record(folder: Path, count: int, size: int, pairs: int) -> list[Pair]:
    batches = in_batches(make_states(count), size)
    found = []
    for index in range(pairs):
        path = folder / f"record-{size}-{index}.db"
        store_s, ends = asyncio.run(record(path, batches))
        bare_s = insert(folder / f"bare-{size}-{index}.db", rows_of(path, ends, batches))
        found.append(Pair(store_s, bare_s))
    return found


async def read_rows(path: Path, count: int) -> list[SequencedRow]:
    store = await open_store(path, is_journal=True)
    for batch in in_batches(make_states(count), 500):
        await store.record_states(batch, received_at=batch[-1][2].observed_at)
    rows: list[SequencedRow] = []
    head = await store.journal_head()
    reached = 0
    while reached < head.last_seq:
        part = await store.read_journal(reached, 1_000)
        rows += part.rows
        reached = part.last_seq
    await store.close()
    return rows


async def ingest(path: Path, batches: Sequence[Sequence[SequencedRow]]) -> float:
    store = await open_store(path, is_journal=False)
    received_at = START + timedelta(days=30)
    begun = time.perf_counter()
    for batch in batches:
        await store.ingest(EDGE, ACCOUNT, STREAM, batch, last_seq=batch[-1].seq, received_at=received_at)
    elapsed = time.perf_counter() - begun
    await store.close()
    return elapsed


def measure_ingest(folder: Path, rows: Sequence[SequencedRow], source: Path, size: int, pairs: int) -> list[Pair]:
    batches = in_batches(rows, size)
    ends = [batch[-1].seq for batch in batches]
    prepared = rows_of(source, ends, [[] for _ in batches])
    for end, batch in zip(ends, prepared, strict=True):
        del batch[_LATEST], batch[_BLOCK]
        for sql in (INSERT_HISTORY, INSERT_POSITION):
            batch[sql] = [(*row[:2], None, *row[3:]) for row in batch[sql]]
        batch[_WATERMARK] = [(EDGE, STREAM, end)]
    found = []
    for index in range(pairs):
        store_s = asyncio.run(ingest(folder / f"ingest-{size}-{index}.db", batches))
        found.append(Pair(store_s, insert(folder / f"bare-ingest-{size}-{index}.db", prepared)))
    return found


def measure_bytes(path: Path) -> dict[str, float]:
    """Bytes per row of the track with all that finds it: its key, and the blocks of the journal."""
    connection = sqlite3.connect(path)
    pages = dict(connection.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name"))
    tracks = connection.execute("SELECT count(*) FROM mower_positions").fetchone()[0]
    histories = connection.execute("SELECT count(*) FROM mower_history").fetchone()[0]
    connection.close()
    return {
        "track_rows": tracks,
        "bytes_per_track_row": round((pages["mower_positions"] + pages["journal_blocks"]) / tracks, 1),
        "history_rows": histories,
        "bytes_per_history_row": round((pages["mower_history"] + pages["mower_history_seq"]) / histories, 1),
    }


def figures_of(pairs: Sequence[Pair], count: int) -> dict[str, float]:
    return {
        "store_rows_per_s": round(statistics.median(count / pair.store_s for pair in pairs)),
        "bare_rows_per_s": round(statistics.median(count / pair.bare_s for pair in pairs)),
        "ratio": round(statistics.median(pair.bare_s / pair.store_s for pair in pairs), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    parser.add_argument("--rows", type=int, default=50_000, help="states per run")
    parser.add_argument("--pairs", type=int, default=5)
    options = parser.parse_args()
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for size in RECORD_BATCHES:
            count = min(options.rows, size * 2_000)
            figures[f"record_states_{size}"] = figures_of(measure_record(folder, count, size, options.pairs), count)
        source = folder / "source.db"
        rows = asyncio.run(read_rows(source, options.rows))
        for size in INGEST_BATCHES:
            figures[f"ingest_{size}"] = figures_of(measure_ingest(folder, rows, source, size, options.pairs), len(rows))
        figures["size"] = measure_bytes(source)
    if options.json:
        print(json.dumps(figures))
        return
    for label, values in figures.items():
        print(f"{label:20}", "  ".join(f"{key} {value:g}" for key, value in values.items()))


if __name__ == "__main__":
    main()
