"""The same over the virtual radio and the box's Bluetooth service: the contract, and faults of air and bridge."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("bumble")

from core.domain import commands
from core.domain.drive import DriveFrame
from core.domain.errors import InvalidInputError, LinkLostError, LinkTimeoutError
from core.domain.mower import Activity, LinkKind
from core.platform.integration import Integration, IntegrationContext
from edge_agent.bluetooth.discovery import matches
from edge_agent.virtual_radio.emulation import make_peer
from integrations.ardumower import create
from integrations.ardumower.ble_line import open_ble_line
from integrations.ardumower.emulator import SunrayPeer, make_emulated_peer
from integrations.ardumower.link import ArdumowerLink
from integrations.ardumower.responder import SunrayBrain
from integrations.ardumower.wire import Op
from tests.contract.flow_person import form, running_flows, title
from tests.contract.integration_contract import IntegrationContract, open_context
from tests.integrations.ardumower.peers import (
    ADDRESS,
    QUICK_RHYTHM,
    Running,
    ble_entry,
    make_link,
    running,
    wait_for,
    with_bluetooth,
)
from tests.integrations.ardumower.radio import OnAir, on_air
from tests.integrations.ardumower.test_config_flow import manifest


def sunray(time_scale: float = 8.0) -> SunrayPeer:
    return SunrayPeer(ADDRESS, SunrayBrain(time_scale=time_scale))


class TestOverTheAirContract(IntegrationContract):
    @asynccontextmanager
    async def make(self, context: IntegrationContext) -> AsyncIterator[Integration]:
        async with on_air(sunray()) as world:
            yield create(with_bluetooth(context, world.bluetooth), ble_entry())


@asynccontextmanager
async def linked(peer: SunrayPeer, world: OnAir) -> AsyncIterator[Running]:
    async with open_context() as context:
        link = make_link(
            context,
            lambda: open_ble_line(world.bluetooth, ADDRESS, context.clock, deadline_s=20.0),
            rhythm=replace(QUICK_RHYTHM, max_silences=4),
        )
        async with running(link, 20.0) as found:
            yield found


@pytest.mark.parametrize("fault", ["lose_notifications", "corrupt_notifications"])
async def test_one_bad_notification_costs_one_answer(fault: str):
    peer = sunray()
    async with on_air(peer) as world, linked(peer, world) as found:
        setattr(world.hosted.faults, fault, 1)
        count = len(found.states)
        await found.until(lambda _: len(found.states) > count + 2, 5.0, "more states")
        assert (await found.link.send(commands.StartMow())).kind == "accepted"


async def test_merged_notifications():
    peer = sunray()
    async with on_air(peer) as world, linked(peer, world) as found:
        world.hosted.faults.is_merging = True
        assert (await found.link.send(commands.StartMow())).kind == "accepted"
        await found.until(lambda s: s.activity is Activity.MOWING, 5.0, "mowing")


@pytest.mark.parametrize("happening", ["kick", "mid_frame", "reboot", "out_of_range"])
async def test_the_ways_in_which_a_connection_ends(happening: str):
    peer = sunray()
    async with on_air(peer) as world:
        async with linked(peer, world) as found:
            match happening:
                case "kick":
                    await world.hosted.kick()
                case "mid_frame":
                    world.hosted.faults.hang_up_after = 1
                case "reboot":
                    await world.hosted.reboot(0.2)
                case _:
                    world.air.set_out_of_range("hci0", ADDRESS)
            error = await found.ended(10.0)
            assert isinstance(error, (LinkLostError, LinkTimeoutError))
            assert error.retryable
        if happening == "out_of_range":
            world.air.set_out_of_range("hci0", ADDRESS, False)
        async with linked(peer, world) as again:
            assert again.latest.activity in (Activity.DOCKED, Activity.CHARGING, Activity.IDLE)
        assert not any(body.startswith(("AT+C", "AT+M")) for body in peer.brain.heard)


async def test_a_drop_during_a_start_repeats_nothing():
    peer = sunray()
    async with on_air(peer) as world:
        async with linked(peer, world) as found:
            peer.faults.drop_on_request = "AT+C,-1,1"
            try:
                outcome = await found.link.send(commands.StartMow())
            except LinkLostError:
                outcome = None
            assert outcome is None or outcome.kind == "unknown"
            peer.faults.drop_on_request = None
            await found.ended(5.0)
        async with linked(peer, world) as again:
            await again.until(lambda s: s.activity is Activity.MOWING, 5.0, "what the mower heard")
            await again.watch(0.3)
        assert sum(body.startswith("AT+C,-1,1") for body in peer.brain.heard) == 1


async def test_leaving_the_link_while_driving_stops_the_mower():
    peer = sunray(time_scale=1.0)
    async with on_air(peer) as world:
        async with linked(peer, world) as found:
            link = found.link
            assert isinstance(link, ArdumowerLink)
            assert (await link.send(commands.ManualDrive())).kind == "accepted"
            await link.drive(DriveFrame(sequence=1, linear=-1.0, angular=0.0, ttl_ms=1000))
            await wait_for(lambda: peer.brain.robot.is_moving, "moving")
        assert peer.brain.heard[-1] == "AT+M,0.00,0.00", "said before the radio hung up"
        assert not peer.brain.robot.is_moving


async def test_out_of_reach_while_driving_the_firmware_stops():
    peer = sunray(time_scale=1.0)
    async with on_air(peer) as world, linked(peer, world) as found:
        link = found.link
        assert isinstance(link, ArdumowerLink)
        assert (await link.send(commands.ManualDrive())).kind == "accepted"
        await link.drive(DriveFrame(sequence=1, linear=-1.0, angular=0.0, ttl_ms=1000))
        await wait_for(lambda: peer.brain.robot.is_moving, "moving")
        world.air.set_out_of_range("hci0", ADDRESS)
        peer.brain.advance_to(asyncio.get_running_loop().time() + 1.1)
        assert not peer.brain.robot.is_moving
        await found.ended(10.0)


async def test_what_is_advertised_is_what_the_manifest_looks_for():
    peer = sunray()
    async with on_air(peer) as world:
        await wait_for(lambda: world.bluetooth.latest(ADDRESS) is not None, "an advertisement")

        def heard_name() -> bool:
            heard = world.bluetooth.latest(ADDRESS)
            return heard is not None and heard.name is not None

        await wait_for(heard_name, "the name")
        heard = world.bluetooth.latest(ADDRESS)
        assert heard is not None
        assert any(matches(matcher, heard) for matcher in manifest().bluetooth)
        other = replace(heard, name="BT05-lamp")
        assert not any(matches(matcher, other) for matcher in manifest().bluetooth), (
            "other serial bridges are no mowers"
        )


def test_what_can_be_chosen_on_the_command_line():
    made = make_emulated_peer(
        "C0:00:00:00:00:01", {"name": "Rob", "password": "77", "time_scale": "5", "robot_id": "ab"}
    )
    assert (made.name, made.brain.password, made.brain.time_scale, made.brain.robot_id) == ("Rob", 77, 5.0, "ab")
    assert made.brain.robot.op is Op.CHARGE
    assert make_emulated_peer("C0:00:00:00:00:01", {"password": ""}).brain.password is None
    assert isinstance(make_peer("ardumower", "c0:00:00:00:00:01", {}), SunrayPeer)
    wrong_options: list[dict[str, str]] = [
        {"password": "0"}, {"password": "secret"}, {"time_scale": "nan"}, {"time_scale": "x"}, {"colour": "red"}
    ]  # fmt: skip
    for wrong in wrong_options:
        with pytest.raises(InvalidInputError) as caught:
            make_emulated_peer("C0:00:00:00:00:01", wrong)
        assert "secret" not in str(caught.value)


async def test_a_fixed_passkey_is_entered_once_and_the_bond_carries_the_link(tmp_path: Path):
    peer = SunrayPeer(ADDRESS, SunrayBrain(), passkey=42_137)
    async with on_air(peer) as world:
        async with running_flows("ardumower", tmp_path, world.bluetooth) as who:
            await who.start("discovery", address=ADDRESS, name="Rob")
            await who.give()
            given = {"name": "Rob", "password": "123456", "cells": 7, "rotation_deg": 0.0}
            assert form(await who.give(**given)) == ("passkey", {})
            assert form(await who.give(passkey="999999")) == ("passkey", {"passkey": "wrong_passkey"})
            assert title(await who.give(passkey="042137")) == "Rob"
            assert who.entry().data["is_bonded"] is True
        async with open_context() as context:
            link = make_link(
                context,
                lambda: open_ble_line(world.bluetooth, ADDRESS, context.clock, is_bonded=True),
                link=LinkKind.BLE,
            )
            async with running(link, 20.0) as found:
                assert found.latest.activity in (Activity.DOCKED, Activity.CHARGING, Activity.IDLE)
