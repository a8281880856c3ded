"""One connection to the system's message bus, made again whenever it breaks, that knows who BlueZ is at the moment.

bleak has connections of its own; this one is for what bleak does not do. Which bus: `DBUS_SYSTEM_BUS_ADDRESS`, else the
system's, exactly as bleak finds it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog
from bleak.exc import BleakDBusError, BleakError
from dbus_fast.aio.message_bus import MessageBus
from dbus_fast.constants import BusType, MessageType
from dbus_fast.errors import DBusFastError
from dbus_fast.message import Message
from dbus_fast.unpack import unpack_variants

log = structlog.get_logger(__name__)

SERVICE = "org.bluez"
ADAPTER = "org.bluez.Adapter1"
DEVICE = "org.bluez.Device1"
PROPERTIES = "org.freedesktop.DBus.Properties"
DAEMON = "org.freedesktop.DBus"
CALL_DEADLINE_S = 5.0
RETRY_FIRST_S = 1.0
RETRY_MAX_S = 60.0
FAILURES = (BleakError, DBusFastError, TimeoutError, OSError, EOFError)
"""All that a call here can raise: an answer that is an error, and a bus that is not there."""
MATCHES = (
    f"type='signal',sender='{DAEMON}',interface='{DAEMON}',member='NameOwnerChanged',arg0='{SERVICE}'",
    f"type='signal',sender='{SERVICE}',interface='{PROPERTIES}',member='PropertiesChanged',path_namespace='/org/bluez'",
)

OnCall = Callable[[Message], Message | None]
OnProperties = Callable[[Mapping[str, Any]], None]
Undo = Callable[[], None]


def adapter_path(adapter: str) -> str:
    """BlueZ's object of an adapter (`hci0`)."""
    return f"/org/bluez/{adapter}"


def device_path(adapter: str, address: str) -> str:
    """BlueZ's object of a peer, as one adapter knows it."""
    return f"{adapter_path(adapter)}/dev_{address.upper().replace(':', '_')}"


class BluezBus:
    """`run` is its life. `owner` is BlueZ's unique name on the bus, None while there is no BlueZ."""

    def __init__(self) -> None:
        self.owner: str | None = None
        self.tried = asyncio.Event()
        """Set once it is known whether there is a bus and a BlueZ on it."""
        self._bus: MessageBus | None = None
        self._on_owner: list[Callable[[], None]] = []
        self._on_call: list[OnCall] = []
        self._watchers: dict[object, tuple[str, OnProperties]] = {}
        self._why_down: str | None = None

    def on_owner(self, callback: Callable[[], None]) -> None:
        """Calls back when BlueZ has come, gone, or been started anew."""
        self._on_owner.append(callback)

    def on_call(self, callback: OnCall) -> None:
        """Hands every method call of the bus over; the first that returns an answer has taken it."""
        self._on_call.append(callback)

    def watch(self, path: str, on_changed: OnProperties) -> Undo:
        """Calls back with the properties of one object that have changed."""
        token = object()
        self._watchers[token] = (path, on_changed)
        return lambda: self._watchers.pop(token, None) and None

    async def run(self) -> None:
        """Holds the connection until it is cancelled; a bus that is not there is tried for ever."""
        delay_s = RETRY_FIRST_S
        while True:
            try:
                await self._session()
                delay_s = RETRY_FIRST_S
            except FAILURES as err:
                why = str(err) or type(err).__name__
                if why != self._why_down:
                    log.warning("no connection to the system's message bus", reason=why)
                self._why_down = why
                self.tried.set()
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, RETRY_MAX_S)

    async def call(
        self,
        path: str,
        interface: str,
        member: str,
        signature: str = "",
        body: Sequence[Any] = (),
        *,
        to: str = SERVICE,
        deadline_s: float = CALL_DEADLINE_S,
    ) -> list[Any]:
        """The body of the answer; one of FAILURES otherwise."""
        bus = self._bus
        if bus is None or not bus.connected:
            raise EOFError("no connection to the system's message bus")
        return await _call(bus, path, interface, member, signature, body, to=to, deadline_s=deadline_s)

    async def property_of(self, path: str, interface: str, name: str) -> Any:
        """The value, or None when the object or the property is not there (or nobody answers)."""
        try:
            (value,) = await self.call(path, PROPERTIES, "Get", "ss", [interface, name])
        except FAILURES:
            return None
        return unpack_variants(value)

    async def objects(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Every object of BlueZ: path, interface, properties."""
        (found,) = await self.call("/", "org.freedesktop.DBus.ObjectManager", "GetManagedObjects")
        return {path: unpack_variants(interfaces) for path, interfaces in found.items()}

    async def _session(self) -> None:
        bus = MessageBus(bus_type=BusType.SYSTEM)
        async with asyncio.timeout(CALL_DEADLINE_S):
            await bus.connect()
        try:
            bus.add_message_handler(self._received)
            for rule in MATCHES:
                await _call(bus, "/org/freedesktop/DBus", DAEMON, "AddMatch", "s", [rule], to=DAEMON)
            self._bus, self._why_down = bus, None
            try:
                (owner,) = await self.call("/org/freedesktop/DBus", DAEMON, "GetNameOwner", "s", [SERVICE], to=DAEMON)
            except BleakDBusError:
                owner = None
            self._set_owner(owner)
            self.tried.set()
            await bus.wait_for_disconnect()  # type: ignore[no-untyped-call]
        finally:
            self._bus = None
            self._set_owner(None)
            bus.disconnect()
            with contextlib.suppress(*FAILURES):
                async with asyncio.timeout(CALL_DEADLINE_S):
                    await bus.wait_for_disconnect()  # type: ignore[no-untyped-call]

    def _received(self, message: Message) -> Message | None:
        if message.message_type is MessageType.METHOD_CALL:
            return next((answer for call in self._on_call if (answer := call(message)) is not None), None)
        if message.message_type is not MessageType.SIGNAL:
            return None
        if message.member == "NameOwnerChanged" and message.sender == DAEMON and message.body[0] == SERVICE:
            self._set_owner(message.body[2] or None)
        elif message.member == "PropertiesChanged" and message.sender == self.owner:
            changed = unpack_variants(message.body[1])
            for path, callback in list(self._watchers.values()):
                if path == message.path:
                    callback(changed)
        return None

    def _set_owner(self, owner: str | None) -> None:
        if owner != self.owner:
            self.owner = owner
            for callback in self._on_owner:
                callback()


async def _call(
    bus: MessageBus,
    path: str,
    interface: str,
    member: str,
    signature: str,
    body: Sequence[Any],
    *,
    to: str,
    deadline_s: float = CALL_DEADLINE_S,
) -> list[Any]:
    message = Message(
        destination=to, path=path, interface=interface, member=member, signature=signature, body=list(body)
    )
    async with asyncio.timeout(deadline_s):
        answer: Message | None = await bus.call(message)
    if answer is None:  # how the library ends calls that a closed connection has left behind
        raise EOFError("the system's message bus has closed the connection")
    if answer.message_type is MessageType.ERROR:
        raise BleakDBusError(answer.error_name or "org.freedesktop.DBus.Error.Failed", answer.body)
    found: list[Any] = answer.body
    return found
