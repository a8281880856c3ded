"""Reads of one account, retention, and the removal of a mower."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest

from core.domain import limits
from core.domain.commands import CommandStatus
from core.domain.errors import TooManyBinsError
from core.domain.mower import (
    Activity,
    MowerError,
    RtkFix,
)
from core.telemetry.binning import bin_history
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
    made,
    record,
    result_at,
    settle,
    state_at,
    track,
)


async def reads_are_scoped_to_the_account(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        await record(store, state_at(0))
        await store.record_results([result_at(0, "c1", CommandStatus.ACCEPTED)])
        assert await store.latest(OTHER, MOWER) is None
        assert list(await store.latest_of(OTHER, [MOWER, SECOND])) == []
        assert await histories(store, account=OTHER) == []
        assert await track(store, account=OTHER) == []
        assert (await store.timeline(OTHER, MOWER, *EVER, limit=10))[0] == []
        assert list(await store.history_bins(OTHER, MOWER, at(0), at(60), step_s=60)) == []


async def latest_of_keeps_the_order_and_leaves_out_the_silent(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        await record(store, state_at(0))
        await record(store, state_at(1), mower=SECOND)
        found = await store.latest_of(HOME, [SECOND, STRANGER, MOWER])
        assert [entry.mower_id for entry in found] == [SECOND, MOWER]
        assert list(await store.latest_of(HOME, [])) == []


async def ranges_are_half_open(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        await record(store, *(state_at(n, north=n * 10, battery_percent=50 + n) for n in range(4)))
        await store.record_results([result_at(n, f"c{n}", CommandStatus.ACCEPTED) for n in range(4)])
        for rows in (
            [row.observed_at for row in (await store.history(HOME, MOWER, at(1), at(3), limit=9))[0]],
            [row.observed_at for row in (await store.positions(HOME, MOWER, at(1), at(3), limit=9))[0]],
            [row.result.at for row in (await store.timeline(HOME, MOWER, at(1), at(3), limit=9))[0]],
        ):
            assert rows == [at(1), at(2)]


async def cursors_lead_to_every_row_once(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        await record(store, *(state_at(n / 1e6 + n // 3, north=n * 10, battery_percent=n) for n in range(20)))
        results = [result_at(n // 4, f"c{n:02}", CommandStatus.ACCEPTED) for n in range(20)]
        await store.record_results(results)
        for read, whole in (
            (store.history, await histories(store)),
            (store.positions, await track(store)),
            (store.timeline, results),
        ):
            for limit in (1, 3, 7, 19, 20, 21):
                found: list[Any] = []
                start = EVER[0]
                while True:
                    rows, page = await read(HOME, MOWER, start, EVER[1], limit=limit)  # type: ignore[operator]
                    found += rows
                    if not page.is_truncated:
                        break
                    assert page.cursor is not None
                    start = page.cursor
                assert found == list(whole), (read, limit)


async def bins_agree_with_the_pure_rule(open_store: Open) -> None:
    rng = random.Random(11)
    async with open_store("a") as store:
        await settle(store)
        states = [
            state_at(
                rng.randrange(0, 7_200) + rng.random(),
                north=rng.randrange(2_000),
                activity=rng.choice(list(Activity)),
                battery_percent=rng.choice([None, *range(101)]),
                is_charging=rng.choice([None, True, False]),
                rtk_fix=rng.choice([None, *RtkFix]),
                error=rng.choice([None, None, MowerError(code="E1"), MowerError(code="E2")]),
            )
            for _ in range(400)
        ]
        await store.record_states(
            [(MOWER, HOME, state) for state in sorted(states, key=lambda s: s.observed_at)], received_at=at(7_200)
        )
        history, positions = await histories(store), await track(store)
        for start, end, step_s in ((at(0), at(7_200), 5), (at(17.3), at(5_011.9), 60), (at(0.5), at(9_000), 3_600)):
            expected = bin_history(history, positions, start, end, step_s=step_s)
            assert list(await store.history_bins(HOME, MOWER, start, end, step_s=step_s)) == expected
            assert len(expected) > 1


async def too_many_bins_name_the_step_that_fits(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        with pytest.raises(TooManyBinsError) as caught:
            await store.history_bins(HOME, MOWER, at(0), at(31 * 86_400), step_s=5)
        assert caught.value.fitting_step == "15m"


async def retention_lets_old_rows_go(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        count = limits.RETENTION_BATCH_ROWS + 10
        await store.record_states(
            [(MOWER, HOME, state_at(n, north=n % 100 * 10, battery_percent=n % 100)) for n in range(count)],
            received_at=at(count),
        )
        await record(store, state_at(40 * 86_400), mower=SECOND)
        await store.record_results([result_at(0, "c1", CommandStatus.ACCEPTED)])
        kept = await store.retain(at(29 * 86_400))
        assert not any(kept.values())
        deleted = await store.retain(at(0) + limits.HISTORY_RETENTION + timedelta(seconds=count - 1))
        assert deleted["mower_history"] == count - 1, "what is exactly as old as the retention stays"
        assert deleted["command_timeline"] == 1
        assert deleted["mower_positions"] == 0
        deleted = await store.retain(at(count) + limits.POSITIONS_RETENTION)
        assert deleted["mower_positions"] == count
        assert len(await track(store, SECOND)) == 1
        assert await store.latest(HOME, MOWER) is not None


async def purging_leaves_nothing_of_one_mower(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        await record(store, state_at(0), state_at(1, north=10))
        await record(store, state_at(0), mower=SECOND)
        await store.record_results([result_at(0, "c1", CommandStatus.ACCEPTED)])
        await store.purge_mower(MOWER)
        assert await store.latest(HOME, MOWER) is None
        assert await histories(store) == []
        assert [entry.mower_id for entry in await store.directory()] == [SECOND]
        counts = await store.counts()
        assert (counts["mower_history"], counts["mower_positions"], counts["mower_latest"]) == (1, 1, 1)
        assert counts["command_timeline"] == 0
        (written,) = await record(store, state_at(2))
        assert written.skipped == "unknown-mower"
        await store.put_directory([directory_entry(MOWER)])
        assert made(await record(store, state_at(3))) == [(True, True, True)]
        await store.purge_mower(STRANGER)


async def a_mower_that_comes_back_after_a_purge_begins_anew(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        for mower in (MOWER, SECOND):
            await record(store, state_at(0), mower=mower)
        for mower in (SECOND, MOWER):
            await store.purge_mower(mower)
            await store.put_directory([directory_entry(mower)])
            assert made(await record(store, state_at(0), mower=mower)) == [(True, True, True)]


async def registrations_win_over_seeds(open_store: Open) -> None:
    async with open_store("a") as store:
        seed = directory_entry(MOWER, OTHER, is_seed=True)
        await store.put_directory([seed])
        assert list(await store.directory()) == [seed]
        await store.put_directory([directory_entry(MOWER, HOME)])
        await store.put_directory([seed])
        assert list(await store.directory()) == [directory_entry(MOWER, HOME)]


READS: tuple[Check, ...] = (
    reads_are_scoped_to_the_account,
    latest_of_keeps_the_order_and_leaves_out_the_silent,
    ranges_are_half_open,
    cursors_lead_to_every_row_once,
    bins_agree_with_the_pure_rule,
    too_many_bins_name_the_step_that_fits,
    retention_lets_old_rows_go,
    purging_leaves_nothing_of_one_mower,
    a_mower_that_comes_back_after_a_purge_begins_anew,
    registrations_win_over_seeds,
)
