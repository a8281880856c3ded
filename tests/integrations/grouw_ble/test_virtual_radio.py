"""The same over the virtual radio and the box's Bluetooth service: contract, adding, faults of air and firmware."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("bumble")
pytest.importorskip("pygrouw")

from core.domain import commands
from core.domain.clock import SystemClock
from core.domain.errors import (
    BluetoothError,
    InvalidInputError,
    LinkLostError,
    MowdeckError,
    WrongPinError,
)
from core.domain.mower import Activity
from core.platform.integration import Integration, IntegrationContext, key_of
from integrations.grouw_ble import create, responder
from integrations.grouw_ble.emulated_machine import PAUSE, START
from integrations.grouw_ble.emulator import GrouwPeer, make_emulated_peer
from integrations.grouw_ble.integration import GrouwBle
from integrations.grouw_ble.probe import check_pin
from tests.contract.integration_contract import IntegrationContract, obeyed, open_context, run_link
from tests.integrations.grouw_ble.mowers import PIN, entry_for, make_peer, with_bluetooth
from tests.integrations.grouw_ble.radio import OnAir, on_air

SLOWER: Mapping[str, Any] = {"answer_s": 1.0, "releases": False}


class TestOverTheAirContract(IntegrationContract):
    options: Mapping[str, Any] = SLOWER

    @asynccontextmanager
    async def make(self, context: IntegrationContext) -> AsyncIterator[Integration]:
        peer = make_peer()
        async with on_air(peer) as world:
            yield create(with_bluetooth(context, world.bluetooth), entry_for(peer, **self.options))


@asynccontextmanager
async def integration_on(peer: GrouwPeer, world: OnAir, **options: Any) -> AsyncIterator[GrouwBle]:
    async with open_context() as context:
        yield GrouwBle(with_bluetooth(context, world.bluetooth), entry_for(peer, **{**SLOWER, **options}))


async def check(peer: GrouwPeer, world: OnAir, pin: str) -> None:
    async with world.bluetooth.connect(peer.address) as connection:
        await check_pin(connection, pin, clock=SystemClock(), answer_s=0.5)


async def test_the_pin_is_compared_without_pairing():
    peer = make_peer()
    async with on_air(peer) as world:
        await check(peer, world, PIN)
        with pytest.raises(WrongPinError):
            await check(peer, world, "0000")
    assert peer.memory.beeps == 0
    assert peer.orders() == []


async def test_a_mower_that_wants_a_session_first():
    peer = make_peer(needs_session=True)
    async with on_air(peer) as world:
        await check(peer, world, PIN)
    local = SystemClock().now().astimezone()
    assert peer.memory.local_time[:4] == (local.year, local.month, local.day, local.hour)


async def test_everything_goes_wrong_on_the_air_and_it_goes_on():
    peer = make_peer(mows_s=36_000.0)
    async with on_air(peer) as world, integration_on(peer, world) as integration:
        mower = (await integration.mowers())[0]
        async with run_link(integration, mower) as link:
            for fault in ("lose_notifications", "corrupt_notifications"):
                setattr(world.hosted.faults, fault, 1)
                count = len(link.states)
                await link.until(lambda _, count=count: len(link.states) > count + 1, 20, fault)
            world.hosted.faults.answer_delay_s = 0.2
            world.hosted.faults.is_merging = True
            peer.faults.joins_answers = True
            peer.faults.piece_bytes = 9
            await obeyed(link, commands.StartMow())
            await obeyed(link, commands.PauseMow())
            assert link.latest.activity is Activity.PAUSED
            assert link.latest.signals is not None
            assert link.latest.signals.ble_dbm is not None
    assert peer.orders() == [START, PAUSE]


async def ends(integration: GrouwBle, when_up: Any) -> MowdeckError:
    """The error with which the link ends after `when_up`."""
    mower = (await integration.mowers())[0]
    link = await integration.open(key_of(mower), mower.links[0])
    states: list[object] = []
    task = asyncio.get_running_loop().create_task(link.run(states.append))
    async with asyncio.timeout(10):
        while not states:
            await asyncio.sleep(0.02)
    result = when_up()
    if asyncio.iscoroutine(result):
        await result
    await asyncio.wait({task}, timeout=20)
    assert task.done()
    error = task.exception()
    assert isinstance(error, MowdeckError)
    return error


async def test_the_ways_in_which_a_connection_ends():
    peer = make_peer()
    async with on_air(peer) as world, integration_on(peer, world) as integration:

        def drop_within_an_answer() -> None:
            peer.faults.drops_mid_answer = 1

        def drop_on_write() -> None:
            peer.faults.drops_on_write = 1

        def hang_up() -> None:
            world.hosted.faults.hang_up_after = 1

        ways = (drop_within_an_answer, drop_on_write, hang_up, world.hosted.kick, lambda: world.hosted.reboot(0.2))
        for happening in ways:
            error = await ends(integration, happening)
            assert isinstance(error, LinkLostError)
            assert error.retryable
        mower = (await integration.mowers())[0]
        async with run_link(integration, mower) as link:
            assert link.latest.activity is Activity.DOCKED
    assert peer.orders() == [], "nothing moves because a connection came back"


async def test_a_mower_that_restarts_on_the_lawn_is_not_started_again():
    peer = make_peer(mows_s=36_000.0)
    async with on_air(peer) as world, integration_on(peer, world) as integration:
        mower = (await integration.mowers())[0]
        async with run_link(integration, mower) as link:
            await obeyed(link, commands.StartMow())
        error = await ends(integration, lambda: world.hosted.reboot(0.2))
        assert isinstance(error, LinkLostError)
        async with run_link(integration, mower) as link:
            await link.watch(0.5)
            assert link.latest.activity is Activity.PAUSED
    assert peer.orders() == [START]


async def test_the_connection_drops_with_an_order():
    peer = make_peer()
    async with on_air(peer) as world, integration_on(peer, world) as integration:
        mower = (await integration.mowers())[0]
        link = await integration.open(key_of(mower), mower.links[0])
        states: list[object] = []
        task = asyncio.get_running_loop().create_task(link.run(states.append))
        async with asyncio.timeout(10):
            while not states:
                await asyncio.sleep(0.02)
        peer.faults.drops_on_order = 1
        outcome = await link.send(commands.StartMow())
        assert outcome.kind in ("accepted", "unknown"), "the radio may or may not have confirmed the write"
        await asyncio.wait({task}, timeout=20)
        assert isinstance(task.exception(), LinkLostError)
        async with run_link(integration, mower) as after:
            await after.until(lambda s: s.activity is Activity.MOWING, 10, "what has become of it")
    assert peer.orders() == [START]


async def test_a_silent_mower_is_given_up_on():
    peer = make_peer()
    async with on_air(peer) as world, integration_on(peer, world) as integration:

        def fall_silent() -> None:
            world.hosted.faults.is_mute = True

        assert (await ends(integration, fall_silent)).retryable


async def test_a_phone_holds_the_mower():
    peer = make_peer()
    async with on_air(peer) as world, integration_on(peer, world) as integration:
        async with asyncio.timeout(5):
            while world.bluetooth.latest(peer.address) is None:
                await asyncio.sleep(0.02)
        world.hosted.faults.is_occupied = True
        world.hosted.refresh()
        await world.hosted.settled()
        with pytest.raises(BluetoothError):
            async with world.bluetooth.connect(peer.address, deadline_s=2.0):
                pass
        world.hosted.faults.is_occupied = False
        world.hosted.refresh()
        mower = (await integration.mowers())[0]
        async with run_link(integration, mower) as link:
            assert link.latest.activity is Activity.DOCKED


async def test_small_packets():
    peer = make_peer(mows_s=36_000.0)
    peer.mtu = 23
    async with on_air(peer) as world, integration_on(peer, world) as integration:
        mower = (await integration.mowers())[0]
        async with run_link(integration, mower) as link:
            await obeyed(link, commands.StartMow())
            await obeyed(link, commands.EmergencyStop())
    assert peer.orders() == [START, PAUSE]
    assert peer.count(responder.STATUS) > 2


def test_what_can_be_chosen_on_the_command_line():
    peer = make_emulated_peer("C0:00:00:00:00:01", {"name": "RobotMower_DYM7", "pin": "0123", "time_scale": "9"})
    assert (peer.machine.traits.name, peer.memory.pin, peer.time_scale) == ("RobotMower_DYM7", "0123", 9.0)
    assert make_emulated_peer("C0:00:00:00:00:01", {}).machine.traits.name == "Robot Mower_DYM"
    wrong: list[dict[str, str]] = [
        {"pin": "12345"},
        {"pin": "x"},
        {"name": ""},
        {"name": "x" * 30},
        {"colour": "red"},
        {"time_scale": "²"},
        {"time_scale": "0"},
    ]
    for options in wrong:
        with pytest.raises(InvalidInputError) as caught:
            make_emulated_peer("C0:00:00:00:00:01", options)
        assert "12345" not in str(caught.value)
