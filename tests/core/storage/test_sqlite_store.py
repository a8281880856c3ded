"""The SQLite store: the contract on both hosts, and what only a file can do."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sqlite3
import sys
import textwrap
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from core.domain.errors import DatabaseNewerError, StorageError, StorageFullError
from core.storage.sqlite_journal import BLOCK_ROWS, BLOCK_SPAN_US
from core.storage.sqlite_store import SqliteTelemetryStore
from core.telemetry.health_day import HEALTH_DAY
from core.telemetry.session import SESSION
from tests.contract import telemetry_parts as parts
from tests.contract import telemetry_store as contract
from tests.contract.telemetry_parts import HOME, MOWER, at, state_at
from tests.fakes.clock import ManualClock


@pytest.fixture(autouse=True)
def no_thread_outlives_the_test() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    left = [t.name for t in set(threading.enumerate()) - before if t.name.startswith("mowdeck-")]
    assert left == []


def make_store(path: Path, *, is_journal: bool = True, **settings: Any) -> SqliteTelemetryStore:
    return SqliteTelemetryStore(path, clock=ManualClock(), is_journal=is_journal, **settings)


@contextlib.asynccontextmanager
async def opened(path: Path, *, is_journal: bool = True, **settings: Any) -> AsyncIterator[SqliteTelemetryStore]:
    store = make_store(path, is_journal=is_journal, **settings)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def opener(folder: Path, *, is_journal: bool) -> parts.Open:
    return lambda name: opened(folder / f"{name}.db", is_journal=is_journal)


@pytest.mark.parametrize("check", [*contract.COMMON, *contract.BOX], ids=lambda check: check.__name__)
async def test_contract_on_the_box(check: parts.Check, tmp_path: Path) -> None:
    await check(opener(tmp_path, is_journal=True))


@pytest.mark.parametrize("check", [*contract.COMMON, *contract.RELAY], ids=lambda check: check.__name__)
async def test_contract_on_the_relay(check: parts.Check, tmp_path: Path) -> None:
    await check(opener(tmp_path, is_journal=False))


async def test_box_and_relay_agree_row_for_row(tmp_path: Path) -> None:
    async with opened(tmp_path / "box.db") as box, opened(tmp_path / "relay.db", is_journal=False) as relay:
        for store in (box, relay):
            await parts.settle(store)
        await parts.record(box, *(state_at(n, north=n * 3, battery_percent=100 - n // 7) for n in range(500)))
        stream = (await box.journal_head()).stream_id
        reached = 0
        while (part := await box.read_journal(reached, 64)).last_seq > reached:
            done = await relay.ingest(parts.EDGE, HOME, stream, part.rows, last_seq=part.last_seq, received_at=at(600))
            await box.acknowledge(done.acked_seq)
            reached = part.last_seq
        assert await parts.histories(relay) == await parts.histories(box)
        assert await parts.track(relay) == await parts.track(box)
        for kind in (HEALTH_DAY, SESSION):
            kept = [
                await store.records.list_kind(HOME, MOWER, kind.name, *parts.EVER, limit=9) for store in (box, relay)
            ]
            assert kept[0] == kept[1]
            assert len(kept[0][0]) == 1
        assert (await box.journal_head()).acked_seq == reached == 500 + 72 + 2


async def test_a_relay_keeps_no_journal(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db", is_journal=False) as store:
        for read in (store.journal_head(), store.read_journal(0, 1), store.acknowledge(1)):
            with pytest.raises(StorageError):
                await read


async def test_restored_copy_gets_a_new_stream(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db") as store:
        await parts.settle(store)
        await parts.record(store, state_at(0))
        await store.acknowledge(2)
        before = await store.journal_head()
        stream = await store.restart_stream()
        after = await store.journal_head()
        assert stream == after.stream_id != before.stream_id
        assert (after.acked_seq, after.last_seq) == (0, 2)


async def test_blocks_of_the_journal_stay_short_in_numbers_and_in_time(tmp_path: Path) -> None:
    """What a read of the journal scans in vain is bounded by them."""
    rng = random.Random(2)
    async with opened(tmp_path / "a.db") as store:
        await parts.settle(store)
        for start in (0, 5_000, 1_000, 900_000):  # forwards, back, and far away
            states = [(MOWER, HOME, state_at(start + n + rng.random(), north=n % 97 * 5)) for n in range(1_500)]
            await store.record_states(states, received_at=at(1_000_000))
        blocks = await store._database.read(
            lambda connection: connection.execute(
                "SELECT first_seq, last_seq, first_us, last_us FROM journal_blocks ORDER BY first_seq"
            ).fetchall()
        )
        for first_seq, last_seq, first_us, last_us in blocks:
            assert last_seq - first_seq < BLOCK_ROWS
            assert last_us - first_us <= BLOCK_SPAN_US
        assert [first for first, *_ in blocks[1:]] == [last + 1 for _, last, *_ in blocks[:-1]]
        assert len(blocks) < 25, "and yet they are few"


# -- faults


_WRITER = """
    import asyncio, sys
    from datetime import timedelta
    from pathlib import Path
    from tests.contract.telemetry_parts import HOME, MOWER, at, settle, state_at
    from tests.core.storage.test_sqlite_store import make_store

    async def main():
        store = make_store(Path(sys.argv[1]))
        await store.open()
        await settle(store)
        first = int(sys.argv[2])
        for n in range(first, first + 1_000_000):
            await store.record_states(
                [(MOWER, HOME, state_at(n, north=n % 1000 * 3, battery_percent=n % 100))], received_at=at(n)
            )
            print(n, flush=True)

    asyncio.run(main())
"""


async def _write_until_killed(path: Path, first: int, rows: int) -> int:
    """Starts a writer and kills it with SIGKILL once it has said that `rows` states are in; the last one it said."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        textwrap.dedent(_WRITER),
        str(path),
        str(first),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    assert process.stdout is not None
    said = first - 1
    async with asyncio.timeout(30):
        while said < first + rows - 1:
            said = int(await process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        while line := await process.stdout.readline():
            if line.endswith(b"\n"):
                said = int(line)
        await process.wait()
    return said


async def test_kill_9_loses_nothing_committed_and_never_reuses_a_number(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    known: dict[int, object] = {}
    first = 0
    for rows in (40, 150, 90):
        said = await _write_until_killed(path, first, rows)
        async with opened(path) as store:
            history = await parts.histories(store)
            assert [row.observed_at for row in history[: said + 1]] == [at(n) for n in range(said + 1)]
            assert len(history) - (said + 1) in {0, 1}, "at most the one that was under way when the process died"
            assert len(await parts.track(store)) == len(history)
            sent = {item.seq: item.row for item in await parts.journal(store)}
            assert sorted(sent) == list(range(1, 2 * len(history) + 1))
            assert {seq: sent[seq] for seq in known} == known, "a number means one row for ever"
            known = sent
        first = len(history)


async def _record_until_full(store: SqliteTelemetryStore) -> int:
    """How many states went in before the disk was full."""
    for count in range(20_000):
        state = state_at(count, north=count % 1000 * 3)
        try:
            await store.record_states([(MOWER, HOME, state)], received_at=state.observed_at)
        except StorageFullError:
            return count
    raise AssertionError("the disk never filled")


async def test_full_disk_is_reported_and_recording_goes_on_when_there_is_room(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with opened(path, page_limit=40) as store:
        await parts.settle(store)
        written = await _record_until_full(store)
        assert written > 100
        assert len(await parts.track(store)) == written, "nothing of the failed write stays"
        latest = await store.latest(HOME, MOWER)
        assert latest is not None
        assert latest.state.observed_at == at(written - 1)
        rows = await parts.journal(store)
        await store._database.write(lambda connection: connection.execute("PRAGMA max_page_count = 1000").fetchone())
        await parts.record(store, state_at(written, north=written % 1000 * 3))
        assert [item.seq for item in await parts.journal(store)][-1] == rows[-1].seq + 1


async def test_a_database_of_a_newer_version_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with opened(path):
        pass
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 999")
    store = make_store(path)
    with pytest.raises(DatabaseNewerError):
        await store.open()
    await store.close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (999,)


async def test_a_file_that_is_no_database_is_an_error_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(b"this is not a database at all" * 100)
    with pytest.raises(StorageError):
        await make_store(path).open()


async def test_a_folder_that_is_not_there_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        await make_store(tmp_path / "none" / "a.db").open()


async def test_tracks_are_private(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db") as store:
        await parts.settle(store)
        modes = {file.name: file.stat().st_mode & 0o777 for file in sorted(tmp_path.glob("*"))}  # noqa: ASYNC240
        assert modes == dict.fromkeys(("a.db", "a.db-shm", "a.db-wal"), 0o600)


async def test_two_stores_on_one_file_do_not_mislead_each_other(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with opened(path) as one, opened(path) as two:
        await parts.settle(one)
        await parts.record(one, state_at(0))
        (written,) = await parts.record(two, state_at(1))
        assert (written.latest, written.history) == (True, False), "it has seen what the other wrote"
        (written,) = await parts.record(one, state_at(0.5))
        assert written.skipped == "older"
        await parts.record(two, state_at(2, north=9))
        await parts.record(one, state_at(3, north=18))
        assert [item.seq for item in await parts.journal(one)] == list(range(1, 7))
