"""Seasons of mowing as a box's store has them after months: for benches and, small, for tests.

    python -m bench.season FILE [--mowers N] [--days N] [--row-s S] [--seed N]

A day of a mower: at most four jobs (lanes, edge, spiral, random ways in turn), each a way out of the dock, mowing and a
way back; charging in between; rain that keeps it at home, errors in which it stands, nights in the dock. RTK is bad
under two trees, Wi-Fi fades with the distance from the house. Rows are those that the write rules would make of it:
steps of the track, a row per 300 s while it stands, history at each change and every 300 s.

Rows go into the file in the order of time over all mowers, with the journal's numbers and blocks, as recording
would have them; history and timeline only as far back as they are kept. The newest state of each mower is recorded by the
store itself. Equal seasons make equal rows. Days of health are not made (but for the last state's).
"""

from __future__ import annotations

import argparse
import asyncio
import math
import random
import sqlite3
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

from bench.garden import BASE, FIXED, JOB_S, NOISE, PATTERNS, SECOND_US, SPEED_MPS, Garden, Noise, Route, Row
from core.domain import limits
from core.domain.clock import SystemClock, from_us, to_us
from core.domain.commands import CommandStatus
from core.domain.ids import AccountId, EdgeId, MowerId
from core.domain.mower import Activity, Connectivity, MowerState, Position, RtkFix, RtkSource, Signals
from core.storage.sqlite_columns import (
    ACTIVITY_CODES,
    CONNECTIVITY_CODES,
    INSERT_HISTORY,
    INSERT_TIMELINE,
    POSITION_COLUMNS,
    STATUS_CODES,
)
from core.storage.sqlite_directory import SqliteDirectory
from core.storage.sqlite_journal import BLOCK_ROWS, BLOCK_SPAN_US
from core.storage.sqlite_store import SqliteTelemetryStore
from core.storage.telemetry_store import DirectoryEntry

ACCOUNT, EDGE = AccountId("account"), EdgeId("edge")
CHARGE_S = 60 * 60
JOBS_A_DAY = 4
_DAY_US = 86_400_000_000
_STANDING_US = round(limits.STANDING_POSITION_S * SECOND_US)
_ONLINE = CONNECTIVITY_CODES[Connectivity.ONLINE]
_COLUMNS = [name.strip() for name in POSITION_COLUMNS.split(",") if name.strip() != "seq"]
_INSERT_POSITION = f"INSERT INTO mower_positions (seq, {', '.join(_COLUMNS)}) VALUES ({', '.join('?' * 13)})"
_INSERT_BLOCK = "INSERT INTO journal_blocks (first_seq, last_seq, first_us, last_us) VALUES (?, ?, ?, ?)"

Event = tuple[int, str, tuple[Any, ...]]
"""When, the table's insert, and its values with None for the number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Season:
    """What to make. Days are UTC, the last one ends at `end`; `unacked` rows still wait for the relay."""

    mowers: int = 5
    days: int = 30
    row_s: float = 5.0
    seed: int = 1
    end: datetime = datetime(2026, 10, 1, tzinfo=UTC)
    unacked: int = 1_000

    @classmethod
    def of_rows(cls, rows: int, *, row_s: float = 5.0, seed: int = 1) -> Season:
        """About so many rows of the track: five mowers for up to two years of mowing, beyond that more mowers."""
        a_day = 0.9 * JOBS_A_DAY * JOB_S / row_s + 210
        mowers = max(5, math.ceil(rows / a_day / limits.POSITIONS_RETENTION.days))
        return cls(mowers=mowers, days=max(1, round(rows / a_day / mowers)), row_s=row_s, seed=seed)

    @property
    def mower_ids(self) -> list[MowerId]:
        return [MowerId(f"01kt134r001h4jwgawxty5{number:04}") for number in range(self.mowers)]

    @property
    def start(self) -> datetime:
        return self.end - timedelta(days=self.days)


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """Rows of the file and how long they took."""

    positions: int
    histories: int
    seconds: float


class _Day:
    """One mower's day: its rows of the track and its events, each in the order of time."""

    def __init__(self, garden: Garden, season: Season, day: int) -> None:
        self.rows: list[Row] = []
        self.events: list[Event] = []
        self._garden = garden
        self._rng = random.Random(f"{season.seed}/{garden.number}/{day}")
        self._day = day
        self._at_us = to_us(season.start) + day * _DAY_US
        self._end_us = self._at_us + _DAY_US
        self._battery = 100
        self._run()

    def _run(self) -> None:
        rng, weather = self._rng, random.Random(f"rain/{self._day}")
        dry_until_s = weather.choice((0, 10, 13, 16)) * 3600 if weather.random() < 0.2 else 86_400
        self._stand(self._at_us + round((7.5 + rng.random()) * 3600 * SECOND_US), Activity.DOCKED)
        for job in range(JOBS_A_DAY):
            if self._at_us > self._end_us - _DAY_US + dry_until_s * SECOND_US:
                break
            if job == 0 and rng.random() < 0.3:
                self._command()
            self._mow(PATTERNS[(self._day * JOBS_A_DAY + job) % len(PATTERNS)])
            self._charge()
        self._stand(self._end_us, Activity.DOCKED)

    def _mow(self, pattern: str) -> None:
        garden, rng, noise = self._garden, self._rng, NOISE
        route = garden.routes[list(dict.fromkeys(PATTERNS)).index(pattern)]
        count = round(JOB_S * SECOND_US / garden.step_us * rng.uniform(0.85, 1.0))
        begin = rng.randrange(max(1, len(route.points) - count))
        home = garden.dock.points[0]
        self._move(garden.way(home, route.points[begin]), Activity.LEAVING)
        start_us = self._at_us
        self.rows.extend(garden.rows(start_us, route, begin, count, 1, rng.randrange(noise)))
        self._at_us += count * garden.step_us
        used = rng.randrange(65, 78)
        marks: list[tuple[int, int | None]] = [
            (start_us + index * (self._at_us - start_us) // used + 7, None) for index in range(used)
        ]
        low, high = bisect_left(route.changes, begin), bisect_left(route.changes, begin + count)
        marks += [(start_us + (i - begin) * garden.step_us, route.fixes[i]) for i in route.changes[low:high]]
        fix = route.fixes[begin]
        for at_us, changed in sorted(marks, key=itemgetter(0)):
            fix = fix if changed is None else changed
            self._battery -= changed is None
            self._tell(at_us, Activity.MOWING, fix=fix, blades_on=1)
        last = route.points[begin + count - 1]
        if rng.random() < 0.04:
            self._fail(garden.way(last, home))
        self._move(garden.way(last, home), Activity.RETURNING)

    def _move(self, way: Route, activity: Activity) -> None:
        count = len(way.points)
        self._tell(self._at_us, activity, fix=way.fixes[0] if count else FIXED)
        self.rows.extend(self._garden.rows(self._at_us, way, 0, count, 0, self._rng.randrange(NOISE)))
        self._at_us += max(1, count) * self._garden.step_us

    def _fail(self, way: Route) -> None:
        """Stands on the lawn until somebody comes."""
        until_us = self._at_us + self._rng.randrange(300, 2_400) * SECOND_US
        code = self._rng.choice(("stuck", "lifted", "blade-blocked"))
        self._wait(way, until_us, Activity.ERROR, code)

    def _charge(self) -> None:
        begin_us, missing = self._at_us, 100 - self._battery
        for index in range(missing):
            self._battery += 1
            self._tell(begin_us + index * CHARGE_S * SECOND_US // missing, Activity.CHARGING, is_charging=1)
        self._standing_rows(self._garden.dock, begin_us + CHARGE_S * SECOND_US)

    def _stand(self, until_us: int, activity: Activity) -> None:
        self._wait(self._garden.dock, until_us, activity, None)

    def _wait(self, way: Route, until_us: int, activity: Activity, code: str | None) -> None:
        fix = way.fixes[0] if len(way.fixes) else FIXED
        for at_us in range(self._at_us, until_us, _STANDING_US):
            self._tell(at_us, activity, fix=fix, code=code)
        self._standing_rows(way, until_us)

    def _standing_rows(self, way: Route, until_us: int) -> None:
        for at_us in range(self._at_us, until_us - self._garden.step_us, _STANDING_US):
            self.rows.extend(self._garden.rows(at_us, way, 0, min(1, len(way.points)), 0, self._rng.randrange(NOISE)))
        self._at_us = max(self._at_us, until_us)

    def _tell(
        self,
        at_us: int,
        activity: Activity,
        *,
        fix: int = FIXED,
        blades_on: int = 0,
        is_charging: int = 0,
        code: str | None = None,
    ) -> None:
        what = (ACTIVITY_CODES[activity], _ONLINE, self._battery, is_charging, fix, BASE, 350, blades_on)
        speed = round(SPEED_MPS * 1_000) if activity in (Activity.MOWING, Activity.LEAVING, Activity.RETURNING) else 0
        self.events.append((at_us, INSERT_HISTORY, (self._garden.number, at_us, None, *what, speed, code)))

    def _command(self) -> None:
        command_id = f"{self._garden.number:04}-{self._day:06}"
        for status in (CommandStatus.ACCEPTED, CommandStatus.EXECUTED):
            self._at_us += SECOND_US
            columns = (command_id, STATUS_CODES[status], self._garden.number, self._at_us, None, None)
            self.events.append((self._at_us, INSERT_TIMELINE, columns))


class _Journal:
    """Numbers the rows of one day after another and makes the blocks that recording would."""

    def __init__(self) -> None:
        self.last_seq = 0

    def number(self, times: Sequence[int], events: Sequence[Event]) -> tuple[Iterator[int], list[int], list[Row]]:
        """Numbers of track rows at `times`, numbers of the events, and the blocks of both."""
        first = self.last_seq + 1
        before = [bisect_left(times, at_us) for at_us, _, _ in events]
        event_seqs = [first + rows + index for index, rows in enumerate(before)]
        borders = [0, *before, len(times)]
        seqs = chain.from_iterable(range(first + n + a, first + n + b) for n, (a, b) in enumerate(pairwise(borders)))
        self.last_seq += len(times) + len(events)
        return seqs, event_seqs, list(self._blocks(first, times, event_seqs))

    def _blocks(self, first: int, times: Sequence[int], event_seqs: Sequence[int]) -> Iterator[Row]:
        """Greedy, as `JournalNumbers.take` is: as many numbers as a block holds and its first time allows."""
        row = 0
        while first <= self.last_seq:
            most = min(first + BLOCK_ROWS - 1, self.last_seq)
            events = bisect_left(event_seqs, first)
            until = row + most - first + 1 - (bisect_right(event_seqs, most) - events)
            end = until
            if row < until:
                end = bisect_right(times, times[row] + BLOCK_SPAN_US, row, until)
            if end < until:  # the row at `end` begins the next block; its number is one beyond this block's last
                taken = bisect_right(event_seqs, most)
                while taken > events and event_seqs[taken - 1] - taken >= first - events + end - row:
                    taken -= 1
                most = first + (end - row) + (taken - events) - 1
            yield (first, most, times[row], times[end - 1]) if end > row else (first, most, None, None)
            first, row = most + 1, end


def write_season(path: Path, season: Season) -> Made:
    """Makes a store's file at `path`, which must not be there; for synchronous callers."""
    return asyncio.run(make_season(path, season))


async def make_season(path: Path, season: Season) -> Made:
    """As `write_season`, inside a loop (which it blocks)."""
    begun = time.perf_counter()
    store = SqliteTelemetryStore(path, clock=SystemClock(), is_journal=True)
    await store.open()
    ids = season.mower_ids
    await store.put_directory(
        [DirectoryEntry(mower_id=mower_id, account_id=ACCOUNT, edge_id=EDGE, name=mower_id[-4:]) for mower_id in ids]
    )
    await store.close()
    histories, positions = _fill(path, season)
    await store.open()
    await store.record_states(
        [(mower_id, ACCOUNT, _last_state(season, number)) for number, mower_id in enumerate(ids, 1)],
        received_at=season.end,
    )
    head = await store.journal_head()
    await store.acknowledge(max(0, head.last_seq - season.unacked))
    await store.close()
    return Made(
        positions=positions + season.mowers,
        histories=histories + season.mowers,
        seconds=time.perf_counter() - begun,
    )


def _fill(path: Path, season: Season) -> tuple[int, int]:
    """All rows; how many of history and track."""
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -65536", "temp_store = MEMORY"):
        connection.execute(f"PRAGMA {pragma}")
    directory, noise = (
        SqliteDirectory(moves_rows=True),
        Noise(random.Random(season.seed), round(JOB_S / season.row_s) + 600),
    )
    numbers = [directory.number(connection, mower_id, ACCOUNT) for mower_id in season.mower_ids]
    gardens = [Garden(number, noise, seed=season.seed, row_s=season.row_s) for number in numbers]
    journal = _Journal()
    kept_us = to_us(season.end - limits.HISTORY_RETENTION)
    counts = [0, 0]
    for day in range(season.days):
        days = [_Day(garden, season, day) for garden in gardens]
        rows = sorted(chain.from_iterable(one.rows for one in days), key=itemgetter(1))
        events = sorted(chain.from_iterable(one.events for one in days), key=itemgetter(0))
        seqs, event_seqs, blocks = journal.number([row[1] or 0 for row in rows], events)
        connection.execute("BEGIN")
        connection.executemany(_INSERT_POSITION, [(seq, *row) for seq, row in zip(seqs, rows, strict=True)])
        connection.executemany(_INSERT_BLOCK, blocks)
        for (at_us, sql, columns), seq in zip(events, event_seqs, strict=True):
            if at_us >= kept_us:
                numbered = (*columns[:2], seq, *columns[3:]) if sql is INSERT_HISTORY else (*columns[:-1], seq)
                counts[0] += connection.execute(sql, numbered).rowcount * (sql is INSERT_HISTORY)
        connection.execute("COMMIT")
        counts[1] += len(rows)
    connection.close()
    return counts[0], counts[1]


def _last_state(season: Season, number: int) -> MowerState:
    return MowerState(
        observed_at=from_us(to_us(season.end) - 10 * SECOND_US + number),
        activity=Activity.DOCKED,
        connectivity=Connectivity.ONLINE,
        battery_percent=100,
        is_charging=False,
        position=Position(lat=48.1 + number * 1e-3, lon=11.5 - 2e-5, heading_deg=0.0, accuracy_m=0.012),
        rtk_fix=RtkFix.FIXED,
        rtk_source=RtkSource.BASE,
        satellites=28,
        blades_on=False,
        signals=Signals(wifi_dbm=-50, mobile_dbm=-97),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--mowers", type=int, default=5)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--row-s", type=float, default=5.0, help="seconds between rows while it moves")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    made = write_season(given.file, Season(mowers=given.mowers, days=given.days, row_s=given.row_s, seed=given.seed))
    rate = made.positions / made.seconds
    print(f"{made.positions} rows of the track, {made.histories} of history, {made.seconds:.1f} s, {rate:.0f} rows/s")


if __name__ == "__main__":
    main()
