"""Pauses between tries."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain import limits
from core.sync.backoff import Backoff


@given(st.floats(0, 1, exclude_max=True), st.integers(1, 30))
def test_every_pause_lies_below_a_ceiling_that_doubles(number: float, tries: int) -> None:
    backoff = Backoff(1.0, 300.0, random=lambda: number)
    for attempt in range(tries):
        ceiling = min(300.0, 2.0**attempt)
        assert backoff.ceiling_s == ceiling
        assert backoff.next_s() == number * ceiling


def test_a_stable_connection_resets_it_a_short_one_does_not() -> None:
    backoff = Backoff(random=lambda: 0.5)
    for _ in range(5):
        backoff.next_s()
    backoff.succeed(limits.RECONNECT_STABLE_S - 1)
    assert backoff.ceiling_s == 32.0
    backoff.succeed(limits.RECONNECT_STABLE_S)
    assert backoff.ceiling_s == limits.RECONNECT_FIRST_S


def test_a_thousand_boxes_do_not_come_back_together() -> None:
    draw = random.Random(1).random
    pauses = sorted(Backoff(10.0, 300.0, random=draw).next_s() for _ in range(1_000))
    assert max(later - earlier for earlier, later in itertools.pairwise(pauses)) < 0.2
    assert pauses[-1] > 9.5


@pytest.mark.parametrize(("first", "most"), [(0.0, 1.0), (-1.0, 1.0), (2.0, 1.0)])
def test_senseless_limits_are_refused(first: float, most: float) -> None:
    with pytest.raises(ValueError, match="first_s"):
        Backoff(first, most, random=lambda: 0.0)
