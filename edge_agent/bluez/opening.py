"""Opens what the box does with BlueZ beside bleak, once for all real adapters."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from edge_agent.bluetooth.adapter import BluetoothAdapter
from edge_agent.bluez.bus import CALL_DEADLINE_S, BluezBus
from edge_agent.bluez.care import BluezCare
from edge_agent.bluez.pairing_agent import BluezAgent

MakeAdapter = Callable[[str], BluetoothAdapter]


@asynccontextmanager
async def open_bluez() -> AsyncIterator[MakeAdapter]:
    """Makes the adapter of a name (`hci0`), with the pairing agent. A bus or a BlueZ that is not there
    is no failure here: both are waited for."""
    bus = BluezBus()
    agent = BluezAgent(bus)

    def make(name: str) -> BluetoothAdapter:
        return BluetoothAdapter(name=name, agent=agent.on_adapter(name), care=BluezCare(bus, name))

    group = asyncio.TaskGroup()
    await group.__aenter__()
    connection = group.create_task(bus.run(), name="bluez bus")
    registration = group.create_task(agent.run(), name="bluez pairing agent")
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CALL_DEADLINE_S):
                await bus.tried.wait()
        yield make
    finally:
        registration.cancel()
        await asyncio.wait([registration])  # it says goodbye over the connection
        connection.cancel()
        await group.__aexit__(None, None, None)  # what the caller fails with is not the group's to wrap
