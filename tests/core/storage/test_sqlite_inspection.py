"""Looking into a telemetry file while its store is open, and what is found wrong in one that was tampered with."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from core.domain.commands import CommandResult, CommandStatus
from core.domain.errors import DatabaseNewerError, InvalidInputError
from core.domain.ids import AccountId, CommandId, MowerId
from core.domain.mower import Activity, MowerState, Position
from core.storage.sqlite_inspection import find_faults, measure_file, open_to_look
from core.storage.sqlite_store import SqliteTelemetryStore
from core.storage.telemetry_store import DirectoryEntry
from core.storage.thinning_forecast import forecast
from core.telemetry.rows import TimelineRow
from tests.fakes.clock import START, ManualClock

MOWER, HOME = MowerId("m"), AccountId("a")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteTelemetryStore]:
    opened = SqliteTelemetryStore(tmp_path / "telemetry.db", clock=ManualClock(), is_journal=True)
    await opened.open()
    await opened.put_directory([DirectoryEntry(mower_id=MOWER, account_id=HOME, edge_id=None, name="M")])
    states = [
        MowerState(
            observed_at=START + timedelta(seconds=n),
            activity=Activity.MOWING,
            battery_percent=90 - n // 100,
            blades_on=True,
            position=Position(lat=48.0 + min(n % 120, 120 - n % 120) * 1e-5, lon=11.0 + n // 60 * 1e-5),
        )
        for n in range(2_000)
    ]
    await opened.record_states([(MOWER, HOME, s) for s in states], received_at=START + timedelta(hours=1))
    result = CommandResult(command_id=CommandId("c"), mower_id=MOWER, status=CommandStatus.EXECUTED, at=START)
    await opened.record_results([TimelineRow(result=result)])
    try:
        yield opened
    finally:
        await opened.close()


async def test_a_file_is_counted_while_its_host_writes(store: SqliteTelemetryStore, tmp_path: Path) -> None:
    counts, head = await store.counts(), await store.journal_head()
    with open_to_look(tmp_path / "telemetry.db") as connection:
        size = measure_file(connection)
        assert find_faults(connection) == []
    tables = {table.name: table for table in size.tables}
    assert {name: tables[name].rows for name in counts} == counts
    assert size.backlog_numbers == head.last_seq - head.acked_seq == head.last_seq
    (mower,) = size.mowers
    assert (mower.position_rows, mower.history_rows) == (2_000, counts["mower_history"])
    assert (mower.oldest_at, mower.newest_at) == (START, START + timedelta(seconds=1_999))
    used = [table.used_bytes for table in size.tables]
    if None not in used:
        assert 0 < sum(b for b in used if b is not None) <= size.file_bytes
        assert mower.used_bytes is not None
        assert mower.used_bytes > 2_000 * 20
    await store.acknowledge(head.last_seq - 3)
    with open_to_look(tmp_path / "telemetry.db") as connection:
        assert measure_file(connection).backlog_numbers == 3


async def test_looking_cannot_write(store: SqliteTelemetryStore, tmp_path: Path) -> None:
    with open_to_look(tmp_path / "telemetry.db") as connection, pytest.raises(sqlite3.OperationalError):
        connection.execute("DELETE FROM mower_history")


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("DELETE FROM mowers", "orphans"),
        ("UPDATE journal_blocks SET last_seq = last_seq - 10", "journal-numbers"),
        ("UPDATE journal_stream SET acked_seq = 1000000", "journal-acknowledged"),
        ("UPDATE journal_blocks SET last_us = first_us", "journal-blocks"),
        ("INSERT INTO thinned_stretches VALUES (1, 0, 10, 1)", "thinning-watermark"),
        ("UPDATE mower_latest SET observed_us = observed_us - 1000000000", "latest-behind"),
        ("DELETE FROM mower_latest", "latest-behind"),
    ],
)
async def test_each_kind_of_damage_is_found(
    store: SqliteTelemetryStore, tmp_path: Path, statement: str, code: str
) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "telemetry.db", isolation_level=None)) as connection:
        connection.execute(statement)
    with open_to_look(tmp_path / "telemetry.db") as connection:
        found = find_faults(connection)
    assert code in [finding.code for finding in found]
    assert all(finding.detail and finding.advice for finding in found)


async def test_a_broken_page_is_damage(store: SqliteTelemetryStore, tmp_path: Path) -> None:
    await store.close()
    path = tmp_path / "telemetry.db"
    data = bytearray(path.read_bytes())
    with contextlib.closing(sqlite3.connect(path)) as connection:
        page = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'mower_positions'").fetchone()[0]
        size = connection.execute("PRAGMA page_size").fetchone()[0]
    data[(page - 1) * size + 8 : (page - 1) * size + 40] = bytes(32)
    path.write_bytes(data)
    with open_to_look(path) as connection:
        assert {finding.code for finding in find_faults(connection)} == {"damaged"}


async def test_what_is_no_file_of_ours_is_said(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a database, " * 100, encoding="utf-8")
    with contextlib.closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE a (b)")
    for name in ("missing", "text", "other.db"):
        with pytest.raises(InvalidInputError), open_to_look(tmp_path / name):
            pass


async def test_a_newer_file_is_left_alone(store: SqliteTelemetryStore, tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "telemetry.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA user_version = 999")
    with pytest.raises(DatabaseNewerError), open_to_look(tmp_path / "telemetry.db"):
        pass


async def test_the_forecast_of_thinning_is_what_the_night_does(store: SqliteTelemetryStore, tmp_path: Path) -> None:
    (number,) = await store.thinner.tracks(START + timedelta(days=1))
    # a part of the track is thinned already: what its end looked like goes into the next slice
    await store.thinner.thin_slice(number, START + timedelta(minutes=10))
    seen: list[tuple[int, int]] = []
    now, detail = START + timedelta(days=10, minutes=30), timedelta(days=10)
    with open_to_look(tmp_path / "telemetry.db") as connection:
        (told,) = forecast(
            connection, now, detail=detail, retention=None, on_progress=lambda done, total: seen.append((done, total))
        )
    rows_before = (await store.counts())["mower_positions"]
    scanned = deleted = 0
    error_m = 0.0
    while (made := await store.thinner.thin_slice(number, now - detail)) is not None:
        scanned, deleted, error_m = scanned + made.scanned, deleted + made.deleted, max(error_m, made.error_m)
    assert (told.scanned_rows, told.thinned_rows, told.error_m) == (scanned, deleted, error_m)
    assert deleted > 500
    assert (told.young_rows, told.expired_rows) == (200, 0)
    assert told.behind_rows + told.scanned_rows + told.young_rows == rows_before
    assert seen
    assert seen[-1][0] == scanned


async def test_a_forecast_in_many_slices_is_the_same(store: SqliteTelemetryStore, tmp_path: Path) -> None:
    far = [
        MowerState(
            observed_at=START + timedelta(hours=5, minutes=58, seconds=n),
            activity=Activity.MOWING,
            blades_on=True,
            position=Position(lat=48.0 + n * 1e-5, lon=11.0 + (n % 2) * 1e-7),
        )
        for n in range(1_500)
    ]
    await store.record_states([(MOWER, HOME, s) for s in far], received_at=START + timedelta(days=1))
    now, detail = START + timedelta(days=11), timedelta(days=10)
    with open_to_look(tmp_path / "telemetry.db") as connection:
        (told,) = forecast(connection, now, detail=detail, retention=None)
        (aged,) = forecast(connection, now, detail=detail, retention=timedelta(days=10, hours=20))
    assert (aged.expired_rows, aged.scanned_rows) == (2_000, 1_500)
    (number,) = await store.thinner.tracks(now - detail)
    made = [one async for one in _all_slices(store, number, now - detail)]
    assert len(made) >= 2
    assert (told.scanned_rows, told.thinned_rows) == (sum(s.scanned for s in made), sum(s.deleted for s in made))
    assert told.error_m == max(s.error_m for s in made)


async def _all_slices(store: SqliteTelemetryStore, number: object, before: object) -> AsyncIterator[object]:
    while (made := await store.thinner.thin_slice(number, before)) is not None:
        yield made
