"""One client of an emulated proxy: its socket, and what it asks for."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

import structlog
from aioesphomeapi import api_pb2 as _pb
from aioesphomeapi.core import MESSAGE_TYPE_TO_PROTO

from edge_agent.virtual_radio.proxy_framing import ProxyFraming
from edge_agent.virtual_radio.proxy_link import ProxyLink

log = structlog.get_logger(__name__)

pb: Any = _pb
KINDS = {proto: number for number, proto in MESSAGE_TYPE_TO_PROTO.items()}
API_VERSION = (1, 12)
UNREAD_MAX = 65_536
"""Bytes that a client has not read; more advertisements are dropped, as the firmware does."""
CONNECTS = (
    "BLUETOOTH_DEVICE_REQUEST_TYPE_CONNECT_V3_WITH_CACHE",
    "BLUETOOTH_DEVICE_REQUEST_TYPE_CONNECT_V3_WITHOUT_CACHE",
)


class Host(Protocol):
    """The proxy, as its clients' sockets see it; the meaning of each stands in `EmulatedProxy`."""

    name: str
    mac: str
    key: bytes | None

    @property
    def is_silent(self) -> bool: ...
    def came(self, visitor: ProxyVisitor) -> None: ...
    def went(self, visitor: ProxyVisitor) -> None: ...
    def subscribe(self, visitor: ProxyVisitor) -> None: ...
    def unsubscribe(self, visitor: ProxyVisitor) -> None: ...
    def set_mode(self, mode: int) -> None: ...
    def tell_slots(self, visitor: ProxyVisitor | None = None) -> None: ...
    def device_info(self) -> Any: ...
    def link(self, number: int) -> ProxyLink | None: ...
    def connect(self, number: int) -> None: ...
    def unpair(self, number: int) -> None: ...


class ProxyVisitor(asyncio.Protocol):
    """Made by the server for each connection."""

    def __init__(self, proxy: Host) -> None:
        self._proxy = proxy
        self._framing = ProxyFraming(name=proxy.name, mac=proxy.mac, key=proxy.key)
        self.transport: asyncio.Transport | None = None
        self.wants_slots = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._proxy.came(self)

    def connection_lost(self, _exc: Exception | None) -> None:
        self.transport = None
        self._proxy.went(self)

    def data_received(self, data: bytes) -> None:
        if self._proxy.is_silent:
            return
        for kind, payload in self._framing.feed(data):
            proto = MESSAGE_TYPE_TO_PROTO.get(kind)
            if proto is not None:
                self._take(proto.FromString(payload))
        self._flush()
        if self._framing.is_over and self.transport is not None:
            self.transport.close()

    def send(self, message: Any) -> None:
        """A protobuf message for the client; nothing when it is gone."""
        if self.transport is None or self._proxy.is_silent:
            return
        self._framing.put((KINDS[type(message)], message.SerializeToString()))
        self._flush()

    @property
    def is_slow(self) -> bool:
        """Whether it has much to read."""
        return self.transport is not None and self.transport.get_write_buffer_size() > UNREAD_MAX

    def _flush(self) -> None:
        if self.transport is not None and (output := self._framing.take_output()):
            self.transport.write(output)

    def _take(self, message: Any) -> None:
        match type(message).__name__:
            case "HelloRequest":
                major, minor = API_VERSION
                answer = pb.HelloResponse(api_version_major=major, api_version_minor=minor, name=self._proxy.name)
                answer.server_info = f"{self._proxy.name} (emulated)"
                self.send(answer)
            case "AuthenticationRequest":
                self.send(pb.AuthenticationResponse(invalid_password=False))
            case "DeviceInfoRequest":
                self.send(self._proxy.device_info())
            case "PingRequest":
                self.send(pb.PingResponse())
            case "DisconnectRequest":
                self.send(pb.DisconnectResponse())
                if self.transport is not None:
                    self.transport.close()
            case "SubscribeBluetoothLEAdvertisementsRequest":
                self._proxy.subscribe(self)
            case "UnsubscribeBluetoothLEAdvertisementsRequest":
                self._proxy.unsubscribe(self)
            case "SubscribeBluetoothConnectionsFreeRequest":
                self.wants_slots = True
                self._proxy.tell_slots(self)
            case "BluetoothScannerSetModeRequest":
                self._proxy.set_mode(message.mode)
            case "BluetoothDeviceRequest":
                self._ask_device(message)
            case _:
                self._ask_link(message)

    def _ask_device(self, message: Any) -> None:
        kind = pb.BluetoothDeviceRequestType.Name(message.request_type)
        if kind in CONNECTS:
            self._proxy.connect(message.address)
            return
        link = self._proxy.link(message.address)
        if kind == "BLUETOOTH_DEVICE_REQUEST_TYPE_UNPAIR":
            self._proxy.unpair(message.address)
        elif kind == "BLUETOOTH_DEVICE_REQUEST_TYPE_DISCONNECT":
            if link is None:
                self.send(pb.BluetoothDeviceConnectionResponse(address=message.address, connected=False))
            else:
                link.hang_up()
        elif kind == "BLUETOOTH_DEVICE_REQUEST_TYPE_PAIR" and link is not None:
            link.ask(link.pair)

    def _ask_link(self, message: Any) -> None:
        link = self._proxy.link(getattr(message, "address", 0))
        if link is None:
            if hasattr(message, "handle"):
                self.send(pb.BluetoothGATTErrorResponse(address=message.address, handle=message.handle, error=-1))
            return
        match type(message).__name__:
            case "BluetoothGATTGetServicesRequest":
                link.ask(link.services)
            case "BluetoothGATTReadRequest":
                link.ask(lambda: link.read(message.handle))
            case "BluetoothGATTWriteRequest":
                link.ask(lambda: link.write(message.handle, message.data, response=message.response))
            case "BluetoothGATTWriteDescriptorRequest":
                link.ask(lambda: link.write_descriptor(message.handle, message.data))
            case "BluetoothGATTNotifyRequest":
                link.ask(lambda: link.notify(message.handle, is_on=message.enable))
            case unknown:
                log.debug("the emulated proxy does not know a message", kind=unknown)
