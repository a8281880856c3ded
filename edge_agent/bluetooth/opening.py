"""Opens the box's Bluetooth as the settings want it, or none at all: a box without a radio is a box all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from core.domain.clock import Clock
from core.domain.errors import RequirementMissingError
from core.platform.durable_file import DurableFile
from edge_agent.bluetooth.machine import machine_adapters

if TYPE_CHECKING:  # the library is loaded only where there is an adapter
    from edge_agent.bluetooth.service import BluetoothService

log = structlog.get_logger(__name__)

AUTOMATIC = ("auto",)


@asynccontextmanager
async def open_bluetooth(wanted: Sequence[str], folder: Path, clock: Clock) -> AsyncIterator[BluetoothService | None]:
    """The service over the wanted adapters; None when none is wanted, or when `auto` finds no library. With `auto` and
    no adapter it waits for proxies. Bonds are noted in `folder`. RequirementMissingError, InvalidInputError and
    AdapterOffError for adapters that were named."""
    if not wanted:
        yield None
        return
    try:
        from edge_agent.bluetooth.adapters import open_adapters
        from edge_agent.bluetooth.bond_book import BondBook
        from edge_agent.bluetooth.service import BluetoothService
    except ImportError as err:
        if tuple(wanted) != AUTOMATIC:
            raise RequirementMissingError(f"{err.name} is missing: pip install 'mowdeck[ble]'") from err
        if await asyncio.to_thread(machine_adapters):
            log.warning("an adapter is there, its library is not: pip install 'mowdeck[ble]'", package=err.name)
        yield None
        return
    async with open_adapters(wanted, keys=folder / "virtual-keys.json", clock=clock) as adapters:
        log.info("Bluetooth", adapters=[adapter.name for adapter in adapters])
        bonds = BondBook(DurableFile(folder / "bonds.json"), clock)
        async with BluetoothService(adapters, clock=clock, bonds=bonds) as service:
            yield service
