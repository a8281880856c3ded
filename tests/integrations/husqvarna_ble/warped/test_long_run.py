"""Hours with a mower, in virtual time: keeping the connection, letting it go, and not missing what happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from core.domain import commands
from core.domain.mower import Activity, LinkKind, MowerState
from core.platform.contract.memory_radio import MemoryRadio
from core.platform.integration import key_of
from integrations.husqvarna_ble.emulator import HusqvarnaPeer
from integrations.husqvarna_ble.integration import HusqvarnaBle
from integrations.husqvarna_ble.link import HusqvarnaLink
from integrations.husqvarna_ble.wire import Operation
from tests.contract.integration_contract import open_context
from tests.fakes.warp_loop import LoopClock
from tests.integrations.husqvarna_ble.mowers import entry_for, make_peer, with_bluetooth

USUAL: dict[str, Any] = {
    "poll_moving_s": 30.0,
    "poll_standing_s": 300.0,
    "poll_fault_s": 1200.0,
    "settle_s": 3.0,
    "answer_s": 10.0,
}


@asynccontextmanager
async def living(peer: HusqvarnaPeer, **options: Any) -> AsyncIterator[tuple[HusqvarnaLink, MemoryRadio, list[Any]]]:
    radio = MemoryRadio(peer)
    async with open_context() as context:
        timed = replace(with_bluetooth(context, radio), clock=LoopClock())
        integration = HusqvarnaBle(timed, entry_for(peer, **{**USUAL, **options}))
        mower = (await integration.mowers())[0]
        link = await integration.open(key_of(mower), LinkKind.BLE)
        reported: list[Any] = []
        task = asyncio.get_running_loop().create_task(link.run(reported.append))
        try:
            await asyncio.sleep(10)
            yield link, radio, reported
            assert not task.done(), task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            radio.close()


def states(reported: list[Any]) -> list[MowerState]:
    return [item for item in reported if isinstance(item, MowerState)]


def events(reported: list[Any]) -> list[str]:
    return [type(item).__name__ for item in reported if not isinstance(item, MowerState)]


async def test_a_kept_connection_lives_through_the_night():
    peer = make_peer(time_scale=1.0)
    async with living(peer, releases=False) as (_, radio, reported):
        await asyncio.sleep(8 * 3600)
        assert radio.connections == 1
        assert len(radio.open) == 1
        assert 90 <= len(states(reported)) <= 100
        assert peer.heard.count(Operation.ENTER_OPERATOR_PIN) == 1
        assert peer.heard.count(Operation.KEEP_ALIVE) > 8 * 3600 / 16


async def test_a_mower_in_its_dock_is_let_go():
    peer = make_peer(time_scale=1.0)
    async with living(peer) as (_, radio, reported):
        free = 0
        for _ in range(3600):
            await asyncio.sleep(1)
            free += not radio.open
        assert free > 3500, "a phone can have it nearly all the time"
        assert 11 <= radio.connections <= 14
        assert len(states(reported)) == radio.connections
        assert Operation.KEEP_ALIVE not in peer.heard


async def test_a_whole_job():
    peer = make_peer(time_scale=1.0)
    async with living(peer) as (link, _, reported):
        assert (await link.send(commands.StartMow(duration_s=3600))).kind == "accepted"
        await asyncio.sleep(2 * 3600)
        seen = list(dict.fromkeys(state.activity for state in states(reported)))
        assert seen == [
            Activity.DOCKED,
            Activity.LEAVING,
            Activity.MOWING,
            Activity.RETURNING,
            Activity.CHARGING,
        ]
        await asyncio.sleep(2 * 3600)
        assert states(reported)[-1].activity is Activity.DOCKED
        assert events(reported) == ["MowingStarted", "MowingFinished", "Docked"]
        assert peer.heard.count(Operation.START_TRIGGER) == 1
        totals = [state.totals.mowing_s for state in states(reported) if state.totals and state.totals.mowing_s]
        assert totals == sorted(totals)
        assert totals[-1] - totals[0] > 3000


async def test_a_mower_that_lies_in_the_garden_is_not_asked_flat():
    peer = make_peer(time_scale=1.0)
    async with living(peer) as (link, radio, reported):
        await link.send(commands.StartMow())
        await asyncio.sleep(120)
        peer.machine.fail(9)
        await asyncio.sleep(1800)
        assert events(reported) == ["MowingStarted", "ErrorRaised"]
        connections = radio.connections
        await asyncio.sleep(8 * 3600)
        assert radio.connections - connections <= 8 * 3 + 1, "at most every twenty minutes"
        assert not radio.open
        peer.machine.help()
        await asyncio.sleep(1300)
        assert events(reported)[-1] == "ErrorCleared"


async def test_a_mower_that_says_nothing_known_is_let_sleep_too():
    peer = make_peer(time_scale=1.0)
    peer.machine.activity = 42
    async with living(peer) as (_, radio, reported):
        await asyncio.sleep(1200)
        assert states(reported)[-1].activity is Activity.UNKNOWN
        count = len(states(reported))
        await asyncio.sleep(3600)
        assert len(states(reported)) - count <= 13
        assert not radio.open


async def test_a_silent_mower_is_dropped_by_it_and_not_by_us():
    """The mower ends a connection on which it hears nothing for a minute; ours never lets it come to that."""
    peer = make_peer(time_scale=1.0)
    async with living(peer, releases=False) as (_, radio, _reported):
        session = next(iter(radio.open))
        await asyncio.sleep(600)
        assert session.is_open
