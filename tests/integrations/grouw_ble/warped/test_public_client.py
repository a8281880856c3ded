"""The unmodified client of pygrouw against the emulated mower over the virtual radio.

The box uses only the codec of that library; the emulated mower uses nothing of it, so the two check each other here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

pytest.importorskip("bumble")
pytest.importorskip("pygrouw")

import bleak
from pygrouw import GrouwBleAuthenticationError, GrouwBleMowerClient, GrouwBleTimeout, GrouwMower, discover_devices

from edge_agent.virtual_radio.air import VirtualAir
from integrations.grouw_ble.emulated_machine import DOCK, PAUSE, RESUME, START
from integrations.grouw_ble.emulator import GrouwPeer
from tests.integrations.grouw_ble.mowers import PIN, make_peer


@asynccontextmanager
async def client(
    peer: GrouwPeer, monkeypatch: pytest.MonkeyPatch, pin: str = PIN
) -> AsyncIterator[GrouwBleMowerClient]:
    """A client of theirs. bleak is told to use the virtual radio, as for every library that makes its own BleakClient:
    there is no other way in without changing the library."""
    async with VirtualAir(seed=3) as air:
        backend = await air.add_adapter("hci0")
        await air.add_peer(peer)
        monkeypatch.setattr(bleak, "get_platform_client_backend_type", lambda: (backend.client, "virtual"))
        monkeypatch.setattr(bleak, "get_platform_scanner_backend_type", lambda: (backend.scanner, "virtual"))
        found = await discover_devices(timeout=3)
        assert [(mower.address, mower.name) for mower in found] == [(peer.address, peer.machine.traits.name)]
        yield GrouwBleMowerClient(peer.address, pin=pin, device=found[0].device)


async def test_status_start_pause_resume_dock(monkeypatch):
    peer = make_peer(time_scale=1.0)
    peer.machine.battery = 64.0
    async with client(peer, monkeypatch) as theirs:
        mower = GrouwMower(theirs)
        state = await mower.async_update()
        assert (state.battery_level, state.mode, state.station) == (64, 0x14, True)
        await mower.async_start()
        await asyncio.sleep(15)
        state = await mower.async_update()
        assert (state.mode, state.station) == (0x00, False)
        await mower.async_pause()
        await asyncio.sleep(2)
        assert (await mower.async_update()).mode == 0x14
        await mower.async_resume()
        await asyncio.sleep(2)
        assert (await mower.async_update()).mode == 0x00
        await mower.async_dock()
        await asyncio.sleep(2)
        assert (await mower.async_update()).mode == 0x03
        await asyncio.sleep(60)
        state = await mower.async_update()
        assert (state.mode, state.station) == (0x14, True)
    assert peer.orders() == [START, PAUSE, RESUME, DOCK]
    assert peer.memory.beeps == 0


async def test_settings_areas_and_hours(monkeypatch):
    peer = make_peer(time_scale=1.0)
    async with client(peer, monkeypatch) as theirs:
        settings = (await theirs.async_get_mower_settings())["mower_settings"]
        assert (settings["boundary_cut"], settings["rain_delay_hour"], settings["rain_delay_minute"]) == (True, 2, 30)
        await theirs.async_set_mower_settings(
            mow_in_rain=True, boundary_cut=False, helix=True, rain_delay_hours=1, rain_delay_minutes=5
        )
        assert peer.memory.settings == bytes((1, 0, 0, 1, 1, 5))
        areas = (await theirs.async_get_multi_area())["multi_area"]
        assert (areas["area2_percentage"], areas["area2_distance"]) == (20, 35)
        await theirs.async_set_multi_area(30, 123, 40, 7)
        times = await theirs.async_get_work_times()
        assert times["work_time_starts"][0] == {"day": "monday", "hour": 9, "minute": 0}
        await theirs.async_set_work_times([(10, 30)] * 7, [(5, 5)] * 7)
        assert peer.memory.starts == bytes((10,) * 7 + (30,) * 7)
    assert peer.memory.beeps > 0
    assert peer.memory.local_time


async def test_the_pin_and_its_change(monkeypatch):
    peer = make_peer(time_scale=1.0, needs_session=True)
    async with client(peer, monkeypatch) as theirs:
        await theirs.async_change_pin("4321")
        assert peer.memory.pin == "4321"
        await theirs.async_get_multi_area()
        peer.memory.pin = "9999"
        with pytest.raises(GrouwBleAuthenticationError):
            await theirs.async_get_multi_area()


async def test_a_mower_that_does_not_answer(monkeypatch):
    peer = make_peer(time_scale=1.0)
    async with client(peer, monkeypatch) as theirs:
        peer.faults.lost_answers = 1
        with pytest.raises(GrouwBleTimeout):
            await theirs.async_get_all_info()
        assert (await theirs.async_get_all_info())["battery_level"] == 100
