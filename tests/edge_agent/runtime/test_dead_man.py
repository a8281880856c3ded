"""The dead man's switch: whatever arrives whenever, the mower moves only under a fresh frame in its order."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.domain.drive import DriveEnd, DriveFrame, find_frame_mistakes
from edge_agent.runtime.dead_man import OUT_OF_ORDER, SILENCE, TOO_OLD, DeadMan, Halt, Move, Over

START = 1_000.0


def frame(sequence: int, linear: float = 0.5, *, ttl_ms: int = 500, sent_ms: int | None = None) -> DriveFrame:
    return DriveFrame(sequence=sequence, linear=linear, angular=0.0, ttl_ms=ttl_ms, sent_ms=sent_ms)


def test_a_frame_holds_for_its_time_and_not_a_moment_longer() -> None:
    man = DeadMan(now=START)
    assert man.take(frame(1), START) == Move(linear=0.5, angular=0.0, until=START + 0.5)
    assert man.due_at == START + 0.5
    assert man.tick(START + 0.499) is None
    assert man.tick(START + 0.5) == Halt(reason=SILENCE)
    assert not man.is_moving
    assert man.tick(START + 0.6) is None, "it is told once"


def test_a_newer_frame_goes_on_and_the_mowers_own_timeout_bounds_it() -> None:
    man = DeadMan(now=START, motor_timeout_s=0.2)
    man.take(frame(1), START)
    assert man.take(frame(2, ttl_ms=1000), START + 0.1) == Move(linear=0.5, angular=0.0, until=START + 0.1 + 0.2)


@pytest.mark.parametrize("sequence", [5, 4, 0])
def test_a_repeated_or_older_frame_stops_until_a_newer_one(sequence: int) -> None:
    man = DeadMan(now=START)
    man.take(frame(5), START)
    assert man.take(frame(sequence), START + 0.1) == Halt(reason=OUT_OF_ORDER)
    assert not man.is_moving
    assert isinstance(man.take(frame(6), START + 0.2), Move)


def test_a_frame_that_makes_no_sense_stops() -> None:
    man = DeadMan(now=START)
    man.take(frame(1), START)
    verdict = man.take(frame(2, math.nan), START + 0.1)
    assert isinstance(verdict, Halt)
    assert "linear" in verdict.reason


def test_what_a_stalled_line_lets_go_of_is_too_old() -> None:
    man = DeadMan(now=START)
    assert isinstance(man.take(frame(1, sent_ms=50_000), START), Move)
    late = [man.take(frame(2 + i, sent_ms=50_100 + 100 * i), START + 3.0) for i in range(29)]
    assert late[:24] == [Halt(reason=TOO_OLD)] * 24
    assert late[28] == Move(linear=0.5, angular=0.0, until=pytest.approx(START + 3.4))


def test_a_delay_is_taken_from_the_time_that_a_frame_holds() -> None:
    man = DeadMan(now=START)
    man.take(frame(1, sent_ms=0), START)
    assert man.take(frame(2, sent_ms=100), START + 0.4) == Move(linear=0.5, angular=0.0, until=START + 0.6)


def test_standing_still_is_driving_too() -> None:
    man = DeadMan(now=START)
    for second in range(100):
        assert isinstance(man.take(frame(second, 0.0), START + second), Move)
        assert not man.is_moving
        assert man.tick(START + second + 0.9) is None


def test_without_frames_it_is_over() -> None:
    man = DeadMan(now=START)
    man.take(frame(1), START + 10.0)
    man.take(frame(1), START + 20.0)  # a frame that is not obeyed shows nobody's presence
    assert man.tick(START + 39.999) is None
    assert man.tick(START + 40.0) == Over(end=DriveEnd.IDLE)
    assert man.take(frame(9), START + 40.1) == Over(end=DriveEnd.IDLE)


def test_it_lives_ten_minutes_whatever_the_driver_does() -> None:
    man = DeadMan(now=START)
    at, sequence = START, 0
    while at < START + 599.9:
        assert isinstance(man.take(frame(sequence), at), Move)
        at, sequence = at + 0.1, sequence + 1
    assert man.take(frame(sequence), START + 600.0) == Over(end=DriveEnd.TIME)
    assert not man.is_moving


# -- any history


@dataclass(frozen=True)
class Arrival:
    """A frame that arrives so long after the one before."""

    after_s: float
    frame: DriveFrame


speeds = st.sampled_from([-1.0, -0.3, 0.0, 0.5, 1.0, 1.5, math.nan])
arrivals = st.lists(
    st.builds(
        Arrival,
        after_s=st.sampled_from([0.0, 0.01, 0.1, 0.3, 0.5, 0.9, 5.0, 29.0, 31.0]),
        frame=st.builds(
            DriveFrame,
            sequence=st.integers(-1, 30),
            linear=speeds,
            angular=speeds,
            ttl_ms=st.sampled_from([0, 100, 500, 1000, 5000]),
            sent_ms=st.none() | st.integers(0, 3_000),
        ),
    ),
    max_size=40,
)


class Mower:
    """Obeys what it is told, as a link that is never late."""

    def __init__(self) -> None:
        self.moving_since: float | None = None

    def hear(self, verdict: Move | Halt | Over, at: float) -> None:
        is_moving = isinstance(verdict, Move) and not verdict.is_standing
        self.moving_since = at if is_moving else None


@settings(max_examples=300, deadline=None)
@given(arrivals=arrivals, motor_timeout_s=st.sampled_from([0.3, math.inf]), lifetime_s=st.sampled_from([2.0, 600.0]))
def test_it_never_moves_without_a_fresh_frame_in_order(
    arrivals: list[Arrival], motor_timeout_s: float, lifetime_s: float
) -> None:
    man, mower, now = DeadMan(now=START, motor_timeout_s=motor_timeout_s, lifetime_s=lifetime_s), Mower(), START
    obeyed, newest, is_over = -1, -1, False
    for arrival in arrivals:
        then = now + arrival.after_s
        while man.due_at <= then and not is_over:  # the shell wakes up at every due time
            due_at = max(man.due_at, now)
            verdict = man.tick(due_at)
            assert verdict is not None, "something was due"
            mower.hear(verdict, due_at)
            assert mower.moving_since is None
            is_over = isinstance(verdict, Over)
            assert is_over or man.due_at > due_at, "the shell never spins"
        now, sent = then, arrival.frame
        verdict = man.take(sent, now)
        mower.hear(verdict, now)
        assert man.is_moving == (mower.moving_since is not None)
        if is_over:
            assert isinstance(verdict, Over)
        if isinstance(verdict, Move):
            assert find_frame_mistakes(sent) == ()
            assert sent.sequence > newest >= obeyed
            assert now < verdict.until <= now + min(sent.ttl_ms / 1000, motor_timeout_s) + 1e-9
            assert now < START + lifetime_s
            obeyed = sent.sequence
        if isinstance(verdict, Halt):
            assert mower.moving_since is None
        if not find_frame_mistakes(sent):
            newest = max(newest, sent.sequence)
