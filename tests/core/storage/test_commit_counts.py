"""Two classes of commits: orders and results are synced at once, states in groups; and both are counted."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from core.domain.commands import CommandStatus
from core.domain.errors import StorageError
from core.storage.migrations import read_migrations
from core.storage.sqlite_database import SqliteDatabase
from tests.contract import telemetry_parts as parts
from tests.contract.telemetry_parts import HOME, MOWER, result_at, state_at
from tests.core.storage.test_sqlite_store import opened


async def test_results_are_synced_at_once_and_states_are_not(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db") as store:
        await parts.settle(store)
        counts = store.commit_counts
        prompt, commits = counts.prompt_syncs, counts.commits
        for second in range(20):
            state = state_at(second, north=second * 50)
            await store.record_states([(MOWER, HOME, state)], received_at=state.observed_at)
        assert counts.prompt_syncs == prompt
        assert counts.commits == commits + 20
        assert counts.timed_syncs < 20
        for number in range(3):
            await store.record_results([result_at(30 + number, f"c{number}", CommandStatus.EXECUTED)])
            assert counts.prompt_syncs == prompt + number + 1


async def test_what_could_not_be_synced_is_counted(tmp_path: Path) -> None:
    fails = [False]

    def sync(_: int) -> None:
        if fails[0]:
            raise OSError("no room")

    def job(connection: sqlite3.Connection) -> int:
        return connection.execute("INSERT INTO mowers (mower_id, account_id) VALUES ('a', 'b')").rowcount

    database = SqliteDatabase(tmp_path / "a.db", migrations=read_migrations(), sync=sync)
    await database.open()
    try:
        fails[0] = True
        with pytest.raises(StorageError):
            await database.write(job, durable=True)
        assert database.counts.failed_syncs >= 1
    finally:
        fails[0] = False
        await database.close()
