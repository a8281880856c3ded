"""A line through noisy points."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.telemetry.trend import POINTS_MIN, SPAN_MIN, find_trend


def noisy(slope: float, count: int = 60, noise: float = 1.0, seed: int = 1) -> list[tuple[float, float]]:
    rng = random.Random(seed)
    return [(float(n), 100 + slope * n + rng.gauss(0, noise)) for n in range(count)]


@settings(max_examples=50, deadline=None)
@given(
    st.floats(-100, 100),
    st.floats(-1000, 1000),
    st.lists(st.integers(0, 400), min_size=POINTS_MIN, max_size=40, unique=True),
)
def test_a_straight_line_is_found_exactly(slope: float, offset: float, days: list[int]) -> None:
    days.sort()
    trend = find_trend([(float(day), offset + slope * day) for day in days])
    if days[-1] - days[0] < SPAN_MIN:
        assert trend is None
    else:
        assert trend is not None
        for found in (trend.low, trend.slope, trend.high):
            assert found == pytest.approx(slope, abs=1e-6)


def test_wild_days_do_not_bend_it() -> None:
    points = noisy(-0.5)
    wild = [(x, 1_000.0 if n % 7 == 3 else y) for n, (x, y) in enumerate(points)]
    trend = find_trend(wild)
    assert trend is not None
    assert trend.slope == pytest.approx(-0.5, abs=0.05)
    assert trend.direction == "falling"


def test_the_bounds_hold_what_they_promise() -> None:
    """Of many lines with noise the true slope lies outside of the bounds of 95 % now and then, not more."""
    misses = 0
    for seed in range(300):
        trend = find_trend(noisy(0.3, count=20, noise=5.0, seed=seed))
        assert trend is not None
        assert trend.low <= trend.slope <= trend.high
        misses += not trend.low <= 0.3 <= trend.high
    assert 2 <= misses <= 30


def test_noise_alone_is_steady_and_few_points_say_nothing() -> None:
    found = [find_trend(noisy(0.0, seed=seed)) for seed in range(40)]
    assert sum(trend is not None and trend.direction == "steady" for trend in found) >= 34
    assert find_trend(noisy(1.0, count=POINTS_MIN - 1)) is None
    assert find_trend([(n * 0.1, n) for n in range(50)]) is None
    assert find_trend([]) is None
    rising = find_trend(noisy(1.0, count=POINTS_MIN * 2))
    assert rising is not None
    assert rising.direction == "rising"
