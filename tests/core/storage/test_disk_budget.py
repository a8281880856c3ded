"""The room of the box's file: which rows go first, what is said of it, and what becomes of the pages."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from core.storage.disk_budget import DiskBudget
from core.storage.sqlite_store import SqliteTelemetryStore
from tests.contract import telemetry_parts as parts
from tests.contract.telemetry_parts import HOME, MOWER, SECOND, at, state_at
from tests.core.storage.test_sqlite_store import opened

GIB = 1 << 30
ROOMY = (64 * GIB, 4 * GIB, 60 * GIB)
DAY_S = 86_400


async def fill(store: SqliteTelemetryStore, days: int, rows: int = 2_000) -> None:
    """Days of two mowers on the move."""
    await parts.settle(store)
    for day in range(days):
        for mower in (MOWER, SECOND):
            states = [state_at(day * DAY_S + second, north=second * 50) for second in range(rows)]
            await store.record_states([(mower, HOME, state) for state in states], received_at=states[-1].observed_at)


def budget_of(store: SqliteTelemetryStore, budget_bytes: int, usage: tuple[int, int, int] = ROOMY) -> DiskBudget:
    return store.disk_budget(
        budget_bytes=budget_bytes, reserve_percent=10, floor_bytes=64 * 1024, read_usage=lambda _: usage
    )


async def test_within_its_room_nothing_goes(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db") as store:
        await fill(store, 1)
        before = await store.counts()
        budget = budget_of(store, GIB)
        assert await budget.round() == 0
        assert await store.counts() == before
        assert budget.status is not None
        assert (budget.status.is_reached, budget.status.dropped_since, budget.status.is_disk_short) == (
            False,
            None,
            False,
        )


async def test_the_oldest_days_of_all_mowers_go_and_the_newest_stay(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db") as store:
        await fill(store, 6)
        look = budget_of(store, GIB)
        await look.round()
        assert look.status is not None
        budget = budget_of(store, look.status.used_bytes // 2)
        dropped = await budget.round()
        assert dropped > 0
        status = budget.status
        assert status is not None
        assert status.is_reached
        assert status.used_bytes <= status.allowed_bytes
        assert status.file_bytes <= status.allowed_bytes
        assert sum(status.dropped_rows.values()) == status.unacknowledged_rows == dropped
        assert status.dropped_since is not None
        for mower in (MOWER, SECOND):
            rows = await parts.track(store, mower)
            assert rows[-1].observed_at == at(5 * DAY_S + 1_999)
            assert rows[0].observed_at >= at(DAY_S)
        # what is left is read as one journal without a gap, and the counter goes on
        assert [row.seq for row in await parts.journal(store)][-1] == (await store.journal_head()).last_seq
        # the second round finds all well, and what was dropped is still said
        assert await budget.round() == 0
        assert budget.status is not None
        assert not budget.status.is_reached
        assert sum(budget.status.dropped_rows.values()) == dropped
    with sqlite3.connect(tmp_path / "a.db") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


async def test_what_the_relay_has_goes_before_what_it_never_had(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db") as store:
        await parts.settle(store)
        new, old = ([state_at(day * DAY_S + second, north=second * 50) for second in range(4_000)] for day in (9, 1))
        for states in (new, old):  # the backfill of old days came later: its numbers are the higher ones
            await store.record_states([(MOWER, HOME, state) for state in states], received_at=new[-1].observed_at)
            if states is new:
                await store.acknowledge((await store.journal_head()).last_seq)
        look = budget_of(store, GIB)
        await look.round()
        assert look.status is not None
        budget = budget_of(store, int(look.status.used_bytes * 0.8))
        assert await budget.round() > 0
        assert budget.status is not None
        assert budget.status.unacknowledged_rows == 0
        left = await parts.track(store)
        assert sum(row.observed_at < at(5 * DAY_S) for row in left) == 4_000
        assert sum(row.observed_at > at(5 * DAY_S) for row in left) < 4_000


async def test_thinned_rows_go_before_those_in_full(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db") as store:
        await fill(store, 4)
        for number in await store.thinner.tracks(at(2 * DAY_S)):
            while await store.thinner.thin_slice(number, at(2 * DAY_S)) is not None:
                pass
        thinned = [row for row in await parts.track(store) if row.observed_at < at(2 * DAY_S)]
        full = [row for row in await parts.track(store) if row.observed_at >= at(2 * DAY_S)]
        histories = await parts.histories(store)
        assert thinned
        look = budget_of(store, GIB)
        await look.round()
        assert look.status is not None
        budget = budget_of(store, look.status.used_bytes - 1)
        assert await budget.round() > 0
        left = await parts.track(store)
        assert len([row for row in left if row.observed_at < at(2 * DAY_S)]) < len(thinned)
        # where thinned rows are not enough, full ones go too, from the oldest on
        assert left[-1] == full[-1]
        assert (await parts.histories(store))[-1] == histories[-1]


async def test_a_card_that_others_fill_takes_rows_only_down_to_the_floor(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db") as store:
        await fill(store, 3)
        budget = budget_of(store, GIB, usage=(GIB, GIB, 0))
        assert await budget.round() > 0
        status = budget.status
        assert status is not None
        assert status.allowed_bytes == 64 * 1024
        assert status.is_disk_short
        await budget.round()
        await store.record_states([(MOWER, HOME, state_at(9 * DAY_S))], received_at=at(9 * DAY_S))  # recording goes on
        assert (await parts.track(store))[-1].observed_at == at(9 * DAY_S)


async def test_a_disk_that_cannot_be_asked_leaves_the_budget(tmp_path: Path) -> None:
    def fail(_: Path) -> tuple[int, int, int]:
        raise OSError("gone")

    async with opened(tmp_path / "a.db") as store:
        budget = store.disk_budget(budget_bytes=GIB, reserve_percent=10, read_usage=fail)
        assert await budget.round() == 0
        assert budget.status is not None
        assert budget.status.allowed_bytes == GIB
