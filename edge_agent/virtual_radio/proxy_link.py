"""One connection of an emulated proxy to a mower: requests in order, answers as ESPHome's firmware gives them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from aioesphomeapi import api_pb2 as _pb
from bleak.assigned_numbers import CHARACTERISTIC_PROPERTIES
from bleak.exc import BleakError, BleakGATTProtocolError
from bleak.exc import BleakGATTProtocolErrorCode as AttCode
from bumble.device import Connection

from edge_agent.virtual_radio.client import VirtualClient

pb: Any = _pb
NOT_CONNECTED = -1
GATT_ERROR = 0x85
FAIL_ESTABLISH = 0x3E
LOST = 0x08
HUNG_UP = 0x16
PAIRING_FAILED = 82
"""What ESP32s say when a bond is not made or no longer fits."""
CONNECT_S = 20.0
WAITING = 64
Send = Callable[[Any], None]
Work = Callable[[], Awaitable[None]]


class ProxyRadioClient(VirtualClient):
    """As the ESP32: a bond that is there is used only when somebody asks for it with `pair`, and notifications are
    passed on whether or not the mower was told to send them."""

    is_encrypting = False

    async def pair(self, *args: Any, **kwargs: Any) -> None:
        self.is_encrypting = True
        await super().pair(*args, **kwargs)

    async def _resume_bond(self, connection: Connection) -> None:
        if self.is_encrypting:
            await super()._resume_bond(connection)

    def pass_on(self, handle: int, on_data: Callable[[bytes], None], *, is_on: bool) -> None:
        """Calls back with the notifications of a characteristic."""
        peer = self._peer
        if peer is None:
            return
        for subscribers in (peer.gatt_client.notification_subscribers, peer.gatt_client.indication_subscribers):
            subscribers.pop(handle, None)
            if is_on:
                subscribers[handle] = {on_data}


class ProxyLink:
    """`run` is its life; it ends with the connection. `send` takes protobuf messages for the API client."""

    def __init__(
        self, address: str, number: int, make: Callable[[Callable[[], None]], ProxyRadioClient], send: Send
    ) -> None:
        self.address = address
        self._number = number
        self._client = make(self._lost)
        self._send = send
        self._work: asyncio.Queue[Work | None] = asyncio.Queue(WAITING)
        self._is_over = False

    def ask(self, work: Work) -> None:
        """In order; more than WAITING at once is more than any client sends."""
        self._work.put_nowait(work)

    def hang_up(self) -> None:
        """Ends it after what waits."""
        self._work.put_nowait(None)

    async def run(self) -> None:
        """Connects, serves, says how it ended."""
        error = FAIL_ESTABLISH
        try:
            await self._client.connect(pair=False, timeout=CONNECT_S)
            self._state(connected=True, error=0)
            error = LOST
            while not self._is_over and (work := await self._work.get()) is not None:
                await work()
            error = LOST if self._is_over else HUNG_UP
        except (BleakError, TimeoutError):
            pass
        finally:
            with contextlib.suppress(BleakError, TimeoutError):
                await self._client.disconnect()
        self._state(connected=False, error=error)

    def _lost(self) -> None:
        self._is_over = True
        with contextlib.suppress(asyncio.QueueFull):
            self._work.put_nowait(None)

    def _state(self, *, connected: bool, error: int) -> None:
        mtu = self._client.mtu_size if connected else 0
        answer = pb.BluetoothDeviceConnectionResponse(address=self._number, connected=connected, mtu=mtu, error=error)
        self._send(answer)

    async def services(self) -> None:
        answer = pb.BluetoothGATTGetServicesResponse(address=self._number)
        for service in self._client.services or ():
            told = answer.services.add(uuid=_uuid(service.uuid), handle=service.handle)
            for one in service.characteristics:
                bits = sum(bit for bit, name in CHARACTERISTIC_PROPERTIES.items() if name in one.properties)
                member = told.characteristics.add(uuid=_uuid(one.uuid), handle=one.handle, properties=bits)
                for descriptor in one.descriptors:
                    member.descriptors.add(uuid=_uuid(descriptor.uuid), handle=descriptor.handle)
        self._send(answer)
        self._send(pb.BluetoothGATTGetServicesDoneResponse(address=self._number))

    async def read(self, handle: int) -> None:
        async with self._answering(handle):
            data = await self._client.read_gatt_char(self._characteristic(handle))
            self._send(pb.BluetoothGATTReadResponse(address=self._number, handle=handle, data=bytes(data)))

    async def write(self, handle: int, data: bytes, *, response: bool) -> None:
        async with self._answering(handle):
            await self._client.write_gatt_char(self._characteristic(handle), data, response)
            if response:
                self._send(pb.BluetoothGATTWriteResponse(address=self._number, handle=handle))

    async def write_descriptor(self, handle: int, data: bytes) -> None:
        async with self._answering(handle):
            services = self._client.services
            descriptor = None if services is None else services.get_descriptor(handle)
            if descriptor is None:
                raise BleakGATTProtocolError(AttCode.INVALID_HANDLE)
            await self._client.write_gatt_descriptor(descriptor, data)
            self._send(pb.BluetoothGATTWriteResponse(address=self._number, handle=handle))

    async def notify(self, handle: int, *, is_on: bool) -> None:
        def received(data: bytes) -> None:
            self._send(pb.BluetoothGATTNotifyDataResponse(address=self._number, handle=handle, data=bytes(data)))

        self._client.pass_on(handle, received, is_on=is_on)
        self._send(pb.BluetoothGATTNotifyResponse(address=self._number, handle=handle))

    async def pair(self) -> None:
        try:
            await self._client.pair()
        except BleakError:
            answer = pb.BluetoothDevicePairingResponse(address=self._number, paired=False, error=PAIRING_FAILED)
        else:
            answer = pb.BluetoothDevicePairingResponse(address=self._number, paired=True, error=0)
        self._send(answer)

    @contextlib.asynccontextmanager
    async def _answering(self, handle: int) -> Any:
        """A failure is told to the client, with ATT's code or the ESP32's."""
        try:
            yield
        except BleakGATTProtocolError as err:
            self._refuse(handle, int(err.code))
        except BleakError:
            self._refuse(handle, GATT_ERROR if self._client.is_connected else NOT_CONNECTED)

    def _refuse(self, handle: int, error: int) -> None:
        self._send(pb.BluetoothGATTErrorResponse(address=self._number, handle=handle, error=error))

    def _characteristic(self, handle: int) -> Any:
        services = self._client.services
        found = None if services is None else services.get_characteristic(handle)
        if found is None:
            raise BleakGATTProtocolError(AttCode.INVALID_HANDLE)  # the ESP32 asks the mower, which says so
        return found


def _uuid(text: str) -> list[int]:
    """As the protocol spells it: the upper and the lower half."""
    number = UUID(text).int
    return [number >> 64, number & 0xFFFF_FFFF_FFFF_FFFF]
