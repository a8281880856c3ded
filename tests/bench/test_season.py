"""A season is what a box's store would hold: rows, numbers and blocks of the journal, and it goes on from there."""

from __future__ import annotations

import math
import sqlite3
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from bench.season import ACCOUNT, Season, make_season
from core.domain.clock import SystemClock, to_us
from core.domain.mower import Activity, MowerState
from core.storage.sqlite_journal import BLOCK_ROWS, BLOCK_SPAN_US, JournalNumbers
from core.storage.sqlite_store import SqliteTelemetryStore
from core.telemetry.rows import PositionRow, SequencedRow
from tests.fakes.clock import ManualClock

SMALL = Season(mowers=2, days=2, row_s=20.0)


def read(path: Path, sql: str) -> list[Any]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


async def journal_of(path: Path) -> tuple[list[SequencedRow], int, int]:
    """All rows by number, the last number, and the acknowledged one."""
    store = SqliteTelemetryStore(path, clock=SystemClock(), is_journal=True)
    await store.open()
    head = await store.journal_head()
    rows: list[SequencedRow] = []
    reached = 0
    while reached < head.last_seq:
        part = await store.read_journal(reached, 1_000)
        rows += part.rows
        reached = part.last_seq
    await store.close()
    return rows, head.last_seq, head.acked_seq


async def test_equal_seasons_make_equal_rows_and_another_seed_others(tmp_path: Path) -> None:
    seasons = {"a": SMALL, "b": SMALL, "c": Season(mowers=2, days=2, row_s=20.0, seed=2)}
    for name, season in seasons.items():
        await make_season(tmp_path / name, season)
    for table in ("mower_positions", "mower_history", "command_timeline", "journal_blocks"):
        a, b, c = (read(tmp_path / name, f"SELECT * FROM {table}") for name in seasons)
        assert a == b
        assert table == "command_timeline" or a != c


async def test_the_journal_has_each_row_once_in_order(tmp_path: Path) -> None:
    made = await make_season(tmp_path / "box.db", SMALL)
    rows, last_seq, acked_seq = await journal_of(tmp_path / "box.db")
    assert [row.seq for row in rows] == list(range(1, last_seq + 1))
    positions = [row.row for row in rows if isinstance(row.row, PositionRow)]
    assert len(positions) == made.positions == read(tmp_path / "box.db", "SELECT count(*) FROM mower_positions")[0][0]
    assert acked_seq == last_seq - SMALL.unacked
    assert all(a.observed_at <= b.observed_at + timedelta(seconds=1) for a, b in pairwise(positions))


@pytest.mark.parametrize("row_s", [3.0, 20.0])
async def test_blocks_are_those_of_recording(tmp_path: Path, row_s: float) -> None:
    """The numbers' own rule, fed with the rows in order, makes the same blocks (but for the store's last states)."""
    season = Season(mowers=2, days=1, row_s=row_s)
    await make_season(tmp_path / "box.db", season)
    numbered = [
        (seq, at_us) for seq, at_us in read(tmp_path / "box.db", "SELECT seq, observed_us FROM mower_positions")
    ]
    others = read(
        tmp_path / "box.db", "SELECT seq, NULL FROM mower_history UNION SELECT seq, NULL FROM command_timeline"
    )
    others += read(tmp_path / "box.db", "SELECT seq, NULL FROM mower_records")
    copy = sqlite3.connect(":memory:")
    copy.execute(
        "CREATE TABLE journal_blocks (first_seq INTEGER PRIMARY KEY, last_seq INTEGER, first_us INTEGER, last_us INTEGER)"
    )
    numbers = JournalNumbers(is_enabled=True)
    for _, at_us in sorted(numbered + others):
        numbers.peek(copy)
        numbers.take(copy, at_us)
    numbers.save(copy)
    expected = copy.execute("SELECT * FROM journal_blocks ORDER BY first_seq").fetchall()
    copy.close()
    found = read(tmp_path / "box.db", "SELECT * FROM journal_blocks ORDER BY first_seq")
    assert found == expected
    assert all(last - first < BLOCK_ROWS for first, last, _, _ in found)
    assert all(until is None or until - begin <= BLOCK_SPAN_US for _, _, begin, until in found)


async def test_tracks_are_ways_that_a_mower_can_go(tmp_path: Path) -> None:
    await make_season(tmp_path / "box.db", SMALL)
    rows = read(
        tmp_path / "box.db",
        "SELECT observed_us, lat_e7, lon_e7, blades_on, rtk_fix FROM mower_positions WHERE mower_no = 1 ORDER BY 1",
    )
    steps = 0
    for (at_us, lat, lon, blades_on, _), (next_us, next_lat, next_lon, next_blades_on, _) in pairwise(rows):
        way_m = math.hypot(next_lat - lat, (next_lon - lon) * math.cos(math.radians(48.1))) * 0.01112
        if blades_on and next_blades_on:
            steps += 1
            assert way_m <= 0.35 * (next_us - at_us) / 1e6 + 0.2
    assert steps > 500
    assert {fix for *_, fix in rows} >= {0, 1}  # a tree somewhere
    night = [row for row in rows if row[0] % 86_400_000_000 < 6 * 3_600_000_000]
    assert night
    assert not any(row[3] for row in night)
    assert len(night) == 2 * 6 * 12


async def test_history_tells_of_a_day_and_only_as_far_back_as_it_is_kept(tmp_path: Path) -> None:
    season = Season(mowers=1, days=33, row_s=20.0)
    await make_season(tmp_path / "box.db", season)
    activities = {row[0] for row in read(tmp_path / "box.db", "SELECT DISTINCT activity FROM mower_history")}
    assert activities >= {0, 1, 2, 3, 4, 7}
    first_us = read(tmp_path / "box.db", "SELECT min(observed_us) FROM mower_history")[0][0]
    assert first_us >= to_us(season.end - timedelta(days=30))
    assert read(tmp_path / "box.db", "SELECT min(observed_us) FROM mower_positions")[0][0] < first_us
    batteries = read(tmp_path / "box.db", "SELECT min(battery), max(battery) FROM mower_history")
    assert 0 < batteries[0][0] < batteries[0][1] == 100


async def test_the_store_goes_on_from_a_season(tmp_path: Path) -> None:
    await make_season(tmp_path / "box.db", SMALL)
    _, last_seq, _ = await journal_of(tmp_path / "box.db")
    mower_id, at = SMALL.mower_ids[0], SMALL.end + timedelta(minutes=1)
    store = SqliteTelemetryStore(tmp_path / "box.db", clock=ManualClock(at), is_journal=True)
    await store.open()
    before = await store.latest(ACCOUNT, mower_id)
    assert before is not None
    assert before.state.activity is Activity.DOCKED
    written = await store.record_states(
        [(mower_id, ACCOUNT, MowerState(observed_at=at, activity=Activity.IDLE))], received_at=at
    )
    assert written[0].history
    (added,) = (row for row in (await store.read_journal(last_seq, 10)).rows if row.seq == last_seq + 1)
    assert added.row.observed_at == at  # type: ignore[union-attr]
    bins = await store.history_bins(ACCOUNT, mower_id, SMALL.start, SMALL.end, step_s=3_600)
    assert len(bins) == 48
    tracks = await store.thinner.tracks(SMALL.end)
    assert len(tracks) == SMALL.mowers
    thinned = await store.thinner.thin_slice(tracks[0], SMALL.end)
    assert thinned is not None
    await store.close()


def test_a_season_of_so_many_rows_is_about_that_long() -> None:
    assert (Season.of_rows(1_000_000).mowers, Season.of_rows(1_000_000).days) == (5, 46)
    assert Season.of_rows(100_000_000).mowers > 5
    assert all(Season.of_rows(rows).days <= 731 for rows in (10, 10_000_000, 100_000_000))
