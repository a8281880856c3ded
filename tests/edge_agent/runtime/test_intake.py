"""The intake: coalescing, floods, connectivity, heartbeats and doubts."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import msgspec
import pytest

from core.domain import limits
from core.domain.errors import FloodError, LinkLostError
from core.domain.events import MowerEvent, VendorMessage
from core.domain.ids import EntryId, MowerId
from core.domain.mower import Activity, Connectivity, LinkKind, MowerState, Position, Signals
from edge_agent.runtime.intake import Intake
from edge_agent.runtime.lane import Lane, ReportRefusedError
from tests.edge_agent.runtime.plugin import state
from tests.fakes.clock import START, ManualClock

MOWER = MowerId("m")


class Bench:
    def __init__(self, last: MowerState | None = None) -> None:
        self.clock = ManualClock()
        self.states: list[MowerState] = []
        self.events: list[MowerEvent] = []
        self.intake = Intake(
            clock=self.clock,
            state_sinks=[lambda _, state: self.states.append(state)],
            event_sinks=[lambda _, event: self.events.append(event)],
        )
        self.intake.add(MOWER, last)

    def lane(self) -> Lane:
        return self.intake.open_lane(MOWER, LinkKind.LAN, EntryId("e"))

    def report(self, lane: Lane, activity: Activity, **fields: object) -> None:
        lane.report(state(activity, **{"observed_at": self.clock.now(), **fields}))

    def pass_time(self, seconds: float, step_s: float = 1.0) -> list[MowerState]:
        """Ticks once a second; the states of that time."""
        count = len(self.states)
        for _ in range(int(seconds / step_s)):
            self.clock.advance(step_s)
            self.intake.drain()
            self.intake.tick()
        return self.states[count:]


async def test_states_coalesce_and_events_do_not() -> None:
    bench = Bench()
    lane = bench.lane()
    for percent in range(10):
        lane.report(state(Activity.MOWING, battery_percent=percent))
        lane.report(VendorMessage(at=START, code=str(percent)))
    bench.intake.drain()
    assert [seen.battery_percent for seen in bench.states[1:]] == [9]
    assert [event.code for event in bench.events if isinstance(event, VendorMessage)] == [str(n) for n in range(10)]


async def test_the_pump_hands_on_without_being_told() -> None:
    bench = Bench()
    lane = bench.lane()
    async with asyncio.TaskGroup() as group:
        pump = group.create_task(bench.intake.run())
        bench.report(lane, Activity.MOWING)
        async with asyncio.timeout(2):
            while len(bench.states) < 2:
                await asyncio.sleep(0)
        pump.cancel()
    assert bench.states[-1].connectivity is Connectivity.ONLINE
    assert bench.states[-1].signals == Signals(active_link=LinkKind.LAN)


async def test_too_many_events_fail_the_link_and_none_is_dropped() -> None:
    bench = Bench()
    lane = bench.lane()
    for number in range(limits.EVENT_QUEUE):
        lane.report(VendorMessage(at=START, code=str(number)))
    with pytest.raises(FloodError):
        lane.report(VendorMessage(at=START, code="too much"))
    assert lane.failed.done()
    bench.intake.close_lane(lane)
    bench.intake.drain()
    assert len(bench.events) == limits.EVENT_QUEUE


async def test_a_flood_fails_the_link_even_if_it_swallows_the_error() -> None:
    bench = Bench()
    lane = bench.lane()
    for _ in range(limits.REPORTS_PER_S * 10):
        bench.report(lane, Activity.MOWING)
    with pytest.raises(FloodError):
        bench.report(lane, Activity.MOWING)
    assert lane.failed.done()
    bench.clock.advance(100)
    with pytest.raises(FloodError):
        bench.report(lane, Activity.MOWING)


async def test_a_steady_fifty_a_second_is_no_flood() -> None:
    bench = Bench()
    lane = bench.lane()
    for _ in range(3_000):
        bench.clock.advance(1 / limits.REPORTS_PER_S)
        bench.report(lane, Activity.MOWING)


@pytest.mark.parametrize(
    "rubbish",
    [
        None,
        7,
        {"activity": "mowing"},
        object(),
        MowerState,
        msgspec.structs.replace(state(), battery_percent="full"),
        msgspec.structs.replace(state(), observed_at=None),
        msgspec.structs.replace(state(), observed_at=START.replace(tzinfo=None)),
        msgspec.structs.replace(state(), position=(1, 2)),
        msgspec.structs.replace(state(), raw={"a": object()}),
        VendorMessage(at=None, code="x"),  # type: ignore[arg-type]
    ],
    ids=range(11),
)
async def test_rubbish_is_an_error_of_the_link(rubbish: object) -> None:
    bench = Bench()
    lane = bench.lane()
    with pytest.raises(ReportRefusedError):
        lane.report(rubbish)  # type: ignore[arg-type]
    assert lane.failed.done()


async def test_a_report_from_another_thread_is_refused() -> None:
    lane = Bench().lane()
    caught: list[BaseException] = []

    def work() -> None:
        try:
            lane.report(state())
        except ReportRefusedError as err:
            caught.append(err)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert caught
    assert lane.state is None


async def test_unchanged_states_are_repeated() -> None:
    bench = Bench()
    lane = bench.lane()
    bench.report(lane, Activity.MOWING)
    bench.intake.drain()
    repeated = bench.pass_time(60)
    assert len(repeated) == 6
    assert {seen.activity for seen in repeated} == {Activity.MOWING}
    assert repeated[-1].observed_at == bench.clock.now()


async def test_a_mower_out_of_reach_is_not_shown_mowing_for_long() -> None:
    bench = Bench()
    lane = bench.lane()
    bench.report(lane, Activity.MOWING, blades_on=True, speed_mps=0.4, position=Position(lat=50.0, lon=8.0))
    bench.intake.drain()
    bench.intake.close_lane(lane)
    first, second = bench.pass_time(600)
    assert (first.activity, first.connectivity, first.speed_mps) == (Activity.MOWING, Connectivity.OFFLINE, None)
    assert (second.activity, second.connectivity) == (Activity.UNKNOWN, Connectivity.OFFLINE)
    assert second.blades_on is None
    assert second.position == Position(lat=50.0, lon=8.0)
    assert second.observed_at - first.observed_at == timedelta(seconds=limits.STALE_AFTER_S - 1)


async def test_the_last_words_of_a_link_are_heard() -> None:
    bench = Bench()
    lane = bench.lane()
    bench.report(lane, Activity.ERROR)
    bench.intake.close_lane(lane)
    bench.intake.drain()
    assert [seen.activity for seen in bench.states[-2:]] == [Activity.ERROR, Activity.ERROR]
    assert [seen.connectivity for seen in bench.states[-2:]] == [Connectivity.ONLINE, Connectivity.OFFLINE]
    with pytest.raises(LinkLostError):
        bench.report(lane, Activity.MOWING)


async def test_a_new_link_before_the_pump_ran_stays_online() -> None:
    bench = Bench()
    old = bench.lane()
    bench.report(old, Activity.MOWING)
    bench.intake.close_lane(old)
    new = bench.lane()
    bench.report(new, Activity.PAUSED)
    bench.intake.drain()
    assert bench.states[-1].activity is Activity.PAUSED
    assert bench.states[-1].connectivity is Connectivity.ONLINE


async def test_a_vendor_that_says_offline_is_believed() -> None:
    bench = Bench()
    lane = bench.lane()
    bench.report(lane, Activity.MOWING, connectivity=Connectivity.OFFLINE)
    bench.intake.drain()
    assert bench.states[-1].connectivity is Connectivity.OFFLINE
    assert bench.pass_time(61)[-1].activity is Activity.UNKNOWN


async def test_a_link_that_says_nothing_of_a_moving_mower_is_doubted() -> None:
    bench = Bench()
    lane = bench.lane()
    bench.report(lane, Activity.MOWING)
    bench.intake.drain()
    seen = bench.pass_time(limits.SILENT_AFTER_S + 20)
    assert seen[-1].activity is Activity.UNKNOWN
    assert seen[-1].connectivity is Connectivity.UNKNOWN
    bench.report(lane, Activity.MOWING)
    bench.intake.drain()
    assert bench.states[-1].connectivity is Connectivity.ONLINE


@pytest.mark.parametrize(("age_s", "activity"), [(5, Activity.MOWING), (3_600, Activity.UNKNOWN)])
async def test_after_a_restart_the_last_state_is_offline(age_s: int, activity: Activity) -> None:
    bench = Bench(state(Activity.MOWING, observed_at=START - timedelta(seconds=age_s)))
    assert bench.states[0].connectivity is Connectivity.OFFLINE
    assert bench.states[0].activity is activity
    later = bench.pass_time(61)
    assert [seen.activity for seen in later] == ([Activity.UNKNOWN] if age_s < 60 else [])


async def test_a_mower_that_was_never_heard_is_unknown_and_offline() -> None:
    bench = Bench()
    assert [(seen.activity, seen.connectivity) for seen in bench.states] == [(Activity.UNKNOWN, Connectivity.OFFLINE)]


async def test_times_of_a_mower_only_grow() -> None:
    bench = Bench()
    lane = bench.lane()
    for seconds in (0, 10, -30, 5, 4, 10_000):
        lane.report(state(Activity.MOWING, observed_at=START + timedelta(seconds=seconds)))
        bench.intake.drain()
        bench.clock.advance(1)
    times = [seen.observed_at for seen in bench.states]
    assert times == sorted(set(times))
    assert times[-1] <= bench.clock.now()


async def test_a_defect_of_one_sink_does_not_keep_the_state_from_the_next() -> None:
    seen: list[MowerState] = []

    def broken(mower_id: MowerId, state: MowerState) -> None:
        raise ValueError("defect")

    intake = Intake(clock=ManualClock(), state_sinks=[broken, lambda _, state: seen.append(state)])
    intake.add(MOWER)
    assert len(seen) == 1
