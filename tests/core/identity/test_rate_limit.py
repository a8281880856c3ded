"""Guessing slows down, recovers, and takes no memory."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.domain.errors import RateLimitedError
from core.identity.rate_limit import Guard, Pace, RateLimit, network_of
from tests.fakes.clock import ManualClock

PACE = Pace(free=3, first_delay_s=1.0, max_delay_s=8.0, forget_after_s=100.0)


def test_the_wait_doubles_up_to_its_limit() -> None:
    assert [PACE.delay_s(n) for n in range(1, 10)] == [0, 0, 0, 1, 2, 4, 8, 8, 8]
    assert PACE.delay_s(10**9) == 8


def test_an_attempt_that_comes_too_early_does_not_count() -> None:
    clock = ManualClock()
    guard = Guard(clock, per_user=PACE, per_address=PACE)
    for _ in range(4):
        guard.begin(address="192.0.2.1", user="ann")
    for _ in range(50):
        with pytest.raises(RateLimitedError) as caught:
            guard.begin(address="192.0.2.1", user="ann")
        assert caught.value.retry_after_s == 1.0
    clock.advance(1.0)
    guard.begin(address="192.0.2.1", user="ann")


def test_one_good_password_does_not_free_the_address_for_guesses_at_others() -> None:
    guard = Guard(ManualClock(), per_user=PACE, per_address=PACE)
    with pytest.raises(RateLimitedError):  # noqa: PT012
        for number in range(20):
            guard.begin(address="192.0.2.1", user="mine")
            guard.succeed(address="192.0.2.1", user="mine")
            guard.begin(address="192.0.2.1", user=f"victim{number}")


def test_honest_people_are_never_slowed_down() -> None:
    guard = Guard(ManualClock(), per_user=PACE, per_address=PACE)
    for _ in range(100):
        guard.begin(address="192.0.2.1", user="ann")
        guard.succeed(address="192.0.2.1", user="ann")


def test_a_user_is_guarded_from_many_addresses() -> None:
    guard = Guard(ManualClock(), per_user=PACE, per_address=PACE)
    with pytest.raises(RateLimitedError):  # noqa: PT012
        for number in range(20):
            guard.begin(address=f"192.0.2.{number}", user="ann")


def test_silence_is_forgiven() -> None:
    clock = ManualClock()
    limit = RateLimit(clock, PACE)
    for _ in range(10):
        limit.count("ann")
    clock.advance(99)
    limit.count("ann")
    with pytest.raises(RateLimitedError):
        limit.check("ann")
    clock.advance(100)
    limit.check("ann")
    limit.count("ann")
    limit.check("ann")


def test_setting_the_wall_clock_does_not_help() -> None:
    clock = ManualClock()
    limit = RateLimit(clock, PACE)
    for _ in range(10):
        limit.count("ann")
    clock.jump(86_400)
    with pytest.raises(RateLimitedError):
        limit.check("ann")


def test_memory_is_bounded_and_the_quietest_is_forgotten() -> None:
    limit = RateLimit(ManualClock(), PACE, entries=5)
    for _ in range(10):
        limit.count("busy")
    for number in range(100):
        limit.count(f"stranger{number}")
        limit.count("busy")
    assert len(limit._entries) == 5
    with pytest.raises(RateLimitedError):
        limit.check("busy")


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("fe80::1%eth0", "fe80::/64"),
        ("not an address", "not an address"),
        ("", ""),
    ],
)
def test_what_counts_as_one_place(address: str, network: str) -> None:
    assert network_of(address) == network


@settings(max_examples=100)
@given(st.lists(st.one_of(st.just("try"), st.floats(0.1, 50)), max_size=60))
def test_no_rhythm_gets_through_faster_than_the_pace(steps: list[str | float]) -> None:
    clock = ManualClock()
    guard = Guard(clock, per_user=PACE, per_address=PACE)
    passed: list[float] = []
    for step in steps:
        if isinstance(step, float):
            clock.advance(step)
            continue
        try:
            guard.begin(address="192.0.2.1", user="ann")
        except RateLimitedError as err:
            assert 0 < err.retry_after_s <= PACE.max_delay_s  # noqa: PT017
            continue
        if passed and clock.monotonic() - passed[-1] >= PACE.forget_after_s:
            passed.clear()
        if passed:
            assert clock.monotonic() - passed[-1] >= PACE.delay_s(len(passed)) - 1e-6
        passed.append(clock.monotonic())
