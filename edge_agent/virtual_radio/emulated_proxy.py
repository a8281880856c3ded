"""An ESPHome Bluetooth proxy on the virtual radio: real clients speak to it over TCP as to an ESP32.

    backend = await air.add_adapter("shed-proxy")
    async with EmulatedProxy(backend, key=KEY) as proxy: proxy.port

Left out of the firmware: all that is not Bluetooth, and scanning that rests while it connects.
"""

from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import structlog
from aioesphomeapi import api_pb2 as _pb
from aioesphomeapi.model import BluetoothProxyFeature
from bumble.device import Advertisement

from edge_agent.virtual_radio.backend import VirtualBackend
from edge_agent.virtual_radio.proxy_link import ProxyLink, ProxyRadioClient
from edge_agent.virtual_radio.proxy_visitor import ProxyVisitor

log = structlog.get_logger(__name__)

pb: Any = _pb
PASSIVE = (
    BluetoothProxyFeature.PASSIVE_SCAN
    | BluetoothProxyFeature.RAW_ADVERTISEMENTS
    | BluetoothProxyFeature.FEATURE_STATE_AND_MODE
)
ACTIVE = (
    PASSIVE
    | BluetoothProxyFeature.ACTIVE_CONNECTIONS
    | BluetoothProxyFeature.REMOTE_CACHING
    | BluetoothProxyFeature.PAIRING
    | BluetoothProxyFeature.CACHE_CLEARING
)
FIRMWARE = "2026.9.1"


@dataclass(slots=True, kw_only=True)
class ProxyFaults:
    """What is wrong with it."""

    is_silent: bool = False
    """The socket is open, nothing is answered."""
    foreign: list[str] = field(default_factory=list)
    """Addresses that something else (a `ble_client` of the same ESP32) is connected to; they take slots."""
    is_pairing_old: bool = False
    """Firmware that cannot pair."""


class EmulatedProxy:
    """Bonds stay over reboots, as in the flash of an ESP32."""

    def __init__(
        self,
        backend: VirtualBackend,
        *,
        mac: str = "A0:B7:65:00:00:01",
        key: str | None = None,
        slots: int = 3,
        is_active: bool = True,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        """`key`: base64 of 32 bytes; None: without encryption."""
        self.name = backend.adapter.name
        self.mac = mac
        self.key = None if key is None else base64.b64decode(key, validate=True)
        self.slots = slots
        self.is_active = is_active
        self.faults = ProxyFaults()
        self.host = host
        self.port = port
        self.visitors: list[ProxyVisitor] = []
        self.came_count = 0
        """Connections that clients have ever made."""
        self._adapter = backend.adapter
        self._radio = type("ProxyRadio", (ProxyRadioClient,), {"adapter": backend.adapter})
        self._listener: ProxyVisitor | None = None
        self._mode = pb.BLUETOOTH_SCANNER_MODE_PASSIVE
        self._links: dict[int, tuple[ProxyLink, asyncio.Task[None]]] = {}
        self._server: asyncio.Server | None = None
        self._group = asyncio.TaskGroup()
        self._chores: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        await self.power_on()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.power_off()
        is_cancelled = isinstance(err, asyncio.CancelledError)
        await self._group.__aexit__(*((kind, err, trace) if is_cancelled else (None, None, None)))

    @property
    def is_silent(self) -> bool:
        """Whether it answers nothing."""
        return self.faults.is_silent

    async def power_on(self) -> None:
        """Listens, on the same port as before."""
        self._server = await asyncio.get_running_loop().create_server(lambda: ProxyVisitor(self), self.host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        await self._adapter.start_scan(self._heard)

    async def power_off(self) -> None:
        """Every client and every mower loses it. Idempotent."""
        server, self._server = self._server, None
        if server is None:
            return
        await self._adapter.stop_scan(self._heard)
        server.close()
        self.drop()
        tasks = [task for _, task in self._links.values()] + list(self._chores)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._links.clear()
        await server.wait_closed()
        self._mode = pb.BLUETOOTH_SCANNER_MODE_PASSIVE

    async def reboot(self) -> None:
        """Off and on."""
        await self.power_off()
        await self.power_on()

    def drop(self) -> None:
        """Ends the clients' sockets at once."""
        for visitor in list(self.visitors):
            if visitor.transport is not None:
                visitor.transport.abort()

    def device_info(self) -> Any:
        """Its answer to who it is."""
        features = ACTIVE if self.is_active else PASSIVE
        if self.faults.is_pairing_old:
            features &= ~BluetoothProxyFeature.PAIRING
        return pb.DeviceInfoResponse(
            name=self.name,
            friendly_name=self.name,
            mac_address=self.mac,
            bluetooth_mac_address=self.mac,
            esphome_version=FIRMWARE,
            bluetooth_proxy_feature_flags=int(features),
            api_encryption_supported=self.key is not None,
        )

    @property
    def is_listened_to(self) -> bool:
        """Whether a client has its advertisements."""
        return self._listener is not None

    # -- its clients

    def came(self, visitor: ProxyVisitor) -> None:
        """A client is there."""
        self.visitors.append(visitor)
        self.came_count += 1

    def went(self, visitor: ProxyVisitor) -> None:
        """A client is gone; the mowers that it was connected to are let go."""
        self.visitors.remove(visitor)
        self.unsubscribe(visitor)

    def subscribe(self, visitor: ProxyVisitor) -> None:
        """Only one at a time; another is not even told so."""
        if self._listener in (None, visitor):
            self._listener = visitor
            self._tell_state()

    def unsubscribe(self, visitor: ProxyVisitor) -> None:
        """It listens no more; the firmware then ends all connections."""
        if self._listener is visitor:
            self._listener = None
            for link, _ in self._links.values():
                link.hang_up()

    def set_mode(self, mode: int) -> None:
        """How it scans."""
        self._mode = mode
        self._tell_state()

    def tell_slots(self, visitor: ProxyVisitor | None = None) -> None:
        """How many are free, and who has the others."""
        allocated = [*self._links, *(int(address.replace(":", ""), 16) for address in self.faults.foreign)]
        free = max(0, self.slots - len(allocated))
        answer = pb.BluetoothConnectionsFreeResponse(free=free, limit=self.slots, allocated=allocated)
        for one in [visitor] if visitor is not None else self.visitors:
            if one.wants_slots:
                one.send(answer)

    # -- its mowers

    def link(self, number: int) -> ProxyLink | None:
        """The connection to a mower."""
        found = self._links.get(number)
        return None if found is None else found[0]

    def connect(self, number: int) -> None:
        """Takes a slot and connects; the answer comes when it is known."""
        if number in self._links:
            return
        if not self.is_active or len(self._links) + len(self.faults.foreign) >= self.slots:
            self._send(pb.BluetoothDeviceConnectionResponse(address=number, connected=False, error=0))
            return
        address = ":".join(f"{byte:02X}" for byte in number.to_bytes(6, "big"))
        link = ProxyLink(
            address, number, lambda lost: self._radio(address, disconnected_callback=lost, timeout=20.0), self._send
        )
        task = self._group.create_task(self._keep(number, link), name=f"{self.name} {address}")
        self._links[number] = (link, task)
        self.tell_slots()

    def unpair(self, number: int) -> None:
        """Forgets a bond, and says whether there was one."""
        address = ":".join(f"{byte:02X}" for byte in number.to_bytes(6, "big"))

        async def forget() -> None:
            was_there = await self._adapter.key_store.get(address) is not None
            await self._adapter.forget(address)
            self._send(
                pb.BluetoothDeviceUnpairingResponse(address=number, success=was_there, error=0 if was_there else 1)
            )

        task = self._group.create_task(forget(), name=f"{self.name} unpairs {address}")
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)

    async def _keep(self, number: int, link: ProxyLink) -> None:
        try:
            await link.run()
        finally:
            self._links.pop(number, None)
            self.tell_slots()

    def _send(self, message: Any) -> None:
        if self._listener is not None:
            self._listener.send(message)

    def _tell_state(self) -> None:
        state = pb.BluetoothScannerStateResponse(
            state=pb.BLUETOOTH_SCANNER_STATE_RUNNING, mode=self._mode, configured_mode=pb.BLUETOOTH_SCANNER_MODE_PASSIVE
        )
        self._send(state)

    def _heard(self, packet: Advertisement) -> None:
        listener = self._listener
        if listener is None or listener.is_slow:
            return
        answer = pb.BluetoothLERawAdvertisementsResponse()
        answer.advertisements.add(
            address=int(packet.address.to_string(with_type_qualifier=False).replace(":", ""), 16),
            rssi=packet.rssi,
            address_type=int(packet.address.is_random),
            data=bytes(packet.data),
        )
        listener.send(answer)
