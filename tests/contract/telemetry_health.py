"""Days of health: counted with the states, in their transaction, and recorded now and then (the box)."""

from __future__ import annotations

import random

from core.domain.mower import Activity, MowerError
from core.telemetry.health_day import HEALTH_DAY, HealthDay
from core.telemetry.rows import RecordRow
from tests.contract.telemetry_parts import (
    EVER,
    HOME,
    MOWER,
    Check,
    Open,
    RecordingStore,
    at,
    directory_entry,
    journal,
    record,
    settle,
    state_at,
)

LATE = 40 * 86_400
"""Days later: a state then ends the day before it."""


async def days(store: RecordingStore) -> dict[str, HealthDay]:
    rows, _ = await store.records.list_kind(HOME, MOWER, HEALTH_DAY.name, *EVER, limit=1_000)
    return {row.key: day for row in rows if (day := HEALTH_DAY.read(row)) is not None}


async def days_do_not_depend_on_how_states_come(open_store: Open) -> None:
    """One by one, in groups, twice, with late ones between, and over restarts."""
    rng = random.Random(11)
    states = [
        state_at(
            n * 20,
            north=n * 40,
            activity=rng.choice([Activity.MOWING, Activity.MOWING, Activity.PAUSED, Activity.UNKNOWN]),
            battery_percent=90 - n // 10,
            error=rng.choice([None, None, None, MowerError(code="E1")]),
        )
        for n in range(1, 120)
    ]
    last = state_at(LATE, activity=Activity.DOCKED)
    async with open_store("a") as store:
        await settle(store)
        await record(store, *states, last)
        expected = await days(store)
        assert list(expected) == ["2026-06-01"]
        assert expected["2026-06-01"].mowing_s > 600
    async with open_store("b") as store:
        await settle(store)
        group = [(MOWER, HOME, state) for state in (*states, last)]
        await store.record_states(group, received_at=last.observed_at)
        assert await days(store) == expected
    async with open_store("c") as store:
        await settle(store)
    taken = 0
    while taken < len(states):
        async with open_store("c") as store:
            part = states[taken : taken + rng.randrange(1, 40)]
            taken += len(part)
            again = rng.sample(states[:taken], min(taken, 5))
            backfill = [state_at(taken * 20 - 13 - n, activity=Activity.ERROR) for n in range(3)]
            await record(store, *part, *again, *backfill)
    async with open_store("c") as store:
        await record(store, last, last, *states)
        assert await days(store) == expected


async def a_state_that_takes_the_place_of_another_of_its_instant_counts_from_there(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        await record(store, state_at(0), state_at(60), state_at(60, activity=Activity.RETURNING), state_at(100))
        await record(store, state_at(110, activity=Activity.UNKNOWN), state_at(LATE))
        (day,) = (await days(store)).values()
        assert (day.mowing_s, day.driving_s, day.observed_s) == (60, 40, 100)


async def days_travel_in_the_journal_and_are_told(open_store: Open) -> None:
    heard: list[RecordRow] = []
    async with open_store("a") as store:
        await settle(store)
        store.records.subscribe(lambda _account, rows: heard.extend(row for row in rows if row.kind == HEALTH_DAY.name))
        await record(store, *(state_at(n * 10) for n in range(62)))
        assert [HEALTH_DAY.read(row).mowing_s for row in heard] == [300, 600]  # type: ignore[union-attr]
        sent = [item.row for item in await journal(store) if isinstance(item.row, RecordRow)]
        sent = [row for row in sent if row.kind == HEALTH_DAY.name]
        assert sent == heard[1:], "the newest version only"
        assert sent[0].at == at(-8 * 3_600)
        await store.purge_mower(MOWER)
        await store.put_directory([directory_entry()])
        await record(store, state_at(10_000), state_at(10_300), state_at(10_310))
        assert [day.mowing_s for day in (await days(store)).values()] == [120]


HEALTH: tuple[Check, ...] = (
    days_do_not_depend_on_how_states_come,
    a_state_that_takes_the_place_of_another_of_its_instant_counts_from_there,
    days_travel_in_the_journal_and_are_told,
)
