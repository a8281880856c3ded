"""Thinning on SQLite: the contract, agreement with the pure rule to the row, kill -9, and the journal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import signal
import sqlite3
import sys
import textwrap
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.storage import sqlite_thinning
from core.storage.telemetry_store import TelemetryStore
from core.storage.track_thinner import TrackThinner
from core.telemetry.rows import PositionRow
from core.telemetry.thinning import keep_set
from tests.contract import telemetry_parts as parts
from tests.contract import track_thinning as contract
from tests.contract.telemetry_parts import HOME, MOWER, at, state_at
from tests.core.storage.test_sqlite_store import opened
from tests.core.storage.thinning_agreement import assert_agreement, left, open_track
from tests.core.telemetry.tracks import lanes, mow, some_times, tracks

LENGTHS_US = (300_000_000, 600_000_000, 1_800_000_000, 21_600_000_000)


@pytest.mark.parametrize("check", contract.THINNING, ids=lambda check: check.__name__)
async def test_contract(check: contract.Check, tmp_path: Path) -> None:
    @contextlib.asynccontextmanager
    async def open_thinning(name: str) -> AsyncIterator[tuple[TelemetryStore, TrackThinner]]:
        async with opened(tmp_path / f"{name}.db", is_journal=False) as store:
            yield store, store.thinner

    await check(open_thinning)


@settings(max_examples=200, deadline=None)
@given(tracks(), st.integers(0, 99), st.sampled_from(LENGTHS_US))
def test_sql_agrees_with_the_pure_rule_to_the_row(rows, seed: int, length_us: int) -> None:
    assert_agreement(rows, some_times(rows, seed), length_us=length_us)


@pytest.mark.parametrize("seed", range(6))
def test_long_random_tracks_agree(seed: int) -> None:
    rows = contract.random_track(seed + 100, legs=120)
    for length_us in (LENGTHS_US[0], LENGTHS_US[-1]):
        assert_agreement(rows, some_times(rows, seed), length_us=length_us)


def test_a_slice_of_many_rows_is_made_shorter() -> None:
    rows = mow(lanes, every_s=1.0, rows=2_000)
    assert_agreement(rows, frozenset(), length_us=LENGTHS_US[-1], most_rows=500)
    assert_agreement(rows, frozenset(), length_us=LENGTHS_US[-1], most_rows=1)


def test_without_mathematics_in_sqlite() -> None:
    """Some builds lack `sqrt`: Python's takes its place, and rounds as IEEE says, too."""
    made = []

    class Plain(sqlite3.Connection):
        def execute(self, sql, *values):  # type: ignore[no-untyped-def]
            if sql == sqlite_thinning.PROBE:
                raise sqlite3.OperationalError("no such function: sqrt")
            return super().execute(sql, *values)

        def create_function(self, *arguments, **options):  # type: ignore[no-untyped-def]
            made.append(arguments[0])
            return super().create_function(*arguments, **options)

    rows = contract.random_track(1)
    assert_agreement(rows, frozenset(), length_us=LENGTHS_US[-1], factory=Plain)
    assert set(made) == {"sqrt"}


def test_what_is_rolled_back_is_thinned_again_all_the_same() -> None:
    rows = contract.random_track(2)
    before_us = rows[-1].at_us + 10**12
    with contextlib.closing(open_track(":memory:", rows, frozenset())) as connection:
        for ending in ("ROLLBACK", "COMMIT"):
            connection.execute("BEGIN")
            while sqlite_thinning.thin_next(connection, 7, before_us):
                pass
            connection.execute(ending)
            assert left(connection) == ({row.at_us for row in rows} if ending == "ROLLBACK" else keep_set(rows))


async def test_rows_thinned_before_they_were_sent_are_skipped_and_explained(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db") as store:
        await parts.settle(store)
        states = [(MOWER, HOME, state_at(n, north=n * 30)) for n in range(4_000)]
        await store.record_states(states, received_at=at(5_000))
        whole = {item.seq: item.row for item in await parts.journal(store)}
        head = await store.journal_head()
        await store.acknowledge(700)
        await contract.thin_all(store.thinner, at(3_000))
        kept = {row.observed_at for row in await parts.track(store)}
        assert len(kept) < 1_200
        assert await store.journal_head() == replace(head, acked_seq=700)
        sent = {item.seq: item.row for item in await parts.journal(store, after=700, limit=100)}
        assert sent == {
            seq: row
            for seq, row in whole.items()
            if seq > 700 and (not isinstance(row, PositionRow) or row.observed_at in kept)
        }
        await parts.record(store, state_at(5_000, north=1))
        assert (await store.journal_head()).last_seq > head.last_seq


_THINNER = """
    import asyncio, sys
    from datetime import timedelta
    from pathlib import Path
    from core.domain.clock import from_us
    from core.storage.sqlite_thinning import SqliteTrackThinner
    from tests.core.storage.test_sqlite_store import make_store

    async def main():
        store = make_store(Path(sys.argv[1]))
        await store.open()
        thinner = SqliteTrackThinner(store._database, length=timedelta(minutes=15))
        before = from_us(int(sys.argv[2]))
        for number in await thinner.tracks(before):
            while await thinner.thin_slice(number, before):
                print("slice", flush=True)
        print("done", flush=True)
        await store.close()

    asyncio.run(main())
"""


async def _thin_until_killed(path: Path, before_us: int, slices: int) -> bool:
    """Kills the thinning process in the slice after `slices`; whether it was done before."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        textwrap.dedent(_THINNER),
        str(path),
        str(before_us),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    assert process.stdout is not None
    async with asyncio.timeout(30):
        lines = [await process.stdout.readline() for _ in range(slices)]
        if b"done\n" not in lines:
            process.send_signal(signal.SIGKILL)
        await process.wait()
    return b"done\n" in lines


def _content(path: Path) -> dict[str, list[tuple[object, ...]]]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return {
            table: connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()
            for table in ("mower_positions", "mower_positions_thinning", "thinned_stretches", "thinning_tails")
        }


async def test_kill_9_at_random_points_changes_nothing(tmp_path: Path) -> None:
    rows = mow(lanes, every_s=1.0, rows=16_000)
    before_us = rows[-1].at_us + 10**9
    path, other = tmp_path / "a.db", tmp_path / "b.db"
    with contextlib.closing(open_track(str(path), rows, frozenset())) as connection:
        connection.executemany("INSERT INTO mowers VALUES (?, ?, 'home')", [(7, "mower"), (8, "second")])
    shutil.copy(path, other)
    rng = random.Random(9)
    kills = 0
    while not await _thin_until_killed(path, before_us, rng.randrange(1, 9)):
        kills += 1
        assert kills < 60
    assert kills >= 4
    assert await _thin_until_killed(other, before_us, 1_000)
    assert _content(path) == _content(other)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert left(connection) == keep_set(rows)
        assert left(connection, 8) == {row.at_us for row in rows}, "each of its rows has an error"
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
