"""Mowing sessions: cut with the states, in their transaction, and recorded now and then (the box)."""

from __future__ import annotations

from core.domain.mower import Activity, MowerState
from core.telemetry.rows import RecordRow
from core.telemetry.session import SESSION, EndedBy, Session
from tests.contract.telemetry_parts import (
    EVER,
    HOME,
    MOWER,
    Check,
    Open,
    RecordingStore,
    at,
    journal,
    record,
    settle,
    state_at,
)


async def sessions(store: RecordingStore) -> list[Session]:
    rows, _ = await store.records.list_kind(HOME, MOWER, SESSION.name, *EVER, limit=1_000)
    return [session for row in rows if (session := SESSION.read(row)) is not None]


def garden_day() -> list[MowerState]:
    """Out at 60, a charge from 1000 to 3000, done at 4000."""
    states = [state_at(0, activity=Activity.DOCKED, blades_on=False)]
    for second in range(60, 4_300, 20):
        is_charge, is_done = 1_000 <= second < 3_000, second >= 4_000
        states.append(
            state_at(
                second,
                north=second * 20 if not (is_charge or is_done) else 0,
                activity=Activity.CHARGING if is_charge or is_done else Activity.MOWING,
                battery_percent=20 if second < 3_000 else 70,
                is_charging=is_charge or is_done,
                restricted_reason="charging" if is_charge else None,
            )
        )
    return states


async def sessions_do_not_depend_on_how_states_come(open_store: Open) -> None:
    """One by one, in one group, twice, with late ones between, and with a restart in the middle of the job."""
    states = garden_day()
    async with open_store("a") as store:
        await settle(store)
        await record(store, *states)
        expected = await sessions(store)
    (job,) = expected
    assert (job.started_at, job.ended_at, job.ended_by) == (at(60), at(4_000), EndedBy.DOCKED)
    assert (job.is_start_known, job.charges, job.charging_s, job.mowing_s) == (True, 1, 2_000, 1_940)
    async with open_store("b") as store:
        await settle(store)
        await store.record_states([(MOWER, HOME, state) for state in states], received_at=at(4_300))
        assert await sessions(store) == expected
    async with open_store("c") as store:
        await settle(store)
    for first in range(0, len(states), 37):
        async with open_store("c") as store:
            await record(store, *states[first : first + 37], *states[: first + 5 : 11])
            await record(store, state_at(first * 20 - 3, activity=Activity.ERROR))
    async with open_store("c") as store:
        assert await sessions(store) == expected


async def sessions_travel_in_the_journal_and_are_told(open_store: Open) -> None:
    heard: list[RecordRow] = []
    async with open_store("a") as store:
        await settle(store)
        store.records.subscribe(lambda _account, rows: heard.extend(row for row in rows if row.kind == SESSION.name))
        await record(store, *garden_day())
        assert 5 < len(heard) < 20, "begun, now and then, and ended"
        sent = [item.row for item in await journal(store) if isinstance(item.row, RecordRow)]
        assert [row for row in sent if row.kind == SESSION.name] == heard[-1:], "the newest version only"


SESSIONS: tuple[Check, ...] = (
    sessions_do_not_depend_on_how_states_come,
    sessions_travel_in_the_journal_and_are_told,
)
