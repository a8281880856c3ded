"""A state goes up when it is its mower's turn: at once as a rule, and never more often than the lane allows."""

from __future__ import annotations

import random

from core.domain import limits
from core.domain.mower import Activity, MowerState
from edge_agent.uplink.live_lane import LiveLane
from tests.fakes.clock import ManualClock


def state(clock: ManualClock) -> MowerState:
    return MowerState(observed_at=clock.now(), activity=Activity.MOWING)


def use_up(lane: LiveLane, clock: ManualClock) -> None:
    """All turns of the mower are taken, and one more state of it waits."""
    lane.put("m", state(clock))
    while lane.take_due():
        lane.put("m", state(clock))


def test_reports_every_second_give_or_take_are_never_held_back():
    clock, noise = ManualClock(), random.Random(1)
    lane = LiveLane("edge", monotonic=clock.monotonic)
    begun = clock.monotonic()
    for second in range(500):
        clock.advance(begun + second + noise.uniform(0, 0.2) - clock.monotonic())
        lane.put("m", state(clock))
        assert [mower_id for mower_id, _ in lane.take_due()] == ["m"]


def test_a_fast_mower_is_conflated_to_the_newest_and_to_one_a_second():
    clock = ManualClock()
    lane = LiveLane("edge", monotonic=clock.monotonic)
    sent = []
    for _ in range(1_000):  # 100 s at 10 Hz
        newest = state(clock)
        lane.put("m", newest)
        for _, taken in lane.take_due():
            assert taken is newest
            sent.append(clock.monotonic())
        clock.advance(0.1)
    assert 95 <= len(sent) <= 1.06 * 100 / limits.LIVE_INTERVAL_S + 3


def test_a_mower_that_was_held_back_finds_its_own_rhythm_again():
    clock = ManualClock()
    lane = LiveLane("edge", monotonic=clock.monotonic)
    use_up(lane, clock)
    clock.advance(0.4)  # its reports come at a phase of their own
    late = []
    for _ in range(60):
        lane.put("m", state(clock))
        wait = lane.pause_s()
        late.append(wait)
        clock.advance(wait)
        assert len(lane.take_due()) == 1
        clock.advance(1.0 - wait)
    assert late[0] > 0.3
    assert late[-1] == 0.0


def test_what_waits_is_not_forgotten():
    clock = ManualClock()
    lane = LiveLane("edge", monotonic=clock.monotonic)
    assert lane.pause_s() is None
    lane.put("m", state(clock))
    assert lane.pause_s() == 0.0
    use_up(lane, clock)
    pause = lane.pause_s()
    assert 0 < pause <= limits.LIVE_INTERVAL_S
    clock.advance(pause)
    assert len(lane.take_due()) == 1
    lane.put("m", state(clock))
    lane.forget("m")
    assert lane.pause_s() is None


def test_one_mower_does_not_use_up_the_turn_of_another():
    clock = ManualClock()
    lane = LiveLane("edge", monotonic=clock.monotonic)
    use_up(lane, clock)
    lane.put("b", state(clock))
    assert [mower_id for mower_id, _ in lane.take_due()] == ["b"]


async def test_a_state_goes_at_once():
    import asyncio
    import time

    lane, sent = LiveLane("edge", monotonic=time.monotonic), asyncio.Queue()

    async def publish(topic: str, data: bytes) -> None:
        sent.put_nowait((topic, data))

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        running = group.create_task(lane.run(publish), name="lane")
        lane.put("m", MowerState(observed_at=ManualClock().now()))
        topic, data = await sent.get()
        assert topic == "mowdeck/v1/edges/edge/up/state/m"
        assert b'"mower_id":"m"' in data
        running.cancel()
