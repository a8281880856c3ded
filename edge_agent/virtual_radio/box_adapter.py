"""A virtual adapter in the shape in which the box's Bluetooth service takes adapters."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from edge_agent.bluetooth.adapter import SLOTS, BluetoothAdapter
from edge_agent.virtual_radio.adapter import VirtualAdapter
from edge_agent.virtual_radio.backend import VirtualBackend


def box_adapter(backend: VirtualBackend, *, slots: int = SLOTS) -> BluetoothAdapter:
    """For `BluetoothService([box_adapter(await air.add_adapter("hci0"))], ...)`."""
    return BluetoothAdapter(
        name=backend.adapter.name,
        slots=slots,
        client=backend.client,
        scanner=backend.scanner,
        agent=VirtualAgent(backend.adapter),
    )


class VirtualAgent:
    """Implements `edge_agent.bluetooth.adapter.PairingAgent`."""

    def __init__(self, adapter: VirtualAdapter) -> None:
        self._adapter = adapter

    @asynccontextmanager
    async def expecting(self, address: str, passkey: int | None) -> AsyncIterator[None]:
        async def answer(peer: str) -> int | None:
            return passkey if peer == address else None

        self._adapter.ask_passkey = answer if passkey is not None else None
        try:
            yield
        finally:
            self._adapter.ask_passkey = None
