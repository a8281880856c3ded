"""The box's journal: one number for each row, for ever."""

from __future__ import annotations

import random

import pytest

from core.domain import limits
from core.domain.commands import CommandStatus
from core.domain.errors import ConflictError
from core.telemetry.rows import HistoryRow, PositionRow, RecordRow, TimelineRow
from tests.contract.telemetry_parts import (
    EVER,
    HOME,
    MOWER,
    OTHER,
    SECOND,
    STRANGER,
    Check,
    Open,
    at,
    directory_entry,
    histories,
    journal,
    made,
    record,
    result_at,
    settle,
    state_at,
    track,
)


async def journal_numbers_all_tables_in_one_order(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        assert (await store.journal_head()).last_seq == 0
        assert (await store.read_journal(0, 10)).rows == ()
        await record(store, state_at(0))
        await store.record_results([result_at(1, "c1", CommandStatus.ACCEPTED)])
        await record(store, state_at(2, north=5))
        head = await store.journal_head()
        assert (head.first_seq, head.last_seq, head.acked_seq) == (1, 4, 0)
        rows = await journal(store)
        assert [row.seq for row in rows] == [1, 2, 3, 4]
        assert [type(row.row) for row in rows] == [HistoryRow, PositionRow, TimelineRow, PositionRow]
        assert [row.row for row in rows if isinstance(row.row, PositionRow)] == await track(store)
        assert [row.seq for row in await journal(store, after=2, limit=1)] == [3, 4]


async def journal_holds_every_row_in_order_whatever_the_times(open_store: Open) -> None:
    """Backfills far and near, clocks that jump: each number leads to its row, in slices of any size."""
    rng = random.Random(5)
    async with open_store("a") as store:
        await settle(store)
        now = 4_000_000.0
        for _ in range(60):
            now += rng.choice([1, 1, 1, 900, -3_600, 86_400])
            states = [
                (
                    rng.choice([MOWER, SECOND]),
                    HOME,
                    state_at(now + rng.choice([n, n, -50_000 * n]) + rng.random(), north=rng.randrange(2_000)),
                )
                for n in range(rng.randrange(30))
            ]
            await store.record_states(states, received_at=at(now + 86_400))
        counts = await store.counts()
        whole = await journal(store)
        assert len(whole) == counts["mower_history"] + counts["mower_positions"] + counts["mower_records"]
        unchanged = [row.seq for row in whole if not isinstance(row.row, RecordRow)]
        assert unchanged == sorted(set(unchanged)), "only numbers of older versions of records are missing"
        for mower in (MOWER, SECOND):
            mine = [row.row for row in whole if row.row.mower_id == mower]
            by_time = sorted((r for r in mine if isinstance(r, PositionRow)), key=lambda r: r.observed_at)
            assert by_time == await track(store, mower)
        for limit in (1, 7, 1_000):
            assert await journal(store, limit=limit) == whole


async def numbers_go_on_after_a_restart_and_after_deletes(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        await record(store, state_at(0), state_at(1, north=10))
        stream = (await store.journal_head()).stream_id
        await store.retain(at(0) + limits.POSITIONS_RETENTION * 2)
        head = await store.journal_head()
        assert (head.first_seq, head.last_seq) == (4, 3), "nothing is left of 1 to 3"
        part = await store.read_journal(0, 10)
        assert (part.first_seq, part.last_seq, part.rows) == (1, 3, ()), "the range explains the gap"
    async with open_store("a") as store:
        assert (await store.journal_head()).stream_id == stream
        await record(store, state_at(2, north=20, battery_percent=10))
        assert [row.seq for row in await journal(store, after=3)] == [4, 5]
        await store.purge_mower(MOWER)
    async with open_store("a") as store:
        await record(store, state_at(0), mower=SECOND)
        assert [row.seq for row in await journal(store)] == [6, 7]


async def journal_leaps_over_what_is_gone(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        for mower, count in ((SECOND, 2_500), (MOWER, 5)):
            await store.record_states(
                [(mower, HOME, state_at(n, north=n % 100 * 10)) for n in range(count)], received_at=at(count)
            )
        await store.purge_mower(SECOND)
        part = await store.read_journal(0, 100)
        assert len(part.rows) == 6, "one history row and five steps"
        assert part.first_seq == 1


async def acknowledging_only_moves_forward(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        await record(store, state_at(0), state_at(1, north=10))
        for acked, expected in ((2, 2), (1, 2), (3, 3)):
            await store.acknowledge(acked)
            assert (await store.journal_head()).acked_seq == expected
        with pytest.raises(ConflictError):
            await store.acknowledge(4)
        assert (await store.journal_head()).acked_seq == 3
    async with open_store("a") as store:
        assert (await store.journal_head()).acked_seq == 3


async def results_for_mowers_not_in_the_directory_still_reach_the_journal(open_store: Open) -> None:
    async with open_store("a") as store:
        row = result_at(0, "c1", CommandStatus.REJECTED, STRANGER)
        assert await store.record_results([row]) == 1
        assert [item.row for item in await journal(store)] == [row]
        await store.put_directory([directory_entry(STRANGER)])
        assert list((await store.timeline(HOME, STRANGER, *EVER, limit=9))[0]) == [row]


async def rows_follow_the_mower_into_the_account_that_the_box_is_linked_to(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        await record(store, state_at(0))
        await store.put_directory([directory_entry(MOWER, OTHER)])
        assert await histories(store) == []
        assert len(await histories(store, account=OTHER)) == 1
        assert await store.latest(OTHER, MOWER) is not None
        (written,) = await store.record_states([(MOWER, OTHER, state_at(1))], received_at=at(1))
        assert made([written]) == [(True, False, False)]


JOURNAL: tuple[Check, ...] = (
    journal_numbers_all_tables_in_one_order,
    journal_holds_every_row_in_order_whatever_the_times,
    numbers_go_on_after_a_restart_and_after_deletes,
    journal_leaps_over_what_is_gone,
    acknowledging_only_moves_forward,
    results_for_mowers_not_in_the_directory_still_reach_the_journal,
    rows_follow_the_mower_into_the_account_that_the_box_is_linked_to,
)
