"""How the box's file, its reads and its thinning grow with the season, each against a bare baseline in the same run.

    python -m bench.growth [--json] [--rows N ...] [--pairs N] [--folder DIR]

A file of `bench.season` per size: five mowers, a row every 5 s, days as the size asks (beyond two years more mowers).
Reads: our function and a bare statement with as many rows of the same file take turns, mower by mower; `ratio` is the
bare one's seconds over ours, both CPU seconds, so that others on the machine count less. Thinning: everything older than
14 days, as a box does, each mower a pair with two scans of the same rows: `both` with `lag` and `lead` of the five columns
that the rules look at, `one` with a single `lag`. Every step is a process of its own, so that each has its own peak
of memory (imports included). A mower-year is 365 days of one mower. 10 million rows take 0.5 GB, 100 million 5 GB.

Another read is one more `Read` in READS.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from bench.season import ACCOUNT, Season, write_season
from bench.thinning import open_track
from core.domain import limits
from core.domain.clock import to_us
from core.storage.sqlite_bins import read_bins
from core.storage.sqlite_columns import HISTORY_COLUMNS, POSITION_COLUMNS
from core.storage.sqlite_journal import read_slice
from core.storage.sqlite_reads import read_history, read_positions
from core.storage.sqlite_thinning import thin_next
from core.storage.sqlite_track import read_track
from core.telemetry.binning import bin_start_us

DETAIL = timedelta(days=14)
MAP_POINTS = 5_000
_DAY, _MONTH, _YEAR = timedelta(days=1), timedelta(days=31), timedelta(days=365)
_TRACK = ("mower_positions", "mower_positions_thinning", "thinned_stretches", "thinning_tails", "journal_blocks")
_WITHIN = "WHERE mower_no = ? AND observed_us >= ? AND observed_us < ?"
_SCANNED = ("observed_us", "lat_e7", "lon_e7", "rtk_fix", "blades_on")

Work = Callable[[sqlite3.Connection, Season, int], object]
"""One read of the mower with this number."""
Figures = dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Ours, and the bare statement that gets at the same rows."""

    ours: Work
    bare: Work


def _range(season: Season, length: timedelta) -> tuple[int, int]:
    return to_us(season.end - length), to_us(season.end)


def _bare(columns: str, table: str, length: timedelta, most: int = -1) -> Work:
    sql = f"SELECT {columns} FROM {table} {_WITHIN} ORDER BY observed_us LIMIT {most}"
    return lambda connection, season, number: connection.execute(sql, (number, *_range(season, length))).fetchall()


def _bare_bins(connection: sqlite3.Connection, season: Season, number: int) -> object:
    """Groups and counts, adds and bounds the batteries: no last words, no places."""
    sql = (
        "SELECT observed_us / 3600000000, count(*), avg(battery), min(battery), max(battery), max(is_charging) "
        f"FROM mower_history {_WITHIN} GROUP BY 1"
    )
    return connection.execute(sql, (number, *_range(season, _MONTH))).fetchall()


def _journal(connection: sqlite3.Connection, _season: Season, number: int) -> object:
    last_seq = connection.execute("SELECT max(last_seq) FROM journal_blocks").fetchone()[0]
    return read_slice(connection, max(0, last_seq - 1_000 * (number + 1)), 1_000, last_seq)


READS = {
    "history_31d_1h": Read(
        ours=lambda c, s, n: read_bins(c, ACCOUNT, s.mower_ids[n - 1], s.end - _MONTH, s.end, 3_600),
        bare=_bare_bins,
    ),
    "history_7d_raw": Read(
        ours=lambda c, s, n: read_history(c, ACCOUNT, s.mower_ids[n - 1], s.end - 7 * _DAY, s.end, limits.MAX_RAW_ROWS),
        bare=_bare(HISTORY_COLUMNS, "mower_history", 7 * _DAY, limits.MAX_RAW_ROWS),
    ),
    "track_1d": Read(
        ours=lambda c, s, n: read_positions(
            c, ACCOUNT, s.mower_ids[n - 1], s.end - _DAY, s.end, limits.MAX_TRACK_POINTS
        ),
        bare=_bare(POSITION_COLUMNS, "mower_positions", _DAY),
    ),
    "map_31d": Read(
        ours=lambda c, s, n: read_track(c, ACCOUNT, s.mower_ids[n - 1], s.end - _MONTH, s.end, MAP_POINTS),
        bare=_bare(POSITION_COLUMNS, "mower_positions", _MONTH, limits.SIMPLIFIED_ROWS),
    ),
    "map_365d": Read(
        ours=lambda c, s, n: read_track(c, ACCOUNT, s.mower_ids[n - 1], s.end - _YEAR, s.end, MAP_POINTS),
        bare=_bare(POSITION_COLUMNS, "mower_positions", _YEAR, limits.SIMPLIFIED_ROWS),
    ),
    "journal_1000": Read(
        ours=_journal,
        bare=lambda c, _s, n: c.execute(
            f"SELECT {POSITION_COLUMNS} FROM mower_positions WHERE mower_no = ? ORDER BY observed_us DESC LIMIT 1000",
            (n,),
        ).fetchall(),
    ),
}


def make(path: Path, season: Season) -> Figures:
    made = write_season(path, season)
    return {"rows": made.positions, "rows_per_s": made.positions / made.seconds}


def measure_size(path: Path, season: Season) -> Figures:
    """Bytes in use: of the track with all that finds it, and of the whole file."""
    connection = open_track(path)
    pages = dict(connection.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name"))
    left = connection.execute("SELECT count(*) FROM mower_positions").fetchone()[0]
    connection.close()
    mower_years = season.mowers * season.days / 365
    return {
        "track_mib": sum(pages[name] for name in _TRACK) / 2**20,
        "file_mib": sum(pages.values()) / 2**20,
        "rows_left": left,
        "bytes_per_row_left": sum(pages[name] for name in _TRACK) / left,
        "mib_per_mower_year": sum(pages.values()) / 2**20 / mower_years,
    }


def measure_read(path: Path, season: Season, name: str, pairs: int) -> Figures:
    """Both in turns on one connection; the first pair only warms."""
    connection = open_track(path)
    read = READS[name]
    taken: list[tuple[float, float]] = []
    for index in range(pairs + 1):
        number = 1 + index % season.mowers
        marks = [time.process_time()]
        for work in (read.ours, read.bare):
            work(connection, season, number)
            marks.append(time.process_time())
        taken.append((marks[1] - marks[0], marks[2] - marks[1]))
    connection.close()
    ours_s, bare_s = zip(*taken[1:], strict=True)
    return {
        "ms": statistics.median(ours_s) * 1_000,
        "max_ms": max(ours_s) * 1_000,
        "bare_ms": statistics.median(bare_s) * 1_000,
        "ratio": statistics.median(bare / ours for ours, bare in taken[1:]),
        "peak_rss_mib": _peak_mib(),
    }


def thin(path: Path, season: Season, number: int) -> Figures:
    """One mower: both scans of what is to be thinned, then thinning it."""
    connection = open_track(path)
    before_us = bin_start_us(to_us(season.end - DETAIL), 300)
    one_s = _scan(connection, ["lag(lat_e7)"], number, before_us)
    both_s = _scan(
        connection, [f"{name}({column})" for name in ("lag", "lead") for column in _SCANNED], number, before_us
    )
    scanned = deleted = 0
    error_m = longest_s = 0.0
    begun = time.process_time()
    while True:
        slice_begun = time.process_time()
        connection.execute("BEGIN IMMEDIATE")
        thinned = thin_next(connection, number, before_us)
        connection.execute("COMMIT")
        if thinned is None:
            break
        longest_s = max(longest_s, time.process_time() - slice_begun)
        scanned, deleted, error_m = scanned + thinned.scanned, deleted + thinned.deleted, max(error_m, thinned.error_m)
    thin_s = time.process_time() - begun
    connection.close()
    if not scanned:
        raise SystemExit("nothing is older than what stays as it is: ask for more rows")
    return {
        "scanned": scanned,
        "left_percent": 100 * (scanned - deleted) / scanned,
        "seconds": thin_s,
        "us_per_row": 1e6 * thin_s / scanned,
        "longest_slice_ms": longest_s * 1_000,
        "error_m": error_m,
        "ratio_both": both_s / thin_s,
        "ratio_one": one_s / thin_s,
        "peak_rss_mib": _peak_mib(),
    }


def _scan(connection: sqlite3.Connection, functions: list[str], number: int, before_us: int) -> float:
    columns = ", ".join(f"{function} OVER w AS c{n}" for n, function in enumerate(functions))
    totals = ", ".join(f"total(c{n})" for n in range(len(functions)))
    begun = time.process_time()
    connection.execute(
        f"SELECT {totals} FROM (SELECT {columns} FROM mower_positions WHERE mower_no = ? AND observed_us < ? "
        "WINDOW w AS (ORDER BY observed_us))",
        (number, before_us),
    ).fetchall()
    return time.process_time() - begun


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(path: Path, rows: int, pairs: int) -> dict[str, Figures]:
    """All steps for one size."""
    season = Season.of_rows(rows)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context, max_tasks_per_child=1) as steps:
        found = {"made": steps.submit(make, path, season).result()}
        found["made"] |= {"mowers": season.mowers, "days": season.days}
        found["size"] = steps.submit(measure_size, path, season).result()
        for name in READS:
            found[name] = steps.submit(measure_read, path, season, name, pairs).result()
        # each mower is a pair
        thinned = [steps.submit(thin, path, season, number).result() for number in range(1, season.mowers + 1)]
        found["thinning"] = {name: statistics.median(one[name] for one in thinned) for name in thinned[0]}
        found["thinning"]["total_s"] = sum(one["seconds"] for one in thinned)
        found["thinned size"] = steps.submit(measure_size, path, season).result()
        seen = found["made"]["rows"]
        found["thinned size"]["bytes_per_row_seen"] = found["thinned size"]["track_mib"] * 2**20 / seen
        for name in ("map_31d", "map_365d"):
            found[f"thinned {name}"] = steps.submit(measure_read, path, season, name, pairs).result()
    return {step: {name: round(value, 3) for name, value in values.items()} for step, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000], help="sizes, smallest first")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where the files go meanwhile; the system's scratch folder")
    given = parser.parse_args()
    figures = {}
    for rows in given.rows:
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            figures[rows] = measure(Path(folder) / "box.db", rows, given.pairs)
        if not given.json:
            for step, values in figures[rows].items():
                line = "  ".join(f"{key} {value:g}" for key, value in values.items())
                print(f"{rows:>9}  {step:18} {line}", flush=True)
    if given.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
