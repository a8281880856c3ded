"""An unmodified client that we did not write, `automower-ble`, against the emulated mower over the virtual radio.

It is GPL: a peer of these tests and nothing else; no module that ships imports it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("bumble")
pytest.importorskip("automower_ble")

import bleak
from automower_ble.mower import Mower

from edge_agent.virtual_radio.air import VirtualAir
from edge_agent.virtual_radio.backend import VirtualBackend
from integrations.husqvarna_ble.emulated_machine import Traits
from integrations.husqvarna_ble.emulator import HusqvarnaPeer
from integrations.husqvarna_ble.wire import MowerActivity, Operation, State, Task
from tests.integrations.husqvarna_ble.mowers import CHANNEL, make_peer


@asynccontextmanager
async def client(
    peer: HusqvarnaPeer, monkeypatch: pytest.MonkeyPatch, pin: int | None = 1234
) -> AsyncIterator[tuple[Any, VirtualBackend]]:
    """A connected client of theirs. bleak is told to use the virtual radio, as for every library that makes its own
    BleakClient: there is no other way in without changing the library."""
    async with VirtualAir(seed=3) as air:
        backend = await air.add_adapter("hci0")
        await air.add_peer(peer)
        monkeypatch.setattr(bleak, "get_platform_client_backend_type", lambda: (backend.client, "virtual"))
        monkeypatch.setattr(bleak, "get_platform_scanner_backend_type", lambda: (backend.scanner, "virtual"))
        device = await bleak.BleakScanner.find_device_by_address(peer.address, timeout=10)
        assert device is not None
        theirs = Mower(CHANNEL, peer.address, pin)
        assert await theirs.connect(device)
        try:
            yield theirs, backend
        finally:
            if theirs.is_connected():
                await theirs.disconnect()


async def test_battery_state_activity_park_pause_resume(monkeypatch):
    peer = HusqvarnaPeer(traits=Traits(mowing_s=36_000.0))
    peer.machine.battery = 60.0
    async with client(peer, monkeypatch) as (theirs, _):
        assert await theirs.battery_level() == 60
        assert await theirs.mower_state() == State.RESTRICTED
        assert await theirs.mower_activity() == MowerActivity.PARKED
        assert await theirs.command("IsCharging") == 0

        await theirs.mower_override(1.0)
        assert await theirs.mower_activity() == MowerActivity.GOING_OUT
        await asyncio.sleep(30)
        assert await theirs.mower_activity() == MowerActivity.MOWING
        assert await theirs.mower_state() == State.IN_OPERATION

        await theirs.mower_pause()
        assert await theirs.mower_state() == State.PAUSED
        await theirs.mower_resume()
        assert await theirs.mower_state() == State.IN_OPERATION
        assert await theirs.mower_activity() == MowerActivity.MOWING

        await theirs.mower_park()
        assert await theirs.mower_activity() == MowerActivity.GOING_HOME
        await asyncio.sleep(45)
        await theirs.battery_level()
        await asyncio.sleep(45)
        assert await theirs.mower_activity() == MowerActivity.CHARGING
        assert await theirs.command("IsCharging") == 1
        assert 59 <= await theirs.battery_level() <= 62
    assert peer.heard.count(Operation.ENTER_OPERATOR_PIN) == 1


async def test_who_it_is_its_plan_and_its_messages(monkeypatch):
    peer = make_peer()
    peer.machine.tasks.append(Task(start_s=28_800, duration_s=7_200, days=(True,) * 5 + (False,) * 2))
    peer.machine.next_start = 1_780_387_200
    peer.machine.fail(9)
    async with client(peer, monkeypatch) as (theirs, _):
        assert await theirs.get_manufacturer() == "Husqvarna"
        assert "305" in str(await theirs.get_model())
        assert await theirs.command("GetSerialNumber") == 230412223
        assert await theirs.command("GetNumberOfTasks") == 1
        task = await theirs.get_task(0)
        assert (task.next_start_time, task.duration_in_seconds, task.on_monday, task.on_sunday) == (
            28_800,
            7_200,
            True,
            False,
        )
        assert await theirs.mower_next_start_time() is not None
        assert await theirs.mower_state() == State.ERROR
        assert await theirs.command("GetError") == 9
        statistics = await theirs.command("GetAllStatistics")
        assert statistics["totalRunningTime"] == peer.machine.statistics.running_s
        assert statistics["cuttingBladeUsageTime"] == peer.machine.statistics.blade_usage_s
        assert (await theirs.command("GetMessage", messageId=0))["code"] == 9


async def test_without_the_pin_it_is_told_nothing(monkeypatch):
    peer = make_peer()
    async with client(peer, monkeypatch, pin=9999) as (theirs, _):
        with pytest.raises(IndexError):  # what this version makes of "not allowed"
            await theirs.battery_level()
    assert peer.lock.wrong == 1


async def test_it_is_kept_alive_for_minutes(monkeypatch):
    peer = make_peer(time_scale=1.0)
    async with client(peer, monkeypatch) as (theirs, _):
        for _ in range(8):
            await asyncio.sleep(40)
            assert await theirs.battery_level() == 100
        assert theirs.is_connected()
        await asyncio.sleep(120)
    assert len(peer.responders) == 0
