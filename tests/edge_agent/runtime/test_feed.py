"""What the intake makes of several links: who is believed, what a lost link leaves behind, and the overlay."""

from __future__ import annotations

import pytest

from core.domain import limits
from core.domain.ids import EntryId, MowerId
from core.domain.mower import Activity, BladeHeight, Connectivity, LinkKind, MowerState, Position, Signals
from edge_agent.runtime.intake import Intake
from edge_agent.runtime.lane import Lane
from tests.edge_agent.runtime.plugin import state
from tests.fakes.clock import START, ManualClock

MOWER = MowerId("m")


class Bench:
    """Two lanes of one mower; `say` is a report that is taken at once."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.states: list[MowerState] = []
        self.intake = Intake(clock=self.clock, state_sinks=[lambda _, state: self.states.append(state)])
        self.intake.add(MOWER)
        self.ble = self.open(LinkKind.BLE)
        self.cloud = self.open(LinkKind.CLOUD)

    def open(self, kind: LinkKind) -> Lane:
        return self.intake.open_lane(MOWER, kind, EntryId(f"entry-{kind}"))

    @property
    def last(self) -> MowerState:
        return self.states[-1]

    def say(self, lane: Lane, activity: Activity, **fields: object) -> MowerState:
        self.clock.advance(1)
        lane.report(state(activity, **{"observed_at": self.clock.now(), "battery_percent": None, **fields}))
        self.intake.drain()
        return self.last

    def close(self, lane: Lane) -> MowerState:
        self.intake.close_lane(lane)
        self.intake.drain()
        return self.last

    def pass_time(self, seconds: float) -> MowerState:
        for _ in range(int(seconds)):
            self.clock.advance(1)
            self.intake.drain()
            self.intake.tick()
        return self.last


async def test_the_newest_sight_counts_and_silence_takes_nothing_away() -> None:
    bench = Bench()
    bench.say(bench.ble, Activity.MOWING, battery_percent=80, blades_on=True)
    merged = bench.say(bench.cloud, Activity.MOWING, next_start_at=START)
    assert (merged.battery_percent, merged.blades_on, merged.next_start_at) == (80, True, START)
    old = bench.say(bench.cloud, Activity.DOCKED, observed_at=START)
    assert old.activity is Activity.MOWING, "what is older changes nothing"
    assert old.observed_at > merged.observed_at


async def test_the_active_link_is_the_one_that_commands_would_use() -> None:
    bench = Bench()
    assert bench.say(bench.cloud, Activity.DOCKED, signals=Signals(mobile_dbm=-80)).signals == Signals(
        mobile_dbm=-80, active_link=LinkKind.BLE
    )
    bench.say(bench.ble, Activity.DOCKED, signals=Signals(ble_dbm=-60))
    assert bench.last.signals == Signals(ble_dbm=-60, mobile_dbm=-80, active_link=LinkKind.BLE)
    assert bench.close(bench.ble).signals == Signals(mobile_dbm=-80, active_link=LinkKind.CLOUD), "said at once"
    bench.open(LinkKind.BLE)
    bench.intake.drain()
    assert bench.last.signals == Signals(mobile_dbm=-80, active_link=LinkKind.BLE)


async def test_online_while_any_link_reaches_it() -> None:
    bench = Bench()
    bench.say(bench.ble, Activity.MOWING)
    bench.say(bench.cloud, Activity.MOWING)
    assert bench.close(bench.ble).connectivity is Connectivity.ONLINE
    assert bench.close(bench.cloud).connectivity is Connectivity.OFFLINE
    assert bench.last.activity is Activity.MOWING
    assert bench.pass_time(limits.STALE_AFTER_S + 1).activity is Activity.UNKNOWN


async def test_a_link_that_is_open_and_silent_does_not_keep_it_online() -> None:
    bench = Bench()
    bench.say(bench.ble, Activity.MOWING)
    assert bench.close(bench.ble).connectivity is Connectivity.OFFLINE


async def test_a_cloud_that_calls_it_offline_is_not_believed_against_a_link_that_sees_it() -> None:
    bench = Bench()
    bench.say(bench.ble, Activity.DOCKED, battery_percent=80)
    told = bench.say(bench.cloud, Activity.MOWING, connectivity=Connectivity.OFFLINE, battery_percent=30)
    assert (told.connectivity, told.activity, told.battery_percent) == (Connectivity.ONLINE, Activity.DOCKED, 80)
    assert bench.close(bench.ble).connectivity is Connectivity.OFFLINE


async def test_what_only_a_lost_link_knew_is_not_shown_as_now() -> None:
    bench = Bench()
    place, height = Position(lat=1.0, lon=2.0), BladeHeight(value=40)
    bench.say(bench.cloud, Activity.MOWING)
    bench.say(bench.ble, Activity.MOWING, position=place, speed_mps=0.3, blades_on=True, blade_height=height)
    lost = bench.close(bench.ble)
    assert (lost.position, lost.speed_mps, lost.blades_on) == (place, None, True)
    later = bench.pass_time(limits.STALE_AFTER_S + 1)
    assert (later.position, later.blades_on, later.blade_height) == (None, None, height)
    assert (later.activity, later.connectivity) == (Activity.MOWING, Connectivity.ONLINE), "the cloud says so, too"


async def test_an_older_word_does_not_come_back_when_the_newer_link_is_lost() -> None:
    bench = Bench()
    bench.say(bench.cloud, Activity.DOCKED)
    bench.say(bench.ble, Activity.MOWING)
    assert bench.close(bench.ble).activity is Activity.MOWING
    assert bench.pass_time(limits.STALE_AFTER_S + 1).activity is Activity.UNKNOWN
    assert bench.say(bench.cloud, Activity.DOCKED).activity is Activity.DOCKED


async def test_a_silent_link_gives_way_to_one_that_speaks() -> None:
    bench = Bench()
    bench.say(bench.cloud, Activity.DOCKED)
    bench.say(bench.ble, Activity.MOWING)
    for _ in range(int(limits.SILENT_AFTER_S / 100) + 1):
        bench.pass_time(99)
        bench.say(bench.cloud, Activity.UNKNOWN, observed_at=START)
    assert (bench.last.activity, bench.last.connectivity) == (Activity.UNKNOWN, Connectivity.ONLINE)


@pytest.mark.parametrize("jump_s", [-7_200, 7_200])
async def test_a_wall_clock_that_is_set_does_not_make_the_old_new(jump_s: int) -> None:
    bench = Bench()
    bench.say(bench.ble, Activity.MOWING)
    bench.clock.jump(jump_s)
    assert bench.say(bench.ble, Activity.PAUSED).activity is Activity.PAUSED
    assert bench.say(bench.cloud, Activity.DOCKED).activity is Activity.DOCKED
    assert bench.say(bench.ble, Activity.MOWING).activity is Activity.MOWING


async def test_a_vendors_clock_that_runs_ahead_wins_no_longer_than_until_now() -> None:
    bench = Bench()
    bench.say(bench.cloud, Activity.DOCKED, observed_at=START.replace(year=2030))
    assert bench.say(bench.ble, Activity.MOWING).activity is Activity.MOWING


async def test_an_entry_that_has_gone_is_forgotten_once_another_link_knows_better() -> None:
    bench = Bench()
    bench.say(bench.cloud, Activity.DOCKED)
    bench.say(bench.ble, Activity.MOWING, firmware="1.0")
    bench.close(bench.ble)
    bench.intake.forget_entry(MOWER, EntryId("entry-ble"))
    assert bench.pass_time(limits.STALE_AFTER_S + 1).activity is Activity.UNKNOWN
    newer = bench.say(bench.cloud, Activity.DOCKED)
    assert (newer.activity, newer.firmware) == (Activity.DOCKED, None)


async def test_last_words_of_both_links_are_heard() -> None:
    bench = Bench()
    bench.ble.report(state(Activity.ERROR, observed_at=bench.clock.now()))
    bench.intake.close_lane(bench.ble)
    bench.intake.close_lane(bench.cloud)
    bench.intake.drain()
    assert (bench.last.activity, bench.last.connectivity) == (Activity.ERROR, Connectivity.OFFLINE)


async def test_a_field_of_a_report_that_was_replaced_was_still_told() -> None:
    bench = Bench()
    bench.say(bench.cloud, Activity.DOCKED, battery_percent=50)
    bench.clock.advance(1)
    bench.ble.report(state(Activity.DOCKED, observed_at=bench.clock.now(), battery_percent=40))
    merged = bench.say(bench.ble, Activity.DOCKED)
    assert merged.battery_percent is None, "the link knows the field, and says now that it is unknown"


async def test_the_times_of_a_mower_only_grow() -> None:
    bench = Bench()
    for number in range(30):
        bench.say((bench.ble, bench.cloud)[number % 2], Activity.MOWING, observed_at=START)
        bench.pass_time(number % 4)
    times = [seen.observed_at for seen in bench.states]
    assert times == sorted(set(times))
