"""Waiting states: bounded, thinned, and dated when the clock is right."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.ids import BootId, MowerId
from edge_agent.recorder.memory import Held, Waiting, dated
from tests.edge_agent.runtime.plugin import state
from tests.fakes.clock import START


def held(number: int, *, is_dated: bool = False, ahead_s: float = 0.0) -> Held:
    wall = START + timedelta(seconds=number)
    return Held(
        mower_id=MowerId("m"),
        state=state(observed_at=wall + timedelta(seconds=ahead_s), battery_percent=number % 100),
        monotonic_s=1000.0 + number,
        boot_id=BootId("b"),
        wall=wall,
        is_dated=is_dated,
    )


@given(st.integers(1, 40), st.integers(0, 300))
def test_bounded_newest_whole_and_counted(capacity: int, count: int) -> None:
    waiting = Waiting(capacity=capacity)
    for number in range(count):
        waiting.put(held(number))
    assert len(waiting) <= capacity
    left = [item.monotonic_s for item in waiting.take(count)]
    assert left == sorted(left)
    assert len(left) + waiting.dropped == count
    newest = left[-(capacity // 2) :] if capacity > 1 else left[-1:]
    if newest:
        assert newest == [1000.0 + number for number in range(count - len(newest), count)]


def test_put_back_keeps_the_order() -> None:
    waiting = Waiting()
    for number in range(5):
        waiting.put(held(number))
    taken = waiting.take(3)
    waiting.put_back(taken)
    assert [item.monotonic_s for item in waiting.take(9)] == [1000.0, 1001.0, 1002.0, 1003.0, 1004.0]


@pytest.mark.parametrize("ahead_s", [0.0, -3.0, 200.0])
def test_an_undated_state_moves_with_the_clock(ahead_s: float) -> None:
    right_now = START + timedelta(days=400)
    found = dated(held(10, ahead_s=ahead_s), wall=right_now, monotonic_s=1070.0)
    assert found.observed_at == right_now - timedelta(seconds=60) + timedelta(seconds=ahead_s)


def test_a_vendors_own_time_stays() -> None:
    item = held(10, ahead_s=86_400.0)
    assert dated(item, wall=START + timedelta(days=400), monotonic_s=1070.0) is item.state


def test_a_dated_state_stays() -> None:
    item = held(10, is_dated=True)
    assert dated(item, wall=START + timedelta(days=400), monotonic_s=1070.0) is item.state
