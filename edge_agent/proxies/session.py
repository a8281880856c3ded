"""One connection to a proxy: what the proxy is, its slots, and the adapter that it makes for the box."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, cast

import structlog
from aioesphomeapi.client import APIClient
from aioesphomeapi.model import (
    BluetoothProxyFeature,
    BluetoothScannerMode,
    BluetoothScannerStateResponse,
    DeviceInfo,
)
from bleak_esphome.backend.client import ESPHomeClientData
from bleak_esphome.backend.device import ESPHomeBluetoothDevice
from bluetooth_data_tools import int_to_bluetooth_address, mac_to_int

from edge_agent.bluetooth.adapter import BluetoothAdapter
from edge_agent.bluetooth.slot_count import slots_left
from edge_agent.proxies.client import ProxyClient
from edge_agent.proxies.scanner import Packets, ProxyScanner

log = structlog.get_logger(__name__)

NEEDED = BluetoothProxyFeature.RAW_ADVERTISEMENTS
"""ESPHome 2023.6 and later."""


class _Radio:
    """All that bleak-esphome's client asks of its scanner: to be told that it connects. The firmware goes on
    scanning as it sees fit."""

    @contextmanager
    def connecting(self) -> Iterator[None]:
        yield


class ProxySession:
    """Implements the adapter's `SlotMeter` and the scanner's `Ear`. `client` is connected."""

    def __init__(self, client: APIClient, info: DeviceInfo, on_change: Callable[[], None], *, confirm_s: float) -> None:
        assert client.api_version is not None
        self.confirm_s = confirm_s
        self._client = client
        self._info = info
        self._on_change = on_change
        self._features = BluetoothProxyFeature(info.bluetooth_proxy_feature_flags_compat(client.api_version))
        self._is_scanning = asyncio.Event()
        self._is_mode_asked = False
        self.is_taken = False
        """Whether another program has its advertisements: the firmware serves one at a time."""
        mac = info.bluetooth_mac_address or info.mac_address
        self.source = f"proxy-{mac.replace(':', '').lower()}"
        self.title = info.friendly_name or info.name or self.source
        self._device = ESPHomeBluetoothDevice(info.name, mac, available=True)
        self._data = ESPHomeClientData(
            bluetooth_device=self._device,
            client=client,
            device_info=info,
            api_version=client.api_version,
            title=info.name,
            scanner=cast("Any", _Radio()),
        )

    @property
    def is_proxy(self) -> bool:
        """Whether it is a Bluetooth proxy, and new enough to be used."""
        return bool(self._features & NEEDED)

    @property
    def can_connect(self) -> bool:
        """Whether it makes connections, in the way that its library still speaks."""
        wanted = BluetoothProxyFeature.ACTIVE_CONNECTIONS | BluetoothProxyFeature.REMOTE_CACHING
        return self._features & wanted == wanted

    @property
    def firmware(self) -> str:
        return self._info.esphome_version

    @property
    def limit(self) -> int:
        return self._device.ble_connections_limit

    @property
    def free(self) -> int:
        """As it has told last."""
        return self._device.ble_connections_free

    def left(self, ours: Collection[str]) -> int:
        device = self._device
        allocated = [int_to_bluetooth_address(address) for address in device.ble_allocations]
        return slots_left(
            limit=device.ble_connections_limit, free=device.ble_connections_free, allocated=allocated, ours=ours
        )

    def open(self) -> BluetoothAdapter:
        """Asks for the slots, and gives the adapter. APIConnectionError."""
        if self._features & BluetoothProxyFeature.FEATURE_STATE_AND_MODE:
            self._client.subscribe_bluetooth_scanner_state(self._scanner_said)
        else:
            self._is_scanning.set()
        if self.can_connect:
            self._client.subscribe_bluetooth_connections_free(self._slots_said)
        return BluetoothAdapter(
            name=self.source,
            title=self.title,
            meter=self,
            client=type("ProxyClient", (ProxyClient,), {"data": self._data}),
            scanner=type("ProxyScanner", (ProxyScanner,), {"ear": self}),
            can_connect=self.can_connect,
            can_pair=bool(self._features & BluetoothProxyFeature.PAIRING),
            takes_passkey=False,
            forget_services=self._forget_services,
            is_bond_resumed_on_demand=True,
        )

    def close(self) -> None:
        """The proxy is gone, or let go: whoever is connected over it hears of it now."""
        self._device.async_set_unavailable()
        for lost in list(self._data.disconnect_callbacks):
            try:
                lost()
            except Exception:  # ends in an integration's callback: the others have to hear of it too
                log.exception("a connection over a proxy did not take its end well", proxy=self.source)
        self._data.disconnect_callbacks.clear()

    def _forget_services(self, address: str) -> None:
        self._device.cache.clear_gatt_services_cache(mac_to_int(address))

    def subscribe(self, on_packets: Callable[[Packets], None]) -> Callable[[], None]:
        if self._features & BluetoothProxyFeature.FEATURE_STATE_AND_MODE:
            self._is_scanning.clear()
        return self._client.subscribe_bluetooth_le_raw_advertisements(on_packets)

    async def wait_scanning(self) -> None:
        await self._is_scanning.wait()

    def note_taken(self, *, is_taken: bool) -> None:
        if is_taken != self.is_taken:
            self.is_taken = is_taken
            self._on_change()

    def _scanner_said(self, state: BluetoothScannerStateResponse) -> None:
        # Only the one client that has the advertisements is told the state, so whatever it is, that client is us.
        self._is_scanning.set()
        if state.mode is not BluetoothScannerMode.ACTIVE and not self._is_mode_asked:
            self._is_mode_asked = True  # once: firmware that does not obey is left as it is
            self._client.bluetooth_scanner_set_mode(BluetoothScannerMode.ACTIVE)

    def _slots_said(self, free: int, limit: int, allocated: list[int]) -> None:
        self._device.async_update_ble_connection_limits(free, limit, allocated)
        self._on_change()
