"""The box's Bluetooth service on a virtual radio, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from edge_agent.bluetooth.bond_book import BondBook
from edge_agent.bluetooth.service import BluetoothService
from edge_agent.virtual_radio.air import VirtualAir
from edge_agent.virtual_radio.box_adapter import box_adapter
from tests.fakes.warp_loop import LoopClock, WarpLoop


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> dict[str, type[WarpLoop]]:
    return {"warp": WarpLoop}


@pytest.fixture
async def air() -> AsyncIterator[VirtualAir]:
    async with VirtualAir(seed=7) as radio:
        yield radio


@pytest.fixture
async def bluetooth(air: VirtualAir) -> AsyncIterator[BluetoothService]:
    """One adapter, hci0, with two slots."""
    adapter = box_adapter(await air.add_adapter("hci0"), slots=2)
    async with BluetoothService([adapter], clock=LoopClock(), bonds=BondBook()) as service:
        yield service
