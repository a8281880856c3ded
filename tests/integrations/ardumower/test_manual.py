"""Driving by hand, with the time in the test's hands."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from core.domain.drive import DriveFrame
from integrations.ardumower.manual import PACE_S, REST_S, Manual
from integrations.ardumower.models import MOTOR_TIMEOUT_S
from integrations.ardumower.orders import STAND_STILL


def frame(sequence: int, linear: float = 0.5, ttl_ms: int = 500) -> DriveFrame:
    return DriveFrame(sequence=sequence, linear=linear, angular=0.0, ttl_ms=ttl_ms)


def driving() -> Manual:
    manual = Manual()
    manual.begin(0.0)
    return manual


def test_no_frame_is_taken_before_it_began():
    manual = Manual()
    assert not manual.offer(frame(1), 0.0)
    assert manual.take(0.0) is None
    assert manual.due_at() == float("inf")


def test_a_frame_is_sent_once_and_then_the_mower_stands():
    manual = driving()
    assert manual.offer(frame(1), 0.0)
    assert manual.take(0.0) == "AT+M,0.15,0.00"
    assert manual.take(0.2) is None, "never repeated"
    assert manual.due_at() == 0.5
    assert manual.take(0.5) == STAND_STILL
    assert manual.take(0.6) is None
    assert not manual.may_move


def test_the_newest_frame_wins():
    manual = driving()
    manual.offer(frame(1, 0.5), 0.0)
    manual.offer(frame(2, 1.0), 0.01)
    assert manual.take(0.02) == "AT+M,0.30,0.00"
    assert manual.take(1.0) == STAND_STILL


def test_older_frames_are_not_obeyed():
    manual = driving()
    assert manual.offer(frame(5), 0.0)
    assert not manual.offer(frame(5), 0.1)
    assert not manual.offer(frame(4), 0.1)
    manual.take(0.1)
    assert manual.take(0.5) == STAND_STILL


def test_a_frame_that_waited_too_long_is_not_sent():
    manual = driving()
    manual.offer(frame(1, ttl_ms=100), 0.0)
    assert manual.take(0.2) is None
    assert not manual.may_move


def test_no_frame_holds_longer_than_the_motors():
    manual = driving()
    manual.offer(frame(1, ttl_ms=60_000), 0.0)
    manual.take(0.0)
    assert manual.due_at() == MOTOR_TIMEOUT_S
    manual = driving()
    manual.offer(frame(1, ttl_ms=-5), 0.0)
    assert manual.take(0.0) is None


def test_requests_keep_their_distance_but_a_stop_does_not():
    manual = driving()
    manual.offer(frame(1), 0.0)
    manual.take(0.0)
    manual.offer(frame(2), 0.01)
    assert manual.take(0.01) is None
    assert manual.due_at() == PACE_S
    manual.end()
    assert manual.take(0.02) == STAND_STILL
    assert manual.take(0.5) is None


def test_the_end_stops_only_what_moves():
    manual = driving()
    manual.end()
    assert manual.take(0.0) is None
    assert not manual.offer(frame(1), 0.0)


def test_it_ends_by_itself_when_nobody_drives():
    manual = driving()
    assert manual.due_at() == REST_S
    assert manual.take(REST_S) is None
    assert not manual.is_on


def test_a_new_session_counts_anew():
    manual = driving()
    manual.offer(frame(1000), 0.0)
    manual.begin(1.0)
    assert manual.offer(frame(1), 1.0)


@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.floats(0, 0.7), st.integers(-100, 3000), st.floats(-2, 2), st.booleans()),
        max_size=40,
    )
)
def test_whatever_happens_the_mower_is_told_to_stand(steps):
    """However frames come, are late, out of order or end: after the last one holds no longer, the last request was
    to stand, and no frame was ever sent twice."""
    manual, now, sent = driving(), 0.0, []
    offered = 0
    for sequence, wait_s, ttl_ms, linear, does_end in steps:
        offered += manual.offer(frame(sequence, linear, ttl_ms), now)
        now += wait_s
        if does_end:
            manual.end()
        while (body := manual.take(now)) is not None:
            sent.append(body)
        if does_end:
            manual.begin(now)
    now += MOTOR_TIMEOUT_S
    while (body := manual.take(now)) is not None:
        sent.append(body)
    assert not manual.may_move
    assert not sent or sent[-1] == STAND_STILL
    assert sum(body != STAND_STILL for body in sent) <= offered
