"""Token buckets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.web.rate import RateLimiter


def test_a_burst_then_the_rate() -> None:
    limiter = RateLimiter(rate_per_s=2, burst=3)
    assert [limiter.take("a", 0.0) for _ in range(3)] == [0, 0, 0]
    assert limiter.take("a", 0.0) == 0.5
    assert limiter.take("b", 0.0) == 0, "each key has its own"
    assert limiter.take("a", 0.5) == 0
    assert limiter.take("a", 0.5) == pytest.approx(0.5)


def test_memory_is_bounded_and_the_busy_are_not_forgotten() -> None:
    limiter = RateLimiter(rate_per_s=1, burst=1, capacity=2)
    limiter.take("busy", 0.0)
    for n in range(10):
        limiter.take(f"k{n}", 0.0)
        assert limiter.take("busy", 0.0) > 0
    assert len(limiter._buckets) == 2


@given(st.lists(st.floats(0, 3), max_size=60))
def test_never_more_than_the_burst_and_the_rate(pauses: list[float]) -> None:
    limiter, now, passed = RateLimiter(rate_per_s=1, burst=5), 0.0, 0
    for pause in pauses:
        now += pause
        passed += limiter.take("a", now) == 0
    assert passed <= 5 + now + 1e-6


def test_a_clock_that_goes_back_gives_nothing() -> None:
    limiter = RateLimiter(rate_per_s=1, burst=1)
    assert limiter.take("a", 100.0) == 0
    assert limiter.take("a", 50.0) > 0
