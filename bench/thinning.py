"""Thinning of the track against bare SQL window-function scans of the same rows, its growth, memory and bytes.

    python -m bench.thinning [--json] [--rows N ...] [--pairs N]

The track is a mower at 1 Hz on lanes of 20 m with a receiver's noise, 8 hours a day. Baselines, over the same file in the
same run, before it is thinned: `both` is one statement with `lag` and `lead` of the five columns that the rules look at
(what finding gaps, changes, bins and bends takes at least), `one` is one with a single `lag`. Seconds are CPU seconds, so
that others on the machine count less; each pair has a fresh file, each step a process of its own. `ratio` is rows/s of thinning,
deletes and commits included, over rows/s of the scan. Memory is the peak of
the process that thins, imports included.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import random
import resource
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from bench.recording import open_bare
from core.storage.sqlite_columns import INSERT_POSITION
from core.storage.sqlite_thinning import thin_next

FIRST_US = 1_700_000_100_000_000
MOWER_NO = 1
_COLUMNS = ("observed_us", "lat_e7", "lon_e7", "rtk_fix", "blades_on")


def make_rows(count: int, seed: int = 1) -> Iterator[tuple[int | None, ...]]:
    """Rows of one mower: eight hours of mowing a day."""
    rng = random.Random(seed)
    for index in range(count):
        day, second = divmod(index, 8 * 3600)
        along, lane = (second * 0.35) % 40.0, int(second * 0.35 / 20.0) % 200
        north_m = along if along < 20.0 else 40.0 - along
        lat = 48.1 + (north_m + rng.gauss(0, 0.01)) / 111_200
        lon = 11.5 + (lane * 0.2 + rng.gauss(0, 0.01)) / (111_200 * math.cos(math.radians(48.1)))
        at_us = FIRST_US + (day * 86_400 + second) * 1_000_000 + rng.randrange(30_000)
        heading = (0 if along < 20.0 else 1_800) + rng.randrange(30)
        yield (
            *(MOWER_NO, at_us, index + 1, round(lat * 1e7), round(lon * 1e7), heading, 10 + rng.randrange(20)),
            *(0 if rng.random() < 0.001 else 1, 0, 1, -60 - rng.randrange(20), -95, rng.randrange(22, 32)),
        )


def scan(connection: sqlite3.Connection, functions: Sequence[str]) -> float:
    """CPU seconds of one statement with these window functions over the whole track."""
    columns = ", ".join(f"{function} OVER w AS c{n}" for n, function in enumerate(functions))
    totals = ", ".join(f"total(c{n})" for n in range(len(functions)))
    begun = time.process_time()
    connection.execute(
        f"SELECT {totals} FROM (SELECT {columns} FROM mower_positions "
        "WINDOW w AS (PARTITION BY mower_no ORDER BY observed_us))"
    ).fetchall()
    return time.process_time() - begun


def size(connection: sqlite3.Connection) -> int:
    """Bytes of the track and of all that thinning keeps."""
    names = ("mower_positions", "mower_positions_thinning", "thinned_stretches", "thinning_tails")
    marks = ", ".join("?" * len(names))
    return int(connection.execute(f"SELECT sum(pgsize) FROM dbstat WHERE name IN ({marks})", names).fetchone()[0])


def open_track(path: Path) -> sqlite3.Connection:
    """As the store's writer opens its file."""
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("synchronous = NORMAL", "secure_delete = FAST", "temp_store = MEMORY"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def make_track(path: Path, count: int) -> None:
    connection = open_bare(path)
    connection.execute("BEGIN")
    connection.executemany(INSERT_POSITION, make_rows(count))
    connection.execute("COMMIT")
    connection.close()


def scan_track(path: Path) -> tuple[float, float]:
    """CPU seconds of both baselines."""
    connection = open_track(path)
    one_s = scan(connection, ["lag(lat_e7)"])
    both_s = scan(connection, [f"{function}({column})" for function in ("lag", "lead") for column in _COLUMNS])
    connection.close()
    return one_s, both_s


def thin_track(path: Path, count: int) -> dict[str, float]:
    """Thins all of it."""
    connection = open_track(path)
    before = size(connection)
    longest_s = error_m = 0.0
    slices = deleted = 0
    begun = time.process_time()
    while True:
        slice_begun = time.process_time()
        connection.execute("BEGIN IMMEDIATE")
        thinned = thin_next(connection, MOWER_NO, 2**62)
        connection.execute("COMMIT")
        if thinned is None:
            break
        longest_s = max(longest_s, time.process_time() - slice_begun)
        error_m, slices, deleted = max(error_m, thinned.error_m), slices + 1, deleted + thinned.deleted
    thin_s = time.process_time() - begun
    after = size(connection)
    connection.close()
    return {
        "seconds": thin_s,
        "rows_per_s": count / thin_s,
        "longest_slice_ms": longest_s * 1_000,
        "slices": slices,
        "left_percent": 100 * (count - deleted) / count,
        "error_m": error_m,
        "bytes_per_row_before": before / count,
        "bytes_per_row_seen": after / count,
        "bytes_per_row_left": after / (count - deleted),
        "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def measure(path: Path, count: int) -> dict[str, float]:
    """One pair: both scans, then thinning; each step in a process of its own, so that each has its own peak."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context, max_tasks_per_child=1) as steps:
        steps.submit(make_track, path, count).result()
        one_s, both_s = steps.submit(scan_track, path).result()
        found = steps.submit(thin_track, path, count).result()
    return found | {"ratio_both": both_s / found["seconds"], "ratio_one": one_s / found["seconds"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000], help="sizes, smallest first")
    parser.add_argument("--pairs", type=int, default=3)
    options = parser.parse_args()
    figures = {}
    for count in options.rows:
        found = []
        for _ in range(options.pairs):
            with tempfile.TemporaryDirectory() as folder:
                found.append(measure(Path(folder) / "track.db", count))
        figures[count] = {name: round(statistics.median(pair[name] for pair in found), 3) for name in found[0]}
    if options.json:
        print(json.dumps(figures))
        return
    for count, values in figures.items():
        print(f"{count:>9} rows ", "  ".join(f"{key} {value:g}" for key, value in values.items()))


if __name__ == "__main__":
    main()
