from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from core.domain import commands
from core.domain.drive import DriveFrame
from core.domain.errors import EntryError, NotReadyError
from core.domain.events import ErrorRaised, MowingStarted
from core.domain.ids import EntryId
from core.domain.mower import Activity
from core.platform.integration import Entry, key_of
from integrations.simulator import create
from integrations.simulator.integration import Simulator
from integrations.simulator.wire import Fault
from tests.contract.integration_contract import Running, open_context, run_link
from tests.fakes.clock import START, ManualClock

SOON_S = 5.0


def entry(entry_id="e1", **data):
    return Entry(entry_id=EntryId(entry_id), domain="simulator", unique_id=None, title="Lawn", data=data)


@asynccontextmanager
async def simulator(clock: ManualClock, **data: object) -> AsyncIterator[Simulator]:
    async with open_context() as context:
        made = create(replace(context, clock=clock), entry(seed=1, report_interval_s=0.05, **data))
        assert isinstance(made, Simulator)
        yield made
        await made.close()


@asynccontextmanager
async def running(clock: ManualClock, **data: object) -> AsyncIterator[Running]:
    async with simulator(clock, **data) as made, run_link(made, (await made.mowers())[0]) as link:
        yield link


async def is_now(link: Running, activity: Activity) -> None:
    await link.until(lambda s: s.activity is activity, SOON_S, activity)


@pytest.mark.parametrize(("scale", "seconds"), [(1.0, 15), (30.0, 1)])
async def test_it_mows_soon_after_it_was_told(scale, seconds):
    clock = ManualClock()
    async with running(clock, time_scale=scale) as link:
        assert (await link.link.send(commands.StartMow(area_ids=("front",)))).kind == "accepted"
        clock.advance(0.1)
        await is_now(link, Activity.LEAVING)
        clock.advance(seconds)
        await is_now(link, Activity.MOWING)
        assert link.latest.current_area == "front"
        assert [type(e) for e in link.events] == [MowingStarted]


async def test_its_time_is_the_clocks_times_the_scale():
    clock = ManualClock()
    async with running(clock, time_scale=60.0) as link:
        await link.link.send(commands.StartMow(area_ids=("back",)))
        clock.advance(20)
        state = await link.until(lambda s: (s.totals and s.totals.mowing_s) == 19 * 60, SOON_S, "twenty minutes")
        assert state.observed_at == clock.now()


async def test_after_a_long_sleep_of_the_box_only_a_little_is_made_up_for():
    clock = ManualClock()
    async with running(clock) as link:
        await link.link.send(commands.StartMow(area_ids=("back",)))
        clock.advance(0.5)
        await is_now(link, Activity.LEAVING)
        clock.advance(100_000)
        state = await link.until(lambda s: s.activity is Activity.MOWING, SOON_S, "mowing")
        assert state.totals is not None
        assert (state.totals.distance_m or 0) < 20


async def test_states_come_at_their_interval_and_only_when_something_changed():
    clock = ManualClock()
    async with running(clock) as link:
        await link.watch(0.3)
        assert len(link.states) == 1, "a docked mower has nothing new to say"
        await link.link.send(commands.SetBladeHeight(height_mm=70))
        await link.watch(0.2)
        assert len(link.states) == 1, "the clock stands: the interval is not over"
        clock.advance(0.1)
        await link.until(lambda s: s.blade_height is not None and s.blade_height.value == 70, SOON_S, "the height")
        assert len(link.states) == 2


async def test_an_emergency_stop_does_not_wait_for_the_next_tick():
    clock = ManualClock()
    async with simulator(clock, time_scale=10.0) as made:
        mower = (await made.mowers())[0]
        async with run_link(made, mower) as link:
            await link.link.send(commands.StartMow())
            clock.advance(10)
            await is_now(link, Activity.MOWING)
            machine = made._plots[key_of(mower)].machine
            await link.link.send(commands.EmergencyStop())
            reading = machine.read()
            assert (reading.speed_mps, reading.blades_on) == (0, False)
            clock.advance(1)
            await is_now(link, Activity.PAUSED)


async def test_a_fault_is_told_at_once_and_its_date_does_not_wander():
    clock = ManualClock()
    async with simulator(clock, time_scale=10.0) as made:
        mower = (await made.mowers())[0]
        machine = made._plots[key_of(mower)].machine
        async with run_link(made, mower) as link:
            await link.link.send(commands.StartMow())
            clock.advance(10)
            await is_now(link, Activity.MOWING)
            machine.fail(Fault.STUCK)
            clock.advance(5)
            await is_now(link, Activity.ERROR)
            assert isinstance(link.events[-1], ErrorRaised)
            assert link.latest.error is not None
            since = link.latest.error.since
            assert since == clock.now() - timedelta(seconds=5)
            clock.advance(50)
            await link.link.send(commands.SetBladeHeight(height_mm=55))
            await link.until(lambda s: s.blade_height is not None and s.blade_height.value == 55, SOON_S, "height")
            assert link.latest.error.since == since
            refused = await link.link.send(commands.StartMow())
            assert refused.kind == "refused"
        async with run_link(made, mower) as again:
            assert again.latest.error is not None
            assert again.latest.error.since == since


async def test_driving_by_hand_ends_with_its_frames():
    clock = ManualClock()
    async with running(clock) as link:
        await link.link.send(commands.ManualDrive())
        clock.advance(0.1)
        await is_now(link, Activity.MANUAL)
        await link.link.drive(DriveFrame(sequence=1, linear=-1.0, angular=0.0, ttl_ms=60_000))
        clock.advance(0.5)
        await link.until(lambda s: s.speed_mps == 0.5, SOON_S, "driving")
        clock.advance(3)
        await link.until(lambda s: s.speed_mps == 0, SOON_S, "standing")
        assert link.latest.totals is not None
        assert link.latest.totals.distance_m == 0, "a frame holds for the motor's timeout at most: half a metre"


async def test_the_end_of_the_link_lets_go_of_the_wheels():
    clock = ManualClock()
    async with simulator(clock) as made:
        mower = (await made.mowers())[0]
        async with run_link(made, mower) as link:
            await link.link.send(commands.ManualDrive())
            await link.link.drive(DriveFrame(sequence=1, linear=-1.0, angular=0.0, ttl_ms=900))
        clock.advance(5)
        async with run_link(made, mower) as again:
            assert again.latest.activity is Activity.IDLE
            assert again.latest.speed_mps == 0


async def test_one_link_holds_the_machine():
    clock = ManualClock()
    async with simulator(clock) as made:
        mower = (await made.mowers())[0]
        async with run_link(made, mower):
            second = await made.open(key_of(mower), mower.links[0])
            with pytest.raises(NotReadyError):
                await second.run(lambda _: None)
        async with run_link(made, mower) as third:
            assert third.latest.activity is Activity.DOCKED


NINE = commands.SetSchedule(windows=(commands.ScheduleWindow(weekday=0, start_minute=8 * 60 + 1, end_minute=600),))


@pytest.mark.parametrize("follows", [True, False])
async def test_the_schedule_starts_it_only_when_it_is_followed(follows):
    clock = ManualClock()
    assert START.weekday() == 0
    async with running(clock, follow_schedule=follows) as link:
        await link.link.send(NINE)
        clock.advance(1)
        state = await link.until(lambda s: s.next_start_at is not None, SOON_S, "next start")
        assert state.next_start_at == START + timedelta(minutes=1)
        clock.advance(62)
        state = await link.until(
            lambda s: s.next_start_at == START + timedelta(days=7, minutes=1), SOON_S, "the next week"
        )
        assert (state.activity is Activity.DOCKED) is not follows
        assert state.is_override is (False if follows else None)


async def test_a_clock_that_jumps_over_the_start_starts_nothing():
    clock = ManualClock()
    async with running(clock, follow_schedule=True) as link:
        await link.link.send(NINE)
        clock.advance(1)
        await link.until(lambda s: s.next_start_at is not None, SOON_S, "next start")
        clock.jump(3600)
        clock.advance(1)
        await link.until(lambda s: s.next_start_at != START + timedelta(minutes=1), SOON_S, "the next week")
        assert link.latest.activity is Activity.DOCKED


async def test_skip_next_skips_one_start():
    clock = ManualClock()
    async with running(clock, follow_schedule=True) as link:
        assert (await link.link.send(commands.SkipNext())).reason == "nothing is planned"
        await link.link.send(NINE)
        await link.link.send(commands.SkipNext())
        clock.advance(1)
        await link.until(lambda s: s.next_start_at == START + timedelta(days=7, minutes=1), SOON_S, "a week later")
        clock.advance(60)
        await link.link.send(commands.SetBladeHeight(height_mm=33))
        await link.until(lambda s: s.blade_height is not None and s.blade_height.value == 33, SOON_S, "height")
        assert link.latest.activity is Activity.DOCKED
        assert link.latest.next_start_at == START + timedelta(days=7, minutes=1)


async def test_several_mowers_and_serials_that_last():
    async with open_context() as context:
        three = await create(context, entry(seed=9, mowers=3, name="Park")).mowers()
        assert [m.serial for m in three] == ["SIM-000009-01", "SIM-000009-02", "SIM-000009-03"]
        assert [m.name for m in three] == ["Park 1", "Park 2", "Park 3"]
        unseeded = [(await create(context, entry(name)).mowers())[0].serial for name in ("e1", "e1", "e2")]
        assert unseeded[0] == unseeded[1] != unseeded[2]


@pytest.mark.parametrize(
    "data",
    [{"time_scale": 0}, {"mowers": 11}, {"seed": True}, {"surprise": 1}, {"time_zone": "Mars/Base"}, {"origin": {}}],
)
async def test_wrong_settings_are_an_entry_error(data):
    async with open_context() as context:
        with pytest.raises(EntryError):
            create(context, entry(**data))
