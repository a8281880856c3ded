"""Hours with a mower, in virtual time: letting it sleep, and not missing what happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("pygrouw")

from core.domain import commands
from core.domain.mower import Activity, LinkKind, MowerState
from core.platform.contract.memory_radio import MemoryRadio
from core.platform.integration import key_of
from integrations.grouw_ble import responder
from integrations.grouw_ble.emulated_machine import START
from integrations.grouw_ble.emulator import GrouwPeer
from integrations.grouw_ble.integration import GrouwBle
from integrations.grouw_ble.link import GrouwLink
from tests.contract.integration_contract import open_context
from tests.fakes.warp_loop import LoopClock
from tests.integrations.grouw_ble.mowers import entry_for, make_peer, with_bluetooth

USUAL: dict[str, Any] = {"poll_moving_s": 30.0, "poll_standing_s": 300.0, "poll_low_s": 1200.0, "answer_s": 5.0}


@asynccontextmanager
async def living(peer: GrouwPeer, **options: Any) -> AsyncIterator[tuple[GrouwLink, MemoryRadio, list[Any]]]:
    radio = MemoryRadio(peer)
    async with open_context() as context:
        timed = replace(with_bluetooth(context, radio), clock=LoopClock())
        integration = GrouwBle(timed, entry_for(peer, **{**USUAL, **options}))
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


async def test_a_mower_in_its_station_is_let_go():
    peer = make_peer(time_scale=1.0)
    async with living(peer) as (_, radio, reported):
        free = 0
        for _ in range(3600):
            await asyncio.sleep(1)
            free += not radio.open
        assert free > 3500, "a phone can have it nearly all the time"
        assert 11 <= radio.connections <= 14
        assert len(states(reported)) == radio.connections == peer.count(responder.STATUS)


async def test_a_kept_connection_lives_through_the_night():
    peer = make_peer(time_scale=1.0)
    async with living(peer, releases=False) as (_, radio, reported):
        await asyncio.sleep(8 * 3600)
        assert (radio.connections, len(radio.open)) == (1, 1)
        assert 90 <= len(states(reported)) <= 100


async def test_a_whole_job():
    peer = make_peer(time_scale=1.0)
    async with living(peer) as (link, radio, reported):
        assert (await link.send(commands.StartMow())).kind == "accepted"
        await asyncio.sleep(3 * 3600)
        seen = list(dict.fromkeys(state.activity for state in states(reported)))
        assert seen == [Activity.DOCKED, Activity.MOWING, Activity.RETURNING]
        assert states(reported)[-1].activity is Activity.DOCKED
        assert events(reported) == ["MowingStarted", "MowingFinished", "Docked"]
        assert peer.orders() == [START]
        assert not radio.open


async def test_a_mower_that_was_left_on_the_lawn_with_a_low_battery_is_not_asked_flat():
    peer = make_peer(time_scale=1.0)
    peer.machine.station, peer.machine.battery = 0, 12.0
    async with living(peer) as (_, radio, reported):
        assert states(reported)[-1].activity is Activity.PAUSED
        await asyncio.sleep(1800)
        connections = radio.connections
        await asyncio.sleep(8 * 3600)
        assert radio.connections - connections <= 8 * 3 + 1, "at most every twenty minutes"
        assert not radio.open


async def test_a_mower_that_says_nothing_known_is_let_sleep_too():
    peer = make_peer(time_scale=1.0)
    peer.machine.station, peer.machine.mode = 0, 0x63
    async with living(peer) as (_, radio, _reported):
        await asyncio.sleep(1200)
        count = peer.count(responder.STATUS)
        await asyncio.sleep(3600)
        assert peer.count(responder.STATUS) - count <= 13
        assert not radio.open


async def test_a_confirmation_is_looked_for_each_second_and_not_for_ever():
    peer = make_peer(time_scale=1.0)
    async with living(peer) as (link, _, _reported):
        peer.faults.lost_orders = 1
        before = peer.count(responder.STATUS)
        await link.send(commands.StartMow())
        await asyncio.sleep(3600)
        assert 50 <= peer.count(responder.STATUS) - before <= 80
        assert peer.orders() == []


async def test_a_motion_that_waited_too_long_is_not_passed_on():
    peer = make_peer(time_scale=1.0)
    async with living(peer, answer_s=10.0) as (link, _, _reported):
        peer.faults.lost_answers, peer.faults.delay_s = 2, 3.0
        outcome = await link.send(commands.StartMow())
        assert (outcome.kind, outcome.reason) == ("refused", "the mower could not be reached in time")
        await asyncio.sleep(600)
        assert peer.orders() == []
