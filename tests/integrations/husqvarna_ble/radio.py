"""The emulated mower on the virtual radio, and the box's own Bluetooth service over it: as close to the air as it gets
without hardware."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

pytest.importorskip("bumble")

from core.domain.clock import SystemClock
from edge_agent.bluetooth.bond_book import BondBook
from edge_agent.bluetooth.service import BluetoothService
from edge_agent.virtual_radio.air import VirtualAir
from edge_agent.virtual_radio.backend import VirtualBackend
from edge_agent.virtual_radio.box_adapter import box_adapter
from edge_agent.virtual_radio.peer_host import HostedPeer
from integrations.husqvarna_ble.emulator import HusqvarnaPeer


@dataclass(frozen=True, slots=True, kw_only=True)
class OnAir:
    """A mower on the air, and a box that hears it."""

    air: VirtualAir
    backend: VirtualBackend
    hosted: HostedPeer
    bluetooth: BluetoothService


@asynccontextmanager
async def on_air(peer: HusqvarnaPeer, *, is_paired: bool = True) -> AsyncIterator[OnAir]:
    async with VirtualAir(seed=11) as air:
        backend = await air.add_adapter("hci0")
        hosted = await air.add_peer(peer)
        adapter = box_adapter(backend)
        async with BluetoothService([adapter], clock=SystemClock(), bonds=BondBook()) as bluetooth:
            if is_paired:
                async with bluetooth.connect(peer.address, bond="pair", deadline_s=20.0):
                    pass
            yield OnAir(air=air, backend=backend, hosted=hosted, bluetooth=bluetooth)
