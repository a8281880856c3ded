"""The threads around one SQLite file: grouping, durability, cancellation, bounds, and their end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from core.domain.errors import ConflictError, StorageError, StorageFullError
from core.storage.migrations import Migration
from core.storage.sqlite_database import PENDING_WRITES, SqliteDatabase

SCHEMA = (Migration(version=1, sql="CREATE TABLE t (x INTEGER PRIMARY KEY);"),)
ENDLESS = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"


@contextlib.asynccontextmanager
async def opened(folder: Path, **settings: Any) -> AsyncIterator[SqliteDatabase]:
    database = SqliteDatabase(folder / "a.db", migrations=SCHEMA, **settings)
    await database.open()
    try:
        yield database
    finally:
        await database.close()


def insert(*values: int) -> Callable[[sqlite3.Connection], int]:
    def job(connection: sqlite3.Connection) -> int:
        connection.executemany("INSERT INTO t VALUES (?)", [(value,) for value in values])
        return len(values)

    return job


def numbers(connection: sqlite3.Connection) -> list[int]:
    return [x for (x,) in connection.execute("SELECT x FROM t ORDER BY x")]


class Gate:
    """Holds the writer's thread until it is opened, so that a test can fill the queue behind it."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._reached = threading.Event()

    def job(self, _connection: sqlite3.Connection) -> None:
        self._reached.set()
        self._open.wait(10)

    async def reached(self) -> None:
        assert await asyncio.to_thread(self._reached.wait, 10)

    def open(self) -> None:
        self._open.set()


async def hold(database: SqliteDatabase) -> tuple[Gate, asyncio.Task[None]]:
    gate = Gate()
    held = asyncio.ensure_future(database.write(gate.job))
    await gate.reached()
    return gate, held


async def queue_up(*writes: Any) -> list[asyncio.Task[Any]]:
    tasks = [asyncio.ensure_future(write) for write in writes]
    await asyncio.sleep(0)  # each task now stands in the queue
    return tasks


async def test_waiting_writes_share_a_transaction(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        with contextlib.closing(sqlite3.connect(tmp_path / "a.db", check_same_thread=False)) as outside:

            def look(connection: sqlite3.Connection) -> tuple[list[int], list[int]]:
                return numbers(connection), numbers(outside)

            gate, held = await hold(database)
            tasks = await queue_up(database.write(insert(1)), database.write(insert(2)), database.write(look))
            gate.open()
            assert await asyncio.gather(held, *tasks) == [None, 1, 1, ([1, 2], [])]
            assert numbers(outside) == [1, 2]


async def test_a_failing_write_takes_none_of_its_neighbours_along(tmp_path: Path) -> None:
    def fail(connection: sqlite3.Connection) -> None:
        insert(99)(connection)
        raise ConflictError("no")

    async with opened(tmp_path) as database:
        forgotten = []
        database.on_rollback(lambda: forgotten.append(threading.current_thread().name))
        gate, held = await hold(database)
        tasks = await queue_up(
            database.write(insert(1)), database.write(fail), database.write(insert(1)), database.write(insert(2))
        )
        gate.open()
        await held
        first, failed, doubled, second = await asyncio.gather(*tasks, return_exceptions=True)
        assert (first, second) == (1, 1)
        assert isinstance(failed, ConflictError)
        assert isinstance(doubled, StorageError)
        assert isinstance(doubled.__cause__, sqlite3.IntegrityError)
        assert await database.read(numbers) == [1, 2]
        assert len(forgotten) >= 3
        assert set(forgotten) == {"mowdeck-telemetry-writer"}


async def test_a_cancelled_write_is_done_once(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        gate, held = await hold(database)
        (task,) = await queue_up(database.write(insert(1)))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.open()
        await held
        await database.write(insert(2))
        assert await database.read(numbers) == [1, 2]


async def test_close_finishes_what_was_handed_over(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "a.db", migrations=SCHEMA)
    await database.open()
    gate, held = await hold(database)
    tasks = await queue_up(*(database.write(insert(n)) for n in range(100)))
    closing = asyncio.ensure_future(database.close())
    gate.open()
    await closing
    await held
    assert await asyncio.gather(*tasks) == [1] * 100
    assert not [t for t in threading.enumerate() if t.name.startswith("mowdeck-")]
    for late in (database.write(insert(1_000)), database.read(numbers)):
        with pytest.raises(StorageError):
            await late
    await database.close()
    await database.open()
    assert await database.read(numbers) == list(range(100))
    with pytest.raises(StorageError):
        await database.open()
    await database.close()


async def test_more_writers_than_places_wait_their_turn(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        count = PENDING_WRITES * 3
        assert sum(await asyncio.gather(*(database.write(insert(n)) for n in range(count)))) == count
        assert len(await database.read(numbers)) == count


async def test_a_cancelled_read_is_stopped(tmp_path: Path) -> None:
    async with opened(tmp_path, readers=1, read_limit_s=60.0) as database:
        started = threading.Event()

        def forever(connection: sqlite3.Connection) -> Any:
            started.set()
            return connection.execute(ENDLESS).fetchone()

        (task,) = await queue_up(database.read(forever))
        assert await asyncio.to_thread(started.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(10):
            assert await database.read(numbers) == []


async def test_a_read_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    async with opened(tmp_path, readers=1, read_limit_s=0.05) as database:
        async with asyncio.timeout(10):
            with pytest.raises(StorageError, match="too long"):
                await database.read(lambda connection: connection.execute(ENDLESS).fetchone())
        assert await database.read(numbers) == []


async def test_readers_cannot_write(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        with pytest.raises(StorageError):
            await database.read(insert(1))
        assert await database.read(numbers) == []


async def test_a_read_sees_one_moment(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        await database.write(insert(1))
        between, written = threading.Event(), threading.Event()

        def twice(connection: sqlite3.Connection) -> tuple[list[int], list[int]]:
            first = numbers(connection)
            between.set()
            written.wait(10)
            return first, numbers(connection)

        (task,) = await queue_up(database.read(twice))
        assert await asyncio.to_thread(between.wait, 10)
        await database.write(insert(2))
        written.set()
        assert await task == ([1], [1])


class Disk:
    """Syncs for real, counts, and fails when told to."""

    def __init__(self) -> None:
        self.syncs = 0
        self.fault: OSError | None = None
        self.synced = threading.Event()

    def sync(self, fd: int) -> None:
        if self.fault is not None:
            raise self.fault
        os.fdatasync(fd)
        self.syncs += 1
        self.synced.set()


async def test_a_durable_write_is_synced_before_it_returns(tmp_path: Path) -> None:
    disk = Disk()
    async with opened(tmp_path, sync=disk.sync, sync_after_s=60.0) as database:
        at_open = disk.syncs
        await database.write(insert(1))
        assert disk.syncs == at_open
        await database.write(insert(2), durable=True)
        assert disk.syncs == at_open + 1
        await database.write(numbers, durable=True)
        assert disk.syncs == at_open + 1, "nothing is left to sync"
        await database.write(insert(3))
        await database.write(numbers, durable=True)
        assert disk.syncs == at_open + 2, "a durable read of the journal syncs what came before it"
        await database.write(insert(4))
    assert disk.syncs == at_open + 3, "closing syncs the rest"


async def test_other_writes_are_synced_within_the_window(tmp_path: Path) -> None:
    disk = Disk()
    async with opened(tmp_path, sync=disk.sync, sync_after_s=0.05) as database:
        disk.synced.clear()
        await database.write(insert(1))
        assert await asyncio.to_thread(disk.synced.wait, 10)


async def test_a_failed_sync_fails_durable_writes_only(tmp_path: Path) -> None:
    disk = Disk()
    async with opened(tmp_path, sync=disk.sync, sync_after_s=60.0) as database:
        disk.fault = OSError(errno.EIO, "the card is broken")
        assert await database.write(insert(1)) == 1
        with pytest.raises(StorageError, match="broken"):
            await database.write(insert(2), durable=True)
        disk.fault = OSError(errno.ENOSPC, "no space")
        with pytest.raises(StorageFullError):
            await database.write(insert(3), durable=True)
        disk.fault = None
        await database.write(numbers, durable=True)
        assert await database.read(numbers) == [1, 2, 3]


async def test_a_lock_held_by_another_process_is_waited_for_and_then_an_error(tmp_path: Path) -> None:
    async with opened(tmp_path, busy_timeout_s=0.05) as database:
        with contextlib.closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as outside:
            outside.execute("BEGIN IMMEDIATE")
            with pytest.raises(StorageError, match="locked"):
                await database.write(insert(1))
            outside.execute("ROLLBACK")
        await database.write(insert(1))
        assert await database.read(numbers) == [1]


async def test_a_writer_that_breaks_down_leaves_nobody_waiting(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        gate, held = await hold(database)
        tasks = await queue_up(
            database.write(insert(1)), database.write(lambda connection: connection.close()), database.write(insert(2))
        )
        gate.open()
        async with asyncio.timeout(10):
            await held
            answers = await asyncio.gather(*tasks, return_exceptions=True)
            assert any(isinstance(answer, StorageError) for answer in answers)
            with pytest.raises(StorageError, match="broken down"):
                await database.write(insert(3))


async def test_cancelled_opening_leaves_no_thread(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "a.db", migrations=SCHEMA)
    task = asyncio.ensure_future(database.open())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    for thread in [t for t in threading.enumerate() if t.name.startswith("mowdeck-")]:
        await asyncio.to_thread(thread.join, 10)
        assert not thread.is_alive()
    await database.open()
    await database.close()
