"""The relational database: one writer at a time, all or nothing, no threads left behind."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import stat
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from sqlalchemy import Column, ForeignKey, Integer, MetaData, String, Table, func, insert, select, text, update

from core.domain.errors import (
    ConflictError,
    DatabaseNewerError,
    SettingsError,
    StorageError,
    UnavailableError,
)
from core.storage.relational import METADATA, SCHEMA_VERSION, RelationalDatabase, sqlite_url
from core.storage.relational_types import Instant

SHOP = MetaData()
boxes = Table("boxes", SHOP, Column("id", Integer, primary_key=True), Column("at", Instant), Column("name", String))
items = Table(
    "items",
    SHOP,
    Column("id", Integer, primary_key=True),
    Column("box", ForeignKey("boxes.id"), nullable=False),
)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[RelationalDatabase]:
    opened = RelationalDatabase(sqlite_url(tmp_path / "mowdeck.db"))
    await opened.open(SHOP)
    yield opened
    await opened.close()


async def count(database: RelationalDatabase) -> int:
    async with database.read() as conn:
        return (await conn.execute(select(func.count()).select_from(boxes))).scalar_one()


async def test_a_write_is_committed_at_the_end(database: RelationalDatabase) -> None:
    async with database.write() as conn:
        await conn.execute(insert(boxes).values(id=1))
        assert await count(database) == 0
    assert await count(database) == 1


async def test_an_error_in_the_body_rolls_everything_back_and_frees_the_turn(database: RelationalDatabase) -> None:
    with pytest.raises(LookupError):  # noqa: PT012
        async with database.write() as conn:
            await conn.execute(insert(boxes).values(id=1))
            raise LookupError
    assert await count(database) == 0
    async with database.write() as conn:
        await conn.execute(insert(boxes).values(id=1))
    assert await count(database) == 1


async def test_a_cancelled_writer_leaves_nothing_behind_and_the_next_one_goes_on(database: RelationalDatabase) -> None:
    inside = asyncio.Event()

    async def hang() -> None:
        async with database.write() as conn:
            await conn.execute(insert(boxes).values(id=1))
            inside.set()
            await asyncio.Event().wait()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(hang(), name="hang")
        await inside.wait()
        task.cancel()
    async with database.write() as conn:
        await conn.execute(insert(boxes).values(id=2))
    assert await count(database) == 1


async def test_cancelling_in_the_middle_of_statements_never_breaks_the_database(database: RelationalDatabase) -> None:
    async def busy() -> None:
        async with database.write() as conn:
            for number in range(10_000):
                await conn.execute(insert(boxes).values(id=number))

    for turns in (3, 7, 20, 45):
        async with asyncio.TaskGroup() as group:
            task = group.create_task(busy(), name="busy")
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
        assert await count(database) == 0
    async with database.write() as conn:
        await conn.execute(insert(boxes).values(id=1))
    assert await count(database) == 1


async def test_writers_take_turns_and_no_increment_is_lost(database: RelationalDatabase) -> None:
    async with database.write() as conn:
        await conn.execute(insert(boxes).values(id=0, name="0"))

    async def increment() -> None:
        async with database.write() as conn:
            seen = int((await conn.execute(select(boxes.c.name))).scalar_one())
            await asyncio.sleep(0)
            await conn.execute(update(boxes).values(name=str(seen + 1)))

    async with asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(increment())
    async with database.read() as conn:
        assert (await conn.execute(select(boxes.c.name))).scalar_one() == "20"


async def test_write_inside_write_is_a_bug_that_is_named(database: RelationalDatabase) -> None:
    async with database.write():
        with pytest.raises(RuntimeError, match="inside"):
            async with database.write():
                pass


async def test_a_reader_cannot_write(database: RelationalDatabase) -> None:
    with pytest.raises(StorageError):
        async with database.read() as conn:
            await conn.execute(insert(boxes).values(id=1))
    assert await count(database) == 0


async def test_a_reader_sees_one_snapshot(database: RelationalDatabase) -> None:
    async with database.read() as conn:
        await conn.execute(select(boxes))
        async with database.write() as writer:
            await writer.execute(insert(boxes).values(id=1))
        assert (await conn.execute(select(func.count()).select_from(boxes))).scalar_one() == 0
    assert await count(database) == 1


async def test_more_readers_than_connections_wait_for_each_other(database: RelationalDatabase) -> None:
    assert await asyncio.gather(*(count(database) for _ in range(30))) == [0] * 30


async def test_a_key_that_says_no_is_a_conflict(database: RelationalDatabase) -> None:
    async with database.write() as conn:
        await conn.execute(insert(boxes).values(id=1))
    with pytest.raises(ConflictError):
        async with database.write() as conn:
            await conn.execute(insert(boxes).values(id=1))
    with pytest.raises(ConflictError):
        async with database.write() as conn:
            await conn.execute(insert(items).values(id=1, box=99))


async def test_a_missing_value_is_not_a_conflict(database: RelationalDatabase) -> None:
    with pytest.raises(StorageError) as caught:
        async with database.write() as conn:
            await conn.execute(insert(items).values(id=1, box=None))
    assert "INSERT" not in str(caught.value)


async def test_another_process_that_writes_makes_it_unavailable(tmp_path: Path) -> None:
    file = tmp_path / "mowdeck.db"
    database = RelationalDatabase(sqlite_url(file))
    await database.open(SHOP)
    other = sqlite3.connect(file, isolation_level=None)
    try:
        async with database.write() as conn:
            await conn.execute(text("PRAGMA busy_timeout=0"))
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(UnavailableError):
            async with database.write() as conn:
                pass
        other.execute("ROLLBACK")
        async with database.write() as conn:
            await conn.execute(insert(boxes).values(id=1))
    finally:
        other.close()
        await database.close()


async def test_pragmas_hold_on_both_kinds_of_connection(database: RelationalDatabase) -> None:
    for way in (database.read, database.write):
        async with way() as conn:
            assert (await conn.execute(text("PRAGMA foreign_keys"))).scalar_one() == 1
            assert (await conn.execute(text("PRAGMA journal_mode"))).scalar_one() == "wal"
            assert (await conn.execute(text("PRAGMA synchronous"))).scalar_one() == 2
            assert (await conn.execute(text("PRAGMA busy_timeout"))).scalar_one() == 5_000


async def test_only_the_owner_of_the_file_can_read_it(tmp_path: Path, database: RelationalDatabase) -> None:
    await count(database)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("mowdeck.db*")}  # noqa: ASYNC240
    assert set(modes.values()) == {0o600}, modes


async def test_opening_again_keeps_rows_and_adds_tables(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path / "mowdeck.db")
    first = RelationalDatabase(url)
    await first.open(SHOP)
    async with first.write() as conn:
        await conn.execute(insert(boxes).values(id=1))
    await first.close()
    more = MetaData()
    Table("extra", more, Column("id", Integer, primary_key=True))
    second = RelationalDatabase(url)
    await second.open(more)
    assert await count(second) == 1
    async with second.read() as conn:
        assert (await conn.execute(text("SELECT count(*) FROM extra"))).scalar_one() == 0
    await second.close()


async def test_a_newer_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "mowdeck.db"
    first = RelationalDatabase(sqlite_url(file))
    await first.open(METADATA)
    async with first.write() as conn:
        await conn.execute(text("UPDATE schema_version SET version = :v"), {"v": SCHEMA_VERSION + 1})
    await first.close()
    second = RelationalDatabase(sqlite_url(file))
    with pytest.raises(DatabaseNewerError):
        await second.open(SHOP)
    with pytest.raises(UnavailableError):
        async with second.read():
            pass
    with contextlib.closing(sqlite3.connect(file)) as raw, raw:
        assert raw.execute("SELECT count(*) FROM sqlite_master WHERE name = 'boxes'").fetchone() == (0,)
    raw.close()


async def test_a_file_that_is_no_database_is_a_storage_error(tmp_path: Path) -> None:
    file = tmp_path / "mowdeck.db"
    file.write_bytes(b"not a database, but long enough to be looked at" * 100)
    database = RelationalDatabase(sqlite_url(file))
    with pytest.raises(StorageError):
        await database.open(SHOP)


async def test_a_missing_folder_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        await RelationalDatabase(sqlite_url(tmp_path / "no" / "mowdeck.db")).open(SHOP)


@pytest.mark.parametrize("url", ["sqlite+aiosqlite://", "sqlite+aiosqlite:///:memory:", "nonsense", "nosuch://x/y"])
def test_urls_that_cannot_work_are_settings_errors(url: str) -> None:
    with pytest.raises(SettingsError):
        RelationalDatabase(url)


async def test_closing_ends_all_threads_and_later_use_is_refused(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    database = RelationalDatabase(sqlite_url(tmp_path / "mowdeck.db"))
    await database.open(SHOP)
    await asyncio.gather(*(count(database) for _ in range(10)))
    assert set(threading.enumerate()) - before
    await database.close()
    await database.close()
    workers = [t for t in set(threading.enumerate()) - before if "_connection_worker_thread" in t.name]
    for thread in workers:
        thread.join(5)
    assert not [t for t in workers if t.is_alive()]
    with pytest.raises(UnavailableError):
        async with database.write():
            pass


async def test_closing_waits_for_what_still_runs(tmp_path: Path) -> None:
    database = RelationalDatabase(sqlite_url(tmp_path / "mowdeck.db"))
    await database.open(SHOP)
    inside, go = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        async with database.write() as conn:
            inside.set()
            await go.wait()
            await conn.execute(insert(boxes).values(id=1))

    async with asyncio.TaskGroup() as group:
        group.create_task(slow(), name="slow")
        await inside.wait()
        closing = group.create_task(database.close(), name="closing")
        await asyncio.sleep(0)
        assert not closing.done()
        go.set()
    with contextlib.closing(sqlite3.connect(tmp_path / "mowdeck.db")) as raw, raw:
        assert raw.execute("SELECT count(*) FROM boxes").fetchone() == (1,)
    raw.close()


async def test_instants_keep_microseconds_and_compare_across_zones(database: RelationalDatabase) -> None:
    at = datetime(2026, 6, 1, 8, 0, 0, 123456, tzinfo=UTC)
    async with database.write() as conn:
        await conn.execute(insert(boxes).values(id=1, at=at.astimezone(timezone(timedelta(hours=9)))))
    async with database.read() as conn:
        assert (await conn.execute(select(boxes.c.at).where(boxes.c.at == at))).scalar_one() == at
        assert (await conn.execute(select(boxes.c.id).where(boxes.c.at > at))).all() == []
