"""Reads of a box's file against bare SQL on the same file in the same run.

    python -m bench.reads [--json] [--rows N ...] [--pairs N]

The history has `N` rows in 31 days, as dense as that all month; the track as many. `history` is the store's bins of 1 h, its
baseline one statement that groups the same rows by hour and counts, adds and bounds their batteries (no last words, no
position). `track` is one day's track as rows, its baseline the bare `SELECT` of the same columns. Seconds are CPU seconds, so
that others on the machine count less.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from bench.recording import ACCOUNT, MOWERS, open_bare
from core.domain.clock import from_us
from core.storage.sqlite_bins import read_bins
from core.storage.sqlite_columns import INSERT_HISTORY, INSERT_POSITION, POSITION_COLUMNS
from core.storage.sqlite_reads import read_positions

FIRST_US = 1_748_736_000_000_000
MONTH_US = 31 * 86_400 * 1_000_000
HOUR_US = 3_600 * 1_000_000
_BARE_BINS = f"""
SELECT observed_us / {HOUR_US}, count(*), avg(battery), min(battery), max(battery), max(is_charging)
FROM mower_history WHERE mower_no = 1 AND observed_us >= ? AND observed_us < ? GROUP BY 1
"""
_BARE_TRACK = (
    f"SELECT {POSITION_COLUMNS} FROM mower_positions WHERE mower_no = 1 AND observed_us >= ? AND observed_us < ?"
)


def make_histories(count: int) -> Iterator[tuple[Any, ...]]:
    """Changes all month: battery, speed and charging wander, one row in a hundred has an error."""
    rng = random.Random(1)
    for index in range(count):
        at_us = FIRST_US + index * MONTH_US // count + rng.randrange(1_000)
        error = "E1" if rng.random() < 0.01 else None
        battery = round(60 + 39 * math.sin(index / 500))
        yield (1, at_us, index + 1, rng.randrange(6), 1, battery, index % 2, 1, 1, 400, 1, rng.randrange(500), error)


def make_positions(count: int) -> Iterator[tuple[Any, ...]]:
    """Steps all month."""
    for index in range(count):
        at_us = FIRST_US + index * MONTH_US // count
        lat_e7, lon_e7 = 480_000_000 + index % 400, 110_000_000 + index % 300
        yield (1, at_us, index + 1, lat_e7, lon_e7, 100, 10, 1, 0, 1, -60, -95, 24)


def percentile_ms(seconds: list[float], share: float) -> float:
    """The value that `share` of the runs stay below."""
    return sorted(seconds)[min(len(seconds) - 1, math.ceil(share * len(seconds)) - 1)] * 1_000


def measure(connection: sqlite3.Connection, count: int, pairs: int) -> dict[str, float]:
    """Both reads and both baselines, in turns."""
    month = (FIRST_US, FIRST_US + MONTH_US)
    day = (FIRST_US, FIRST_US + 86_400_000_000)
    begin = from_us(FIRST_US)
    works: dict[str, Callable[[], object]] = {
        "history": lambda: read_bins(connection, ACCOUNT, MOWERS[0], begin, from_us(month[1]), 3_600),
        "bare_history": lambda: connection.execute(_BARE_BINS, month).fetchall(),
        "track": lambda: read_positions(connection, ACCOUNT, MOWERS[0], begin, begin + timedelta(days=1), count),
        "bare_track": lambda: connection.execute(_BARE_TRACK, day).fetchall(),
    }
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(pairs):
        for name, work in works.items():
            begun = time.process_time()
            work()
            taken[name].append(time.process_time() - begun)
    found = {
        f"{name}_p{round(share * 100)}_ms": percentile_ms(taken[name], share) for name in works for share in (0.5, 0.95)
    }
    for name in ("history", "track"):
        found[f"{name}_ratio"] = found[f"bare_{name}_p50_ms"] / found[f"{name}_p50_ms"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    parser.add_argument("--rows", type=int, nargs="+", default=[9_000, 50_000, 100_000, 250_000])
    parser.add_argument("--pairs", type=int, default=20)
    options = parser.parse_args()
    figures = {}
    for count in options.rows:
        with tempfile.TemporaryDirectory() as folder:
            connection = open_bare(Path(folder) / "reads.db")
            connection.execute("BEGIN")
            connection.executemany(INSERT_HISTORY, make_histories(count))
            connection.executemany(INSERT_POSITION, make_positions(count))
            connection.execute("COMMIT")
            figures[count] = {
                name: round(value, 2) for name, value in measure(connection, count, options.pairs).items()
            }
            connection.close()
    if options.json:
        print(json.dumps(figures))
        return
    for count, values in figures.items():
        print(f"{count:>9} rows ", "  ".join(f"{key} {value:g}" for key, value in values.items()))


if __name__ == "__main__":
    main()
