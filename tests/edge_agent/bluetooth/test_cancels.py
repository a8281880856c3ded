"""Whoever is cancelled, at whatever moment, leaves no slot taken, no connection open and nobody waiting for ever."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from random import Random

import pytest
from bleak.exc import BleakError

from core.domain.errors import MowdeckError
from edge_agent.bluetooth.bond_book import BondBook
from edge_agent.bluetooth.service import BluetoothService
from edge_agent.virtual_radio.air import VirtualAir
from edge_agent.virtual_radio.box_adapter import box_adapter
from edge_agent.virtual_radio.peer_host import HostedPeer
from tests.edge_agent.bluetooth.test_service import heard
from tests.edge_agent.virtual_radio.echo_mower import COMMAND, NAME, EchoMower
from tests.fakes.warp_loop import LoopClock

MOWERS = [f"C0:00:00:00:00:{number:02X}" for number in range(1, 5)]
ADAPTERS = ("hci0", "hci1")
VISITS = 25


async def visit(bluetooth: BluetoothService, address: str, stay_s: float, *, is_stop: bool = False) -> None:
    """Connects, talks, stays a while; whatever fails on the way is the radio's doing."""
    wanted = asyncio.Event()
    with contextlib.suppress(MowdeckError):
        async with bluetooth.connect(
            address, deadline_s=20, on_wanted=wanted.set, is_urgent=lambda: is_stop
        ) as connection:
            await connection.write(COMMAND, b"x")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(stay_s):
                    await wanted.wait()


async def disturb(air: VirtualAir, mowers: list[HostedPeer], random: Random) -> None:
    """Mowers hang up, go out of range and come back, for as long as it is not cancelled."""
    while True:
        await asyncio.sleep(random.uniform(0.05, 1.5))
        mower, adapter = random.choice(mowers), random.choice(ADAPTERS)
        match random.randrange(4):
            case 0:
                await mower.kick()
            case 1:
                air.cut(adapter, mower.name)
            case 2:
                air.set_out_of_range(adapter, mower.name)
            case _:
                air.set_out_of_range(adapter, mower.name, False)


@pytest.mark.parametrize("seed", range(3))
async def test_random_cancels_leave_every_slot_free(air: VirtualAir, seed: int) -> None:
    random = Random(seed)
    adapters = [box_adapter(await air.add_adapter(name), slots=2) for name in ADAPTERS]
    mowers = [await air.add_peer(EchoMower(address, interval_ms=100)) for address in MOWERS]
    async with BluetoothService(adapters, clock=LoopClock(), bonds=BondBook()) as bluetooth:
        for address in MOWERS:
            await heard(bluetooth, address)
        disturbing = asyncio.create_task(disturb(air, mowers, random))
        visits = []
        for _ in range(VISITS):
            going = visit(bluetooth, random.choice(MOWERS), random.uniform(0, 2), is_stop=random.random() < 0.3)
            visits.append(asyncio.create_task(going))
            await asyncio.sleep(random.choice((0.0, 0.001, 0.02, 0.1, 0.5)))
            random.choice(visits).cancel()
        await asyncio.wait(visits)
        disturbing.cancel()
        await asyncio.wait({disturbing})
        assert not [task for task in visits if not task.cancelled() and task.exception()]

        for adapter in ADAPTERS:
            for address in MOWERS:
                air.set_out_of_range(adapter, address, False)
        await asyncio.sleep(5)
        assert [status.slots_used for status in bluetooth.status()] == [0, 0]
        assert [mower.sessions for mower in mowers] == [{}] * len(MOWERS)
        for address in MOWERS:  # and each of them can be had again
            async with bluetooth.connect(address, deadline_s=60) as connection:
                assert await connection.read(NAME) == b"Echo"
        assert [status.slots_used for status in bluetooth.status()] == [0, 0]


async def test_a_client_that_cannot_even_be_made_leaves_its_slot_free(air: VirtualAir) -> None:
    backend = await air.add_adapter("hci0")
    adapter = box_adapter(backend, slots=1)

    class Broken(backend.client):  # type: ignore[misc, name-defined]
        def __init__(self, *args: object, **kwargs: object) -> None:
            raise BleakError("no such adapter")

    await air.add_peer(EchoMower(MOWERS[0]))
    async with BluetoothService([replace(adapter, client=Broken)], clock=LoopClock(), bonds=BondBook()) as bluetooth:
        await heard(bluetooth, MOWERS[0])
        with pytest.raises(MowdeckError):
            async with bluetooth.connect(MOWERS[0], deadline_s=20):
                pass
        assert [status.slots_used for status in bluetooth.status()] == [0]
