"""What every TelemetryStore must do, as functions of a way to open one. Parametrise a test over `COMMON`, and over
`BOX` or `RELAY` for stores that have that side.

`open_store(name)` opens the store of that name, empty at first; opened again it has what was written before.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from core.domain import limits
from core.domain.commands import CommandResult, CommandStatus
from core.domain.errors import ConflictError, TooManyBinsError
from core.domain.ids import AccountId, CommandId, EdgeId, MowerId, StreamId
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
from core.storage.telemetry_store import DirectoryEntry, TelemetryStore, Written
from core.sync.messages import RejectedRow
from core.telemetry.binning import bin_history
from core.telemetry.rows import HistoryRow, PositionRow, SequencedRow, TimelineRow
from tests.fakes.clock import START

Open = Callable[[str], AbstractAsyncContextManager[TelemetryStore]]
Check = Callable[[Open], Awaitable[None]]

HOME, OTHER = AccountId("home"), AccountId("other")
EDGE, STREAM = EdgeId("edge"), StreamId("stream")
MOWER, SECOND, STRANGER = MowerId("mower"), MowerId("second"), MowerId("stranger")
EVER = (START - timedelta(days=4_000), START + timedelta(days=4_000))

COMMON: list[Check] = []
BOX: list[Check] = []
RELAY: list[Check] = []


def common(check: Check) -> Check:
    COMMON.append(check)
    return check


def box(check: Check) -> Check:
    BOX.append(check)
    return check


def relay(check: Check) -> Check:
    RELAY.append(check)
    return check


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def state_at(seconds: float, *, north: float = 0.0, east: float = 0.0, **changes: Any) -> MowerState:
    """A mowing mower `north` and `east` whole 1e-7 degrees away from its dock."""
    fields: dict[str, Any] = {
        "observed_at": at(seconds),
        "activity": Activity.MOWING,
        "connectivity": Connectivity.ONLINE,
        "battery_percent": 80,
        "is_charging": False,
        "position": Position(lat=48.0 + north / 1e7, lon=11.0 + east / 1e7, heading_deg=90.0, accuracy_m=0.014),
        "rtk_fix": RtkFix.FIXED,
        "rtk_source": RtkSource.BASE,
        "satellites": 25,
        "speed_mps": 0.35,
        "blades_on": True,
        "signals": Signals(wifi_dbm=-60),
    }
    return MowerState(**(fields | changes))


def result_at(seconds: float, command: str, status: CommandStatus, mower: MowerId = MOWER) -> TimelineRow:
    return TimelineRow(
        result=CommandResult(command_id=CommandId(command), mower_id=mower, status=status, at=at(seconds))
    )


def directory_entry(
    mower: MowerId = MOWER, account: AccountId = HOME, edge: EdgeId | None = EDGE, *, is_seed: bool = False
) -> DirectoryEntry:
    return DirectoryEntry(mower_id=mower, account_id=account, edge_id=edge, name=f"{mower}'s name", is_seed=is_seed)


async def settle(store: TelemetryStore) -> None:
    """The directory that most checks start from."""
    await store.put_directory([directory_entry(MOWER), directory_entry(SECOND)])


async def record(store: TelemetryStore, *states: MowerState, mower: MowerId = MOWER) -> list[Written]:
    """Each state in a call of its own, received when it was observed."""
    return [
        written
        for state in states
        for written in await store.record_states([(mower, HOME, state)], received_at=state.observed_at)
    ]


def made(written: Sequence[Written]) -> list[tuple[bool, bool, bool]]:
    return [(w.latest, w.history, w.position) for w in written]


async def histories(store: TelemetryStore, mower: MowerId = MOWER, account: AccountId = HOME) -> list[HistoryRow]:
    return list((await store.history(account, mower, *EVER, limit=100_000))[0])


async def track(store: TelemetryStore, mower: MowerId = MOWER, account: AccountId = HOME) -> list[PositionRow]:
    return list((await store.positions(account, mower, *EVER, limit=100_000))[0])


# -- write rules


@common
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


@common
async def bare_state_makes_no_track(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        written = await record(store, MowerState(observed_at=at(0)), state_at(1, position=Position(x_m=1.0, y_m=2.0)))
        assert made(written) == [(True, True, False), (True, True, False)]
        assert (await histories(store))[0].activity is Activity.UNKNOWN


@common
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


@common
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


@common
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


@common
async def noise_of_speed_cannot_flap_at_a_border(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        rng = random.Random(1)
        states = [state_at(n, speed_mps=0.35 + rng.uniform(-0.04, 0.04)) for n in range(100)]
        written = await record(store, *states)
        assert sum(w.history for w in written) == 1
        (written_again,) = await record(store, state_at(200, speed_mps=0.0))
        assert written_again.history


@common
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


@common
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


@common
async def redelivery_changes_nothing(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        await record(store, state_at(0), state_at(1, north=50))
        before = (await store.counts(), await store.latest(HOME, MOWER))
        (written,) = await store.record_states([(MOWER, HOME, state_at(1, north=50))], received_at=at(60))
        assert (written.latest, written.history, written.position) == (False, False, False)
        assert written.skipped == "duplicate"
        assert (await store.counts(), await store.latest(HOME, MOWER)) == before


@common
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


@common
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


@common
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


@common
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


@common
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


@common
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


@common
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


@common
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


# -- results


@common
async def results_are_kept_once(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        rows = [result_at(0, "c1", CommandStatus.ACCEPTED), result_at(2, "c1", CommandStatus.EXECUTED)]
        assert await store.record_results(rows) == 2
        assert await store.record_results([*rows, result_at(9, "c1", CommandStatus.EXECUTED)]) == 0
        found, page = await store.timeline(HOME, MOWER, *EVER, limit=10)
        assert list(found) == rows
        assert not page.is_truncated


# -- reads


@common
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


@common
async def latest_of_keeps_the_order_and_leaves_out_the_silent(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        await record(store, state_at(0))
        await record(store, state_at(1), mower=SECOND)
        found = await store.latest_of(HOME, [SECOND, STRANGER, MOWER])
        assert [entry.mower_id for entry in found] == [SECOND, MOWER]
        assert list(await store.latest_of(HOME, [])) == []


@common
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


@common
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


@common
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


@common
async def too_many_bins_name_the_step_that_fits(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        with pytest.raises(TooManyBinsError) as caught:
            await store.history_bins(HOME, MOWER, at(0), at(31 * 86_400), step_s=5)
        assert caught.value.fitting_step == "15m"


# -- care


@common
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


@common
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


@common
async def a_mower_that_comes_back_after_a_purge_begins_anew(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        for mower in (MOWER, SECOND):
            await record(store, state_at(0), mower=mower)
        for mower in (SECOND, MOWER):
            await store.purge_mower(mower)
            await store.put_directory([directory_entry(mower)])
            assert made(await record(store, state_at(0), mower=mower)) == [(True, True, True)]


@common
async def registrations_win_over_seeds(open_store: Open) -> None:
    async with open_store("a") as store:
        seed = directory_entry(MOWER, OTHER, is_seed=True)
        await store.put_directory([seed])
        assert list(await store.directory()) == [seed]
        await store.put_directory([directory_entry(MOWER, HOME)])
        await store.put_directory([seed])
        assert list(await store.directory()) == [directory_entry(MOWER, HOME)]


# -- the box's journal


async def journal(store: TelemetryStore, after: int = 0, limit: int = 1_000) -> list[SequencedRow]:
    """All rows after a number, slice by slice; the slices join without a gap."""
    rows: list[SequencedRow] = []
    while True:
        part = await store.read_journal(after, limit)
        assert part.first_seq == after + 1
        assert len(part.rows) <= limit
        assert all(part.first_seq <= row.seq <= part.last_seq for row in part.rows)
        rows += part.rows
        if part.last_seq <= after:
            return rows
        after = part.last_seq


@box
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


@box
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
        assert len(whole) == counts["mower_history"] + counts["mower_positions"]
        assert [row.seq for row in whole] == list(range(1, len(whole) + 1))
        for mower in (MOWER, SECOND):
            mine = [row.row for row in whole if row.row.mower_id == mower]
            by_time = sorted((r for r in mine if isinstance(r, PositionRow)), key=lambda r: r.observed_at)
            assert by_time == await track(store, mower)
        for limit in (1, 7, 1_000):
            assert await journal(store, limit=limit) == whole


@box
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


@box
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


@box
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


@box
async def results_for_mowers_not_in_the_directory_still_reach_the_journal(open_store: Open) -> None:
    async with open_store("a") as store:
        row = result_at(0, "c1", CommandStatus.REJECTED, STRANGER)
        assert await store.record_results([row]) == 1
        assert [item.row for item in await journal(store)] == [row]
        await store.put_directory([directory_entry(STRANGER)])
        assert list((await store.timeline(HOME, STRANGER, *EVER, limit=9))[0]) == [row]


@box
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


# -- the relay's side


def numbered(*rows: Any, first: int = 1) -> list[SequencedRow]:
    return [SequencedRow(seq=seq, row=row) for seq, row in enumerate(rows, first)]


def history_at(seconds: float, mower: MowerId = MOWER, **changes: Any) -> HistoryRow:
    row = HistoryRow(
        mower_id=mower, observed_at=at(seconds), activity=Activity.MOWING, connectivity=Connectivity.ONLINE
    )
    return msgspec.structs.replace(row, **changes)


def position_at(seconds: float, mower: MowerId = MOWER, **changes: Any) -> PositionRow:
    return msgspec.structs.replace(PositionRow(mower_id=mower, observed_at=at(seconds), lat=48.0, lon=11.0), **changes)


@relay
async def ingest_stores_rows_and_watermark(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        assert await store.watermark(EDGE, STREAM) is None
        rows = numbered(history_at(0), position_at(0), result_at(1, "c1", CommandStatus.EXECUTED))
        done = await store.ingest(EDGE, HOME, STREAM, rows, last_seq=5, received_at=at(9))
        assert (done.acked_seq, done.stored, done.duplicates, done.rejected) == (5, 3, 0, ())
        assert await histories(store) == [history_at(0)]
        assert await track(store) == [position_at(0)]
        assert list((await store.timeline(HOME, MOWER, *EVER, limit=9))[0]) == [rows[2].row]
        assert await store.latest(HOME, MOWER) is None, "rows never touch latest"
    async with open_store("a") as store:
        assert await store.watermark(EDGE, STREAM) == 5
        assert await store.watermark(EdgeId("another"), STREAM) is None


@relay
async def ingest_again_and_overlapping_doubles_nothing(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        rows = numbered(*(position_at(n) for n in range(10)))
        await store.ingest(EDGE, HOME, STREAM, rows[:6], last_seq=6, received_at=at(9))
        done = await store.ingest(EDGE, HOME, STREAM, rows[:6], last_seq=6, received_at=at(9))
        assert (done.acked_seq, done.stored, done.duplicates) == (6, 0, 6)
        done = await store.ingest(EDGE, HOME, STREAM, rows[3:], last_seq=10, received_at=at(9))
        assert (done.acked_seq, done.stored, done.duplicates) == (10, 4, 3)
        done = await store.ingest(EDGE, HOME, STREAM, rows[:2], last_seq=2, received_at=at(9))
        assert (done.acked_seq, done.stored, done.duplicates) == (10, 0, 2)
        assert await store.watermark(EDGE, STREAM) == 10
        done = await store.ingest(EDGE, HOME, StreamId("new"), rows, last_seq=10, received_at=at(9))
        assert (done.acked_seq, done.stored, done.duplicates) == (10, 0, 10)
        assert await track(store) == [row.row for row in rows]


@relay
async def racing_batches_are_stored_once(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        rows = numbered(*(position_at(n) for n in range(100)))
        answers = await asyncio.gather(
            *(
                store.ingest(EDGE, HOME, STREAM, rows[begin : begin + 50], last_seq=begin + 50, received_at=at(100))
                for begin in (0, 0, 10, 30, 50, 50)
            )
        )
        assert sum(answer.stored for answer in answers) == 100
        assert [answer.acked_seq for answer in answers] == [50, 50, 60, 80, 100, 100]
        assert len(await track(store)) == 100


@relay
async def poison_rows_are_quarantined_and_the_rest_is_stored(open_store: Open) -> None:
    foreign_edge, foreign_account = MowerId("of-another-box"), MowerId("of-another-account")
    bad = {
        2: (position_at(1, STRANGER), "unknown-mower"),
        3: (position_at(1, foreign_edge), "foreign-mower"),
        4: (history_at(1, foreign_account), "foreign-mower"),
        5: (position_at(601 + 9), "future"),
        6: (position_at(2, lat=float("nan")), "implausible:position"),
        7: (position_at(3, lat=0.0, lon=0.0), "implausible:position"),
        8: (history_at(4, battery_percent=101), "implausible:battery_percent"),
        9: (history_at(-60 * 365 * 86_400), "implausible:at"),
    }
    rows = [SequencedRow(seq=1, row=position_at(0)), SequencedRow(seq=10, row=history_at(5))]
    rows[1:1] = [SequencedRow(seq=seq, row=row) for seq, (row, _) in bad.items()]
    earlier = [(RejectedRow(seq=11, reason="malformed"), b"\xff not json")]
    async with open_store("a") as store:
        await settle(store)
        await store.put_directory(
            [directory_entry(foreign_edge, edge=EdgeId("another")), directory_entry(foreign_account, OTHER)]
        )
        for stored in (2, 0):
            done = await store.ingest(EDGE, HOME, STREAM, rows, last_seq=11, received_at=at(9), rejected=earlier)
            assert (done.acked_seq, done.stored) == (11, stored)
            if stored:
                found = {fault.seq: fault.reason for fault in done.rejected}
                assert found == {seq: reason for seq, (_, reason) in bad.items()} | {11: "malformed"}
            assert (await store.counts())["quarantine"] == len(bad) + 1
        assert await track(store) == [position_at(0)]
        assert await histories(store) == [history_at(5)]
        assert await track(store, foreign_account, OTHER) == []


@relay
async def streams_begin_where_told(open_store: Open) -> None:
    async with open_store("a") as store:
        assert await store.start_stream(EDGE, STREAM, 41) == 41
        assert await store.start_stream(EDGE, STREAM, 7) == 41
        assert await store.watermark(EDGE, STREAM) == 41


@relay
async def rows_stay_with_the_account_they_were_written_under(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        await store.ingest(EDGE, HOME, STREAM, numbered(position_at(0)), last_seq=1, received_at=at(9))
        await store.put_directory([directory_entry(MOWER, OTHER)])
        await store.ingest(EDGE, OTHER, STREAM, numbered(position_at(1), first=2), last_seq=2, received_at=at(9))
        assert [row.observed_at for row in await track(store, account=OTHER)] == [at(1)]
        assert [row.observed_at for row in await track(store, account=HOME)] == [at(0)]
