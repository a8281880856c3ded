"""bleak's client over a virtual adapter: raises what BlueZ's would, so that nothing above can tell the difference."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any, ClassVar

from bleak.args import SizedBuffer
from bleak.assigned_numbers import gatt_char_props_to_strs
from bleak.backends.characteristic import BleakGATTCharacteristic
from bleak.backends.client import BaseBleakClient, NotifyCallback
from bleak.backends.descriptor import BleakGATTDescriptor
from bleak.backends.device import BLEDevice
from bleak.backends.service import BleakGATTService, BleakGATTServiceCollection
from bleak.exc import BleakDBusError, BleakDeviceNotFoundError, BleakError, BleakGATTProtocolError
from bumble import core, hci
from bumble.att import ATT_Error
from bumble.device import Connection, Peer
from bumble.gatt import GATT_CLIENT_CHARACTERISTIC_CONFIGURATION_DESCRIPTOR as CCCD
from bumble.gatt_client import CharacteristicProxy

from edge_agent.virtual_radio.adapter import VirtualAdapter
from edge_agent.virtual_radio.scanner import uuid_text
from edge_agent.virtual_radio.uncut import cancellation_kept, is_being_cancelled, run_uncut

MTU = 517
PAIR_DEADLINE_S = 30.0
"""SMP's own time-out; bumble has none."""
NOT_CONNECTED = "Not connected"
INSUFFICIENT_SECURITY = (0x05, 0x0F)


class VirtualClient(BaseBleakClient):
    """Made by `backend.bind`, which sets `adapter`."""

    adapter: ClassVar[VirtualAdapter]

    def __init__(
        self,
        address_or_ble_device: BLEDevice | str,
        *,
        services: set[str] | None = None,
        disconnected_callback: Callable[[], None] | None = None,
        timeout: float = 30.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(address_or_ble_device, disconnected_callback=disconnected_callback, timeout=timeout, **kwargs)
        self._wanted = None if services is None else {uuid.lower() for uuid in services}
        is_device = isinstance(address_or_ble_device, BLEDevice)
        self._is_known = is_device
        self._name = (address_or_ble_device.name if isinstance(address_or_ble_device, BLEDevice) else None) or ""
        self._connection: Connection | None = None
        self._peer: Peer | None = None
        self._mtu_size: int | None = None
        """Libraries overwrite it (automower-ble does); length checks use the real MTU."""

    @property
    def name(self) -> str:
        return self._name or self.address

    @property
    def mtu_size(self) -> int:
        if self._mtu_size is not None:
            return self._mtu_size
        return self._connection.att_mtu if self._connection is not None else 23

    @property
    def is_connected(self) -> bool:
        return self._connection is not None

    async def connect(self, pair: bool, **kwargs: Any) -> None:
        if self.is_connected:
            raise BleakError("Client is already connected")
        timeout_s = float(kwargs.get("timeout") or self._timeout)
        self.adapter.check_power()
        try:
            async with asyncio.timeout(timeout_s):
                if not self._is_known:
                    await self._find()
                await self._open(timeout_s, pair=pair)
        except (core.BaseBumbleError, hci.HCI_Error) as err:
            self.adapter.check_power()
            raise BleakError(f"{self.address}: {err}") from err

    async def _find(self) -> None:
        """BlueZ only connects to what it has heard."""
        heard = asyncio.Event()

        def listener(packet: Any) -> None:
            if packet.address.to_string(with_type_qualifier=False) == self.address.upper():
                heard.set()

        await self.adapter.start_scan(listener)
        try:
            async with asyncio.timeout(min(10.0, self._timeout / 2)):
                await heard.wait()
        except TimeoutError as err:
            text = f"Device with address {self.address} was not found."
            raise BleakDeviceNotFoundError(self.address, text) from err
        finally:
            await self.adapter.stop_scan(listener)

    async def _open(self, timeout_s: float, *, pair: bool) -> None:
        connection = await self.adapter.connect(self.address.upper(), timeout_s)
        self._connection = connection
        self._peer = Peer(connection)
        connection.on(Connection.EVENT_DISCONNECTION, lambda _reason: self._closed(connection))
        try:
            if pair:
                await self.pair()
            else:
                await self._resume_bond(connection)
            async with self._talking():
                await self._peer.request_mtu(MTU)
                await self._discover(self._peer)
        except BaseException:
            await self._hang_up(connection)
            raise

    def _closed(self, connection: Connection) -> None:
        if self._connection is not connection:
            return
        self._connection = None
        self._peer = None
        self.services = None
        self._mtu_size = None
        if self._disconnected_callback is not None:
            self._disconnected_callback()

    async def disconnect(self) -> None:
        if self._connection is not None:
            await self._hang_up(self._connection)

    async def _hang_up(self, connection: Connection) -> None:
        # A controller that is gone answers nothing; then the connection is over for us all the same.
        with contextlib.suppress(Exception):
            async with asyncio.timeout(5.0):
                await run_uncut(connection.disconnect())
        self._closed(connection)

    async def pair(self, *_args: Any, **_kwargs: Any) -> None:
        connection = self._connected()
        address = str(connection.peer_address)
        if await self.adapter.key_store.get(address) is not None:
            await self._resume_bond(connection)
            return
        handle = connection.handle
        try:
            async with asyncio.timeout(PAIR_DEADLINE_S), cancellation_kept():
                await connection.pair()
        except core.ProtocolError as err:
            raise BleakDBusError("org.bluez.Error.AuthenticationFailed", [f"Authentication Failed ({err})"]) from err
        except TimeoutError as err:
            raise BleakDBusError("org.bluez.Error.AuthenticationTimeout", ["Authentication Timeout"]) from err
        except asyncio.CancelledError as err:
            if is_being_cancelled():
                raise
            raise BleakDBusError("org.bluez.Error.AuthenticationCanceled", ["Authentication Canceled"]) from err
        finally:
            # Stock: a failed session stays until the disconnect, and a second attempt on the link hangs.
            self.adapter.device.smp_manager.sessions.pop(handle, None)

    async def unpair(self) -> None:
        await self.adapter.forget(self.address.upper())

    async def _resume_bond(self, connection: Connection) -> None:
        """As the kernel does: a bonded peer is encrypted at once; when it has lost the key the link ends."""
        if await self.adapter.key_store.get(str(connection.peer_address)) is None:
            return
        try:
            async with cancellation_kept():
                await connection.encrypt()
        except hci.HCI_Error as err:
            raise BleakDBusError("org.bluez.Error.Failed", ["le-connection-key-missing"]) from err
        except asyncio.CancelledError as err:
            if is_being_cancelled():
                raise
            raise BleakDBusError("org.bluez.Error.Failed", ["le-connection-key-missing"]) from err

    async def _discover(self, peer: Peer) -> None:
        services = BleakGATTServiceCollection()
        for service in await peer.discover_services():
            uuid = uuid_text(service.uuid.uuid_bytes)
            if self._wanted is not None and uuid not in self._wanted:
                continue
            entry = BleakGATTService(service, service.handle, uuid)
            services.add_service(entry)
            for proxy in await service.discover_characteristics():
                await proxy.discover_descriptors()
                proxy.descriptors_discovered = True
                characteristic = BleakGATTCharacteristic(
                    proxy,
                    proxy.handle,
                    uuid_text(proxy.uuid.uuid_bytes),
                    list(gatt_char_props_to_strs(int(proxy.properties))),
                    self._payload,
                    entry,
                )
                services.add_characteristic(characteristic)
                for descriptor in proxy.descriptors:
                    text = uuid_text(descriptor.type.uuid_bytes)
                    services.add_descriptor(BleakGATTDescriptor(descriptor, descriptor.handle, text, characteristic))
        self.services = services

    def _payload(self) -> int:
        return (self._connection.att_mtu if self._connection is not None else 23) - 3

    async def read_gatt_char(self, characteristic: BleakGATTCharacteristic, **_kwargs: Any) -> bytearray:
        return await self._read(characteristic.handle)

    async def read_gatt_descriptor(self, descriptor: BleakGATTDescriptor, **_kwargs: Any) -> bytearray:
        return await self._read(descriptor.handle)

    async def write_gatt_char(self, characteristic: BleakGATTCharacteristic, data: SizedBuffer, response: bool) -> None:
        # Stock: sent all the same, which hides the bugs of a client.
        if not response and len(bytes(data)) > self._payload():
            raise BleakError(f"{len(bytes(data))} bytes do not fit in a write without response of {self._payload()}")
        await self._write(characteristic.handle, data, response=response)

    async def write_gatt_descriptor(self, descriptor: BleakGATTDescriptor, data: SizedBuffer) -> None:
        await self._write(descriptor.handle, data, response=True)

    async def start_notify(
        self, characteristic: BleakGATTCharacteristic, callback: NotifyCallback, **_kwargs: Any
    ) -> None:
        proxy: CharacteristicProxy[bytes] = characteristic.obj
        if proxy.get_descriptor(CCCD) is None:
            raise BleakError(f"characteristic {characteristic.uuid} does not support notifications or indications")
        async with self._talking() as peer:
            # Subscribing twice on one handle would call back twice.
            peer.gatt_client.notification_subscribers.pop(proxy.handle, None)
            await peer.gatt_client.subscribe(proxy, lambda data: callback(bytearray(data)))

    async def stop_notify(self, characteristic: BleakGATTCharacteristic) -> None:
        if not self.is_connected:
            return
        async with self._talking() as peer:
            await peer.gatt_client.unsubscribe(characteristic.obj)

    async def _read(self, handle: int) -> bytearray:
        async with self._talking() as peer:
            return bytearray(await peer.gatt_client.read_value(handle))

    async def _write(self, handle: int, data: SizedBuffer, *, response: bool) -> None:
        async with self._talking() as peer:
            await peer.gatt_client.write_value(handle, bytes(data), with_response=response)
            if not response and self._connection is not None:
                await self._connection.drain()

    def _connected(self) -> Connection:
        if self._connection is None:
            raise BleakError(NOT_CONNECTED)
        return self._connection

    @contextlib.asynccontextmanager
    async def _talking(self) -> AsyncIterator[Peer]:
        """bumble's failures in bleak's words. Stock: a disconnect cancels the request that is under way."""
        peer = self._peer
        if peer is None:
            raise BleakError(NOT_CONNECTED)
        try:
            async with cancellation_kept():
                yield peer
        except ATT_Error as err:
            raise BleakGATTProtocolError(int(err.error_code)) from err
        except core.TimeoutError as err:
            raise BleakError(f"{self.address}: no answer from the GATT server") from err
        except (core.BaseBumbleError, hci.HCI_Error) as err:
            raise BleakError(f"{self.address}: {err}") from err
        except asyncio.CancelledError as err:
            if is_being_cancelled() or self.is_connected:
                raise
            raise BleakError(f"{self.address}: disconnected") from err
