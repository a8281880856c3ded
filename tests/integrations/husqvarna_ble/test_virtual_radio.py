"""The same over the virtual radio and the box's Bluetooth service: contract, faults of air and firmware, pairing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("bumble")

from core.domain import commands
from core.domain.clock import SystemClock
from core.domain.errors import (
    AuthFailedError,
    InvalidInputError,
    LinkLostError,
    MowdeckError,
)
from core.domain.mower import Activity
from core.platform.integration import Integration, IntegrationContext, key_of
from edge_agent.bluetooth.bond_book import BondBook
from edge_agent.bluetooth.service import BluetoothService
from edge_agent.virtual_radio.air import VirtualAir
from edge_agent.virtual_radio.box_adapter import box_adapter
from edge_agent.virtual_radio.emulation import make_peer as make_peer_of_host
from integrations.husqvarna_ble import create
from integrations.husqvarna_ble.advertised import advertised_of
from integrations.husqvarna_ble.emulator import HusqvarnaPeer, make_emulated_peer
from integrations.husqvarna_ble.integration import HusqvarnaBle
from integrations.husqvarna_ble.models import product_of
from integrations.husqvarna_ble.wire import Operation
from tests.contract.flow_person import FlowPerson, form, running_flows, title
from tests.contract.integration_contract import IntegrationContract, obeyed, open_context, run_link
from tests.integrations.husqvarna_ble.mowers import entry_for, make_peer, with_bluetooth
from tests.integrations.husqvarna_ble.radio import OnAir, on_air

SLOWER: Mapping[str, Any] = {"answer_s": 1.0, "releases": False}


class TestOverTheAirContract(IntegrationContract):
    @asynccontextmanager
    async def make(self, context: IntegrationContext) -> AsyncIterator[Integration]:
        peer = make_peer()
        async with on_air(peer) as world:
            yield create(with_bluetooth(context, world.bluetooth), entry_for(peer, **SLOWER))


@asynccontextmanager
async def integration_on(peer: HusqvarnaPeer, world: OnAir, pin: str = "1234") -> AsyncIterator[HusqvarnaBle]:
    async with open_context() as context:
        yield HusqvarnaBle(with_bluetooth(context, world.bluetooth, pin), entry_for(peer, **SLOWER))


@asynccontextmanager
async def adding(peer: HusqvarnaPeer, world: OnAir, folder: Path) -> AsyncIterator[FlowPerson]:
    """A person before the form that says what to press on the mower."""
    pace = {"settle_s": 0.0, "pairable_s": 0.5, "answer_s": 1.0}
    async with asyncio.timeout(20):
        while advertised_of(world.bluetooth.latest(peer.address)).is_pairable is None:
            await asyncio.sleep(0.02)
    async with running_flows("husqvarna_ble", folder, world.bluetooth, **pace) as who:
        await who.start("discovery", address=peer.address)
        assert form(await who.give()) == ("pair", {})
        yield who


async def test_pair_and_sign_in(tmp_path: Path):
    peer = make_peer()
    async with on_air(peer, is_paired=False) as world, adding(peer, world, tmp_path) as who:
        assert form(await who.give()) == ("pin", {})
        assert form(await who.give(pin="4321")) == ("pin", {"pin": "wrong_pin"})
        assert title(await who.give(pin="1234")) == "305"
        data = who.entry().data
        assert (data["serial"], data["device_type"], data["variant"]) == ("230412223", 23, 1)
        assert peer.heard.count(Operation.ENTER_OPERATOR_PIN) == 2


async def test_a_mower_that_does_not_pair(tmp_path: Path):
    peer = make_peer()
    peer.faults.not_pairable = True
    async with on_air(peer, is_paired=False) as world, adding(peer, world, tmp_path) as who:
        assert form(await who.give()) == ("pair", {"base": "not_in_pairing_mode"})


async def test_a_mower_that_says_it_pairs_and_refuses(tmp_path: Path):
    peer = make_peer()
    async with on_air(peer, is_paired=False) as world, adding(peer, world, tmp_path) as who:
        world.hosted.faults.is_pairing_closed = True
        assert form(await who.give()) == ("pair", {"base": "not_in_pairing_mode"})


async def test_a_flow_given_up_while_it_pairs_leaves_no_bond(tmp_path: Path):
    peer = make_peer()
    async with on_air(peer, is_paired=False) as world, adding(peer, world, tmp_path) as who:
        peer.faults.lost_answers = 99
        await who.begin()
        async with asyncio.timeout(20):
            while not any(session.is_bonded for session in world.hosted.sessions.values()):
                await asyncio.sleep(0.005)
            who.flows.cancel(who.flow_id)
            while world.hosted.sessions:
                await asyncio.sleep(0.005)
    async with asyncio.timeout(5):
        assert await world.backend.adapter.key_store.get_all() == []


async def test_the_mower_has_forgotten_the_bond():
    peer = make_peer()
    async with on_air(peer) as world, integration_on(peer, world) as integration:
        await world.hosted.forget_bonds()
        mower = (await integration.mowers())[0]
        link = await integration.open(key_of(mower), mower.links[0])
        with pytest.raises(AuthFailedError):
            async with asyncio.timeout(20):
                await link.run(lambda _: None)


async def test_everything_goes_wrong_on_the_air_and_it_goes_on():
    peer = make_peer()
    async with on_air(peer) as world, integration_on(peer, world) as integration:
        mower = (await integration.mowers())[0]
        async with run_link(integration, mower) as link:
            for fault in ("lose_notifications", "corrupt_notifications"):
                setattr(world.hosted.faults, fault, 1)
                count = len(link.states)
                await link.until(lambda _, count=count: len(link.states) > count + 1, 20, fault)
            world.hosted.faults.is_merging = True
            peer.faults.merges_notifications = True
            await obeyed(link, commands.StartMow())
            await obeyed(link, commands.PauseMow())
            assert link.latest.activity is Activity.PAUSED


async def ends(integration: HusqvarnaBle, when_up: Any) -> MowdeckError:
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

        def drop_within_a_frame() -> None:
            peer.faults.drops_mid_frame = 1

        def drop_on_write() -> None:
            peer.faults.drops_on_write = 1

        for happening in (drop_within_a_frame, drop_on_write, world.hosted.kick, lambda: world.hosted.reboot(0.2)):
            error = await ends(integration, happening)
            assert isinstance(error, LinkLostError)
            assert error.retryable
        mower = (await integration.mowers())[0]
        async with run_link(integration, mower) as link:
            assert link.latest.activity is Activity.DOCKED
        assert Operation.START_TRIGGER not in peer.heard, "nothing moves because a connection came back"


async def test_a_silent_mower_is_given_up_on():
    peer = make_peer()
    async with on_air(peer) as world, integration_on(peer, world) as integration:

        def fall_silent() -> None:
            world.hosted.faults.is_mute = True

        error = await ends(integration, fall_silent)
        assert error.retryable


def test_what_can_be_chosen_on_the_command_line():
    made = make_peer_of_host("husqvarna_ble", "C0:00:00:00:00:01", {})
    assert isinstance(made, HusqvarnaPeer)
    peer = make_emulated_peer("C0:00:00:00:00:01", {"name": "Ida", "pin": "0123", "serial": "7", "old": "yes"})
    assert (peer.machine.traits.name, peer.machine.traits.serial, peer.lock.pin) == ("Ida", 7, 123)
    assert peer.machine.statistics.blade_usage_s is None
    for wrong in ({"pin": "12345"}, {"pin": "x"}, {"serial": "-1"}, {"colour": "red"}, {"time_scale": "²"}):
        with pytest.raises(InvalidInputError) as caught:
            make_emulated_peer("C0:00:00:00:00:01", wrong)
        assert "12345" not in str(caught.value)


async def test_two_mowers_at_work_share_one_connection():
    """And a stop for the one that waits its turn does not wait long."""
    peers = [make_peer(serial=230412223 + number, mowing_s=36_000.0) for number in (0, 1)]
    peers[1].address = "C4:64:E3:23:04:13"
    async with VirtualAir(seed=5) as air, AsyncExitStack() as stack:
        adapter = box_adapter(await air.add_adapter("hci0"), slots=1)
        bluetooth = await stack.enter_async_context(BluetoothService([adapter], clock=SystemClock(), bonds=BondBook()))
        links = []
        for peer in peers:
            await air.add_peer(peer)
            async with bluetooth.connect(peer.address, bond="pair", deadline_s=20.0):
                pass
            context = with_bluetooth(await stack.enter_async_context(open_context()), bluetooth)
            integration = HusqvarnaBle(context, entry_for(peer, **SLOWER, poll_moving_s=1.0, poll_standing_s=1.0))
            mower = (await integration.mowers())[0]
            links.append(await stack.enter_async_context(run_link(integration, mower)))
        for link in links:
            await obeyed(link, commands.StartMow())
        for link in links:
            count = len(link.states)
            await link.until(lambda _, link=link, count=count: len(link.states) > count + 1, 20, "its turn")
        for link in links:
            await obeyed(link, commands.EmergencyStop())


def test_an_emulated_mower_of_a_sister_brand() -> None:
    peer = make_emulated_peer("C0:00:00:00:00:01", {"name": "SILENO minimo", "model": "99.3", "old": "yes"})
    traits = peer.machine.traits
    assert product_of(traits.model, traits.name).vendor == "gardena"
    for wrong in ("99", "99.x", "256.1", "1.2.3", ""):
        with pytest.raises(InvalidInputError):
            make_emulated_peer("C0:00:00:00:00:01", {"model": wrong})
