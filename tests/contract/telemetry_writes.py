"""The write rules, one by one, and results of commands."""

from __future__ import annotations

import asyncio
import random
from datetime import datetime
from typing import Any

from core.domain.commands import CommandStatus
from core.domain.mower import (
    Activity,
    BladeHeight,
    Connectivity,
    MowerError,
    MowerState,
    Position,
    RtkFix,
    RtkSource,
    Signals,
)
from core.storage.telemetry_store import Written
from core.telemetry.rows import HistoryRow, PositionRow
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


async def first_state_makes_every_row(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        assert made(await record(store, state_at(0))) == [(True, True, True)]
        latest = await store.latest(HOME, MOWER)
        assert latest is not None
        assert (latest.state, latest.received_at) == (state_at(0), at(0))
        assert await histories(store) == [
            HistoryRow(
                mower_id=MOWER,
                observed_at=at(0),
                activity=Activity.MOWING,
                connectivity=Connectivity.ONLINE,
                battery_percent=80,
                is_charging=False,
                rtk_fix=RtkFix.FIXED,
                rtk_source=RtkSource.BASE,
                blades_on=True,
                speed_mps=0.35,
            )
        ]
        assert await track(store) == [
            PositionRow(
                mower_id=MOWER,
                observed_at=at(0),
                lat=48.0,
                lon=11.0,
                heading_deg=90.0,
                accuracy_m=0.014,
                rtk_fix=RtkFix.FIXED,
                rtk_source=RtkSource.BASE,
                blades_on=True,
                wifi_dbm=-60,
                satellites=25,
            )
        ]


async def bare_state_makes_no_track(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        written = await record(store, MowerState(observed_at=at(0)), state_at(1, position=Position(x_m=1.0, y_m=2.0)))
        assert made(written) == [(True, True, False), (True, True, False)]
        assert (await histories(store))[0].activity is Activity.UNKNOWN


async def unchanged_state_touches_only_latest_until_the_heartbeat(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        written = await record(store, *(state_at(seconds) for seconds in (0, 10, 299.9, 300, 310, 599, 600)))
        rows = (True, True, True)
        only_latest = (True, False, False)
        assert made(written) == [rows, only_latest, only_latest, rows, only_latest, only_latest, rows]
        latest = await store.latest(HOME, MOWER)
        assert latest is not None
        assert latest.state.observed_at == at(600)


async def every_fingerprinted_field_makes_a_history_row(open_store: Open) -> None:
    changes: list[dict[str, Any]] = [
        {"activity": Activity.RETURNING},
        {"battery_percent": 79},
        {"battery_percent": None},
        {"is_charging": True},
        {"is_charging": None},
        {"rtk_fix": RtkFix.FLOAT},
        {"rtk_source": RtkSource.NETWORK},
        {"connectivity": Connectivity.OFFLINE},
        {"blade_height": BladeHeight(value=40.0)},
        {"blade_height": BladeHeight(value=45.0)},
        {"blade_height": BladeHeight(value=45.0, unit="percent")},
        {"blades_on": False},
        {"speed_mps": 0.5},
        {"speed_mps": None},
        {"error": MowerError(code="E1")},
        {"error": MowerError(code="E2")},
    ]
    async with open_store("a") as store:
        await settle(store)
        await record(store, state_at(0))
        for index, change in enumerate(changes, 1):
            (written,) = await record(store, state_at(index, **change))
            assert written.history, change
        assert len(await histories(store)) == 1 + len(changes)


async def fields_beside_the_fingerprint_make_none(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        written = await record(
            store,
            state_at(0),
            state_at(1, satellites=9, signals=Signals(wifi_dbm=-90), progress_percent=12.0, current_area="lawn"),
            state_at(2, speed_mps=0.41, raw={"word": "x"}, firmware="2"),
            state_at(3, speed_mps=0.27),
        )
        assert [w.history for w in written] == [True, False, False, False]


async def noise_of_speed_cannot_flap_at_a_border(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        rng = random.Random(1)
        states = [state_at(n, speed_mps=0.35 + rng.uniform(-0.04, 0.04)) for n in range(100)]
        written = await record(store, *states)
        assert sum(w.history for w in written) == 1
        (written_again,) = await record(store, state_at(200, speed_mps=0.0))
        assert written_again.history


async def track_follows_steps_fix_and_standing_time(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        cases = [
            (state_at(0), True),
            (state_at(1), False),  # the same place
            (state_at(2, east=1), False),  # 7 mm at 48 degrees north
            (state_at(3, east=2), True),  # 15 mm from the last stored row, though 7 mm from the last state
            (state_at(4, east=2, north=1), True),  # 11 mm
            (state_at(5, east=2, north=1, rtk_fix=RtkFix.FLOAT), True),
            (state_at(6, east=2, north=1, rtk_fix=RtkFix.FLOAT), False),
            (state_at(304, east=2, north=1, rtk_fix=RtkFix.FLOAT), False),
            (state_at(305, east=2, north=1, rtk_fix=RtkFix.FLOAT), True),  # 300 s after the last row
            (state_at(306, east=2, north=1, rtk_fix=RtkFix.FLOAT, position=None), False),
        ]
        written = await record(store, *(state for state, _ in cases))
        assert [w.position for w in written] == [expected for _, expected in cases]
        assert [row.observed_at for row in await track(store)] == [s.observed_at for s, expected in cases if expected]


async def older_state_goes_to_history_and_track_but_not_to_latest(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        late = state_at(50, battery_percent=85, north=7)
        await record(store, state_at(100))
        (written,) = await record(store, late)
        assert (written.latest, written.history, written.position, written.skipped) == (False, True, True, "older")
        (again,) = await record(store, late)
        assert (again.latest, again.history, again.position) == (False, False, False)
        latest = await store.latest(HOME, MOWER)
        assert latest is not None
        assert latest.state == state_at(100)
        assert [row.observed_at for row in await histories(store)] == [at(50), at(100)]
        assert [row.observed_at for row in await track(store)] == [at(50), at(100)]
        (following,) = await record(store, state_at(110))
        assert not following.history, "a late state must not change what the next one is compared with"


async def redelivery_changes_nothing(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        await record(store, state_at(0), state_at(1, north=50))
        before = (await store.counts(), await store.latest(HOME, MOWER))
        (written,) = await store.record_states([(MOWER, HOME, state_at(1, north=50))], received_at=at(60))
        assert (written.latest, written.history, written.position) == (False, False, False)
        assert written.skipped == "duplicate"
        assert (await store.counts(), await store.latest(HOME, MOWER)) == before


async def another_state_of_the_same_instant_replaces_latest(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        await record(store, state_at(0), state_at(0, battery_percent=10))
        latest = await store.latest(HOME, MOWER)
        assert latest is not None
        assert latest.state.battery_percent == 10
        assert [row.battery_percent for row in await histories(store)] == [80], "the key is taken: do nothing"
        (following,) = await record(store, state_at(1, battery_percent=10))
        assert following.history, "the change has not been written yet"


async def only_latest_writes_no_rows(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        await store.record_states([(MOWER, HOME, state_at(5))], received_at=at(5), latest_only=True)
        written = await store.record_states(
            [(MOWER, HOME, state_at(4)), (MOWER, HOME, state_at(6))], received_at=at(6), latest_only=True
        )
        assert [w.skipped for w in written] == ["older", None]
        assert await histories(store) == []
        assert await track(store) == []
        latest = await store.latest(HOME, MOWER)
        assert latest is not None
        assert latest.state.observed_at == at(6)


async def foreign_and_unknown_mowers_are_dropped(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        written = await store.record_states(
            [(MOWER, OTHER, state_at(0)), (STRANGER, HOME, state_at(0)), (MOWER, HOME, state_at(1))], received_at=at(1)
        )
        assert [w.skipped for w in written] == ["foreign-account", "unknown-mower", None]
        assert await store.latest(OTHER, MOWER) is None
        assert await store.latest(HOME, STRANGER) is None
        assert len(await histories(store)) == 1


async def implausible_dates_are_refused(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        dates = [at(-60 * 86_400 * 365), at(601), datetime(2026, 6, 1, 8, 0)]
        for date in dates:
            (written,) = await store.record_states([(MOWER, HOME, state_at(0, observed_at=date))], received_at=at(0))
            assert written.skipped == "implausible:observed_at"
        assert await store.latest(HOME, MOWER) is None
        assert (await store.counts())["mower_history"] == 0
        (written,) = await store.record_states([(MOWER, HOME, state_at(600))], received_at=at(0))
        assert written.latest


async def implausible_parts_are_left_out(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        await record(store, state_at(0))
        (written,) = await record(store, state_at(1, battery_percent=101, position=Position(lat=0.0, lon=0.0)))
        assert written.dropped == ("battery_percent", "position:null-island")
        assert (written.latest, written.history, written.position) == (True, True, False)
        latest = await store.latest(HOME, MOWER)
        assert latest is not None
        assert latest.state.battery_percent is None
        assert latest.state.satellites == 25
        half_a_kilometre = 45_000
        jumps = await record(store, *(state_at(n, north=half_a_kilometre) for n in (2, 3, 60, 120, 121)))
        assert [w.position for w in jumps] == [False, False, False, True, False], "believed once it could be true"
        assert len(await track(store)) == 2


async def a_batch_is_worth_the_same_as_its_states_one_by_one(open_store: Open) -> None:
    rng = random.Random(7)
    states = [
        (
            rng.choice([MOWER, SECOND]),
            state_at(
                rng.choice([n, n, n, rng.randrange(200)]),
                north=rng.choice([0, 0, 1, 5, n]),
                battery_percent=rng.choice([80, 80, 79]),
                rtk_fix=rng.choice([RtkFix.FIXED, RtkFix.FIXED, RtkFix.FLOAT]),
            ),
        )
        for n in range(200)
    ]
    async with open_store("a") as one, open_store("b") as many:
        for store in (one, many):
            await settle(store)
        singly = [
            written
            for mower, state in states
            for written in await one.record_states([(mower, HOME, state)], received_at=at(300))
        ]
        grouped = await many.record_states([(mower, HOME, state) for mower, state in states], received_at=at(300))
        assert list(grouped) == singly
        for mower in (MOWER, SECOND):
            assert await histories(one, mower) == await histories(many, mower)
            assert await track(one, mower) == await track(many, mower)
            assert await one.latest(HOME, mower) == await many.latest(HOME, mower)


async def racing_writers_agree_on_the_newest(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        rng = random.Random(3)
        order = [n for n in range(120) for _ in range(2)]
        rng.shuffle(order)

        async def write(numbers: list[int]) -> list[Written]:
            return [
                written
                for n in numbers
                for written in await store.record_states(
                    [(MOWER, HOME, state_at(n, north=n * 2, battery_percent=n % 100))], received_at=at(200)
                )
            ]

        written = await asyncio.gather(*(write(order[worker::6]) for worker in range(6)))
        latest = await store.latest(HOME, MOWER)
        assert latest is not None
        assert latest.state.observed_at == at(119)
        assert [row.observed_at for row in await histories(store)] == [at(n) for n in range(120)]
        assert [row.observed_at for row in await track(store)] == [at(n) for n in range(120)]
        assert sum(w.history for part in written for w in part) == 120, "each row is claimed by one writer"


async def memory_of_a_mower_survives_a_restart(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        await record(store, state_at(0), state_at(1, north=10, error=MowerError(code="E1")))
    async with open_store("a") as store:
        assert await store.directory() == [directory_entry(MOWER), directory_entry(SECOND)]
        written = await record(
            store,
            state_at(1, north=10, error=MowerError(code="E1")),
            state_at(2, north=10, error=MowerError(code="E1")),
            state_at(3, north=90_000, error=MowerError(code="E1")),
        )
        assert made(written) == [(False, False, False), (True, False, False), (True, False, False)]
        assert written[2].dropped == ("position:jump",)


async def results_are_kept_once(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        rows = [result_at(0, "c1", CommandStatus.ACCEPTED), result_at(2, "c1", CommandStatus.EXECUTED)]
        assert await store.record_results(rows) == 2
        assert await store.record_results([*rows, result_at(9, "c1", CommandStatus.EXECUTED)]) == 0
        found, page = await store.timeline(HOME, MOWER, *EVER, limit=10)
        assert list(found) == rows
        assert not page.is_truncated


WRITES: tuple[Check, ...] = (
    first_state_makes_every_row,
    bare_state_makes_no_track,
    unchanged_state_touches_only_latest_until_the_heartbeat,
    every_fingerprinted_field_makes_a_history_row,
    fields_beside_the_fingerprint_make_none,
    noise_of_speed_cannot_flap_at_a_border,
    track_follows_steps_fix_and_standing_time,
    older_state_goes_to_history_and_track_but_not_to_latest,
    redelivery_changes_nothing,
    another_state_of_the_same_instant_replaces_latest,
    only_latest_writes_no_rows,
    foreign_and_unknown_mowers_are_dropped,
    implausible_dates_are_refused,
    implausible_parts_are_left_out,
    a_batch_is_worth_the_same_as_its_states_one_by_one,
    racing_writers_agree_on_the_newest,
    memory_of_a_mower_survives_a_restart,
    results_are_kept_once,
)
