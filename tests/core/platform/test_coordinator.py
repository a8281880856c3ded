"""The coordinator, on a clock that moves only when it sleeps."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from core.domain.errors import AuthFailedError, LinkLostError, LinkTimeoutError, NotReadyError, RateLimitedError
from core.domain.mower import Activity
from core.platform.coordinator import Coordinator, interval_by_activity
from tests.fakes.clock import ManualClock


class Vendor:
    """Answers with what it is given, or raises it; notes when it was asked."""

    def __init__(self, clock: ManualClock, *answers: object) -> None:
        self.clock = clock
        self.answers = list(answers)
        self.asked_at: list[float] = []
        self.began = clock.monotonic()

    async def fetch(self) -> object:
        self.asked_at.append(self.clock.monotonic() - self.began)
        if not self.answers:
            raise AuthFailedError("out of answers")  # ends the run
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def coordinator_of(
    vendor: Vendor, took: list[object], sleep: Callable[[float], Awaitable[None]] | None = None, **options
):
    async def skip(seconds: float) -> None:
        vendor.clock.advance(seconds)

    return Coordinator(
        fetch=vendor.fetch,
        on_data=took.append,
        interval_s=lambda data: float(data),
        clock=vendor.clock,
        random=lambda: 0.0,
        sleep=sleep or skip,
        **options,
    )


async def test_the_interval_follows_the_data():
    vendor, took = Vendor(ManualClock(), 30, 300, 30), []
    with pytest.raises(AuthFailedError):
        await coordinator_of(vendor, took).run()
    assert vendor.asked_at == [0, 30, 330, 360]
    assert took == [30, 300, 30]


def test_moving_is_asked_more_often():
    def at(activity: Activity) -> float:
        return interval_by_activity(activity, moving_s=30, standing_s=300)

    assert {at(activity) for activity in (Activity.MOWING, Activity.RETURNING, Activity.UNKNOWN)} == {30}
    assert {at(activity) for activity in (Activity.DOCKED, Activity.CHARGING, Activity.IDLE)} == {300}


async def test_failures_back_off_and_are_forgiven():
    lost = LinkLostError("x")
    vendor, took = Vendor(ManualClock(), 60, lost, lost, 60, lost, 60), []
    with pytest.raises(AuthFailedError):
        await coordinator_of(vendor, took).run()
    assert vendor.asked_at == [0, 60, 65, 75, 135, 140, 200]


async def test_too_many_failures_in_a_row_are_the_links_end():
    vendor = Vendor(ManualClock(), 60, *[LinkLostError(str(number)) for number in range(3)], 60)
    with pytest.raises(LinkLostError) as caught:
        await coordinator_of(vendor, []).run()
    assert caught.value.detail == "2"


async def test_a_rate_limit_only_lengthens():
    limits = [RateLimitedError(retry_after_s=wait_s) for wait_s in (1000, 1, 1, 1, 1)]
    vendor, took = Vendor(ManualClock(), 60, *limits, 60), []
    with pytest.raises(AuthFailedError):
        await coordinator_of(vendor, took).run()
    assert vendor.asked_at == [0, 60, 1060, 1120, 1180, 1240, 1300, 1360]  # never sooner than the interval
    assert took == [60, 60]


async def test_retry_after_of_not_ready_only_lengthens():
    vendor = Vendor(ManualClock(), 60, NotReadyError(retry_after_s=100), NotReadyError(retry_after_s=1), 60)
    with pytest.raises(AuthFailedError):
        await coordinator_of(vendor, []).run()
    assert vendor.asked_at == [0, 60, 160, 170, 230]


async def test_many_askers_share_one_flight():
    clock = ManualClock()
    gate = asyncio.Event()
    vendor = Vendor(clock, 60)

    async def slow() -> object:
        answer = await vendor.fetch()
        await gate.wait()
        return answer

    coordinator = Coordinator(fetch=slow, on_data=lambda _: None, interval_s=lambda _: 60.0, clock=clock)
    askers = [asyncio.create_task(coordinator.refresh()) for _ in range(5)]
    await asyncio.sleep(0)
    gate.set()
    assert await asyncio.gather(*askers) == [60] * 5
    assert len(vendor.asked_at) == 1


async def test_a_failed_flight_fails_all_and_is_not_repeated():
    clock = ManualClock()
    gate = asyncio.Event()
    vendor = Vendor(clock, LinkLostError("x"))

    async def slow() -> object:
        await gate.wait()
        return await vendor.fetch()

    coordinator = Coordinator(fetch=slow, on_data=lambda _: None, interval_s=lambda _: 60.0, clock=clock)
    askers = [asyncio.create_task(coordinator.refresh()) for _ in range(3)]
    await asyncio.sleep(0)
    gate.set()
    outcomes = await asyncio.gather(*askers, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [LinkLostError] * 3
    with pytest.raises(RateLimitedError):
        await coordinator.refresh()  # the back-off holds for everybody
    assert len(vendor.asked_at) == 1


async def test_a_fetch_that_hangs_is_cut():
    clock = ManualClock()
    coordinator = Coordinator(
        fetch=asyncio.Event().wait, on_data=lambda _: None, interval_s=lambda _: 60.0, clock=clock, deadline_s=0.01
    )
    with pytest.raises(LinkTimeoutError):
        await coordinator.refresh()


async def test_pushes_stand_in_for_polls_until_they_fall_silent():
    clock = ManualClock()
    vendor, took = Vendor(clock, 60, 60), []
    pushes = [50.0] * 10

    async def sleep(seconds: float) -> None:
        if pushes and coordinator.is_pushing:
            clock.advance(min(seconds, pushes.pop()))
            coordinator.push(60)
        else:
            clock.advance(seconds)

    coordinator = coordinator_of(vendor, took, sleep, stale_after_s=120)
    coordinator.set_pushing(True)
    with pytest.raises(AuthFailedError):
        await coordinator.run()
    # one poll at the start; ten pushes 50 s apart; silence for 120 s: a poll; silence again
    assert vendor.asked_at == [0, 620, 740]


async def test_pushes_without_push_mode_postpone_no_poll():
    clock = ManualClock()
    vendor = Vendor(clock, 60, 60)

    async def sleep(seconds: float) -> None:
        clock.advance(min(seconds, 25.0))
        coordinator.push(60)

    coordinator = coordinator_of(vendor, [], sleep)
    with pytest.raises(AuthFailedError):
        await coordinator.run()
    assert vendor.asked_at == [0, 60, 120]


async def test_the_end_of_pushing_polls_at_once():
    clock = ManualClock()
    vendor = Vendor(clock, 600, 600)

    async def sleep(seconds: float) -> None:
        clock.advance(10)
        coordinator.set_pushing(False)

    coordinator = coordinator_of(vendor, [], sleep)
    coordinator.set_pushing(True)
    run = asyncio.create_task(coordinator.run())
    while len(vendor.asked_at) < 2:
        await asyncio.sleep(0)
    assert vendor.asked_at[:2] == [0, 10]
    run.cancel()
    await asyncio.wait({run})


async def test_a_refresh_that_is_asked_for_comes_soon_but_not_too_often():
    clock = ManualClock()
    vendor = Vendor(clock, *[600] * 3)
    naps: list[float] = []

    async def sleep(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 1:
            clock.advance(3)
            coordinator.request_refresh()
        else:
            clock.advance(seconds)

    coordinator = coordinator_of(vendor, [], sleep)
    with pytest.raises(AuthFailedError):
        await coordinator.run()
    assert vendor.asked_at == [0, 10, 610, 1210]
