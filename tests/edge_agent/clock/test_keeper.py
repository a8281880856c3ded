"""The box's time against a clock that is set, slewed and doubted."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.domain import limits
from edge_agent.clock.keeper import ClockKeeper
from edge_agent.clock.kernel import ClockQuality
from tests.fakes.clock import START, ManualClock

TOLERANCE_S = limits.FUTURE_TOLERANCE.total_seconds()


class Machine:
    def __init__(self, quality: ClockQuality = ClockQuality.SYNCHRONISED) -> None:
        self.clock = ManualClock()
        self.quality = quality
        self.jumps: list[float] = []
        self.keeper = ClockKeeper(self.clock, read_quality=lambda: self.quality, on_jump=self.jumps.append)

    def measure(self, ahead_s: float, trip_s: float = 0.2) -> None:
        sent = self.clock.monotonic()
        self.clock.advance(trip_s / 2)
        relay_at = self.clock.now() + timedelta(seconds=ahead_s)
        self.clock.advance(trip_s / 2)
        self.keeper.measure(sent_monotonic=sent, received_monotonic=self.clock.monotonic(), relay_at=relay_at)


@given(
    st.lists(
        st.tuples(st.floats(0, 100), st.one_of(st.just(0.0), st.floats(-TOLERANCE_S / 4, TOLERANCE_S))),
        max_size=4,
    )
)
@settings(max_examples=200, deadline=None)
def test_small_corrections_never_turn_time_back(moves: list[tuple[float, float]]) -> None:
    machine = Machine()
    before = machine.keeper.now()
    for passed, jump in moves:
        machine.clock.advance(passed)
        machine.clock.jump(jump)
        now = machine.keeper.now()
        assert now >= before
        assert now >= machine.clock.now() - timedelta(microseconds=1)
        before = now


def test_a_clock_set_back_a_little_is_caught_up_with() -> None:
    machine = Machine()
    machine.clock.advance(1)
    first = machine.keeper.now()
    machine.clock.jump(-60)
    assert machine.keeper.now() == first
    machine.clock.advance(60)
    assert machine.keeper.now() == first + timedelta(seconds=30)
    machine.clock.advance(61)
    assert machine.keeper.now() == machine.clock.now()
    assert machine.jumps == [pytest.approx(-60)]


def test_a_clock_set_back_a_lot_is_followed() -> None:
    machine = Machine()
    machine.clock.jump(-TOLERANCE_S - 1)
    assert machine.keeper.now() == machine.clock.now()


def test_a_clock_set_forward_is_followed_at_once() -> None:
    machine = Machine()
    machine.clock.jump(86_400)
    assert machine.keeper.now() == machine.clock.now()
    assert machine.keeper.jumps == 1


@pytest.mark.parametrize(
    ("quality", "is_trusted"),
    [(ClockQuality.SYNCHRONISED, True), (ClockQuality.UNSYNCHRONISED, False), (ClockQuality.UNKNOWN, True)],
)
def test_trust(quality: ClockQuality, is_trusted: bool) -> None:
    assert Machine(quality).keeper.is_trusted is is_trusted


def test_trust_by_setting_and_by_the_relay() -> None:
    clock = ManualClock()
    bad = ClockQuality.UNSYNCHRONISED
    assert ClockKeeper(clock, read_quality=lambda: bad, trust="always").is_trusted
    machine = Machine(bad)
    machine.measure(ahead_s=1.0)
    assert machine.keeper.is_trusted
    machine.measure(ahead_s=3600.0)
    assert not machine.keeper.is_trusted


def test_the_kernel_is_asked_now_and_then() -> None:
    machine = Machine(ClockQuality.UNSYNCHRONISED)
    assert not machine.keeper.is_trusted
    machine.quality = ClockQuality.SYNCHRONISED
    assert not machine.keeper.is_trusted
    machine.clock.advance(6)
    assert machine.keeper.is_trusted


def test_the_relays_time_does_not_move_with_the_wall_clock() -> None:
    machine = Machine()
    machine.measure(ahead_s=100.0)
    assert machine.keeper.relay_offset is not None
    assert machine.keeper.relay_offset.skew_s == pytest.approx(100.0)
    assert machine.keeper.relay_offset.uncertainty_s == pytest.approx(0.1)
    before = machine.keeper.relay_time()
    machine.clock.jump(-5_000)
    assert machine.keeper.relay_time() == before


def test_a_slow_answer_says_nothing() -> None:
    machine = Machine()
    machine.measure(ahead_s=100.0, trip_s=60.0)
    assert machine.keeper.relay_time() is None


def expiry(machine: Machine, seconds: float) -> datetime:
    return machine.clock.now() + timedelta(seconds=seconds)


def test_expiry_is_judged_by_the_relays_clock() -> None:
    machine = Machine()
    machine.measure(ahead_s=-100.0)
    assert machine.keeper.time_left_s(expiry(machine, -100 + 30)) == pytest.approx(30)
    assert machine.keeper.time_left_s(expiry(machine, -100 - 1)) == pytest.approx(-1)


def test_expiry_without_a_measurement() -> None:
    assert Machine().keeper.time_left_s(START + timedelta(seconds=30)) == pytest.approx(30)
    assert Machine(ClockQuality.UNSYNCHRONISED).keeper.time_left_s(START + timedelta(seconds=30)) is None


def test_after_a_sleep_the_shorter_answer_counts() -> None:
    machine = Machine()
    machine.measure(ahead_s=0.0)
    expires_at = expiry(machine, 30)
    machine.clock.jump(3_600)  # the machine slept: the monotonic clock stood still
    left = machine.keeper.time_left_s(expires_at)
    assert left is not None
    assert left < 0
    machine.measure(ahead_s=0.0)
    assert machine.keeper.time_left_s(expiry(machine, 30)) == pytest.approx(30)
