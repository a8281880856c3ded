"""A stand-in for bluetoothd: `org.bluez` on a real message bus, as far as bleak and the box talk to it.

Modelled on BlueZ's documents (doc/org.bluez.*.rst) and on what its source does: one agent per caller, the newest default
agent answers for callers without one, a device's services stay cached until it is removed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from dbus_fast.aio.message_bus import MessageBus
from dbus_fast.constants import MessageType, NameFlag
from dbus_fast.errors import DBusError
from dbus_fast.message import Message
from dbus_fast.signature import Variant

ADAPTER, DEVICE = "org.bluez.Adapter1", "org.bluez.Device1"
SERVICE, CHARACTERISTIC = "org.bluez.GattService1", "org.bluez.GattCharacteristic1"
AGENT = "org.bluez.Agent1"
MANAGER, PROPERTIES = "org.freedesktop.DBus.ObjectManager", "org.freedesktop.DBus.Properties"
SIGNATURES = {bool: "b", str: "s", int: "n"}
CELLS = {"Adapter": "o", "Device": "o", "Service": "o", "UUIDs": "as", "Flags": "as", "Roles": "as", "MTU": "q"}
ADVERTISE_S = 0.03


@dataclass(slots=True, kw_only=True)
class Peer:
    """A mower on the air. `pairs`: how it does; `passkey`: the number it shows or compares."""

    address: str
    name: str = "Mower"
    rssi: int = -60
    is_on_air: bool = True
    pairs: Literal["just_works", "compares", "shows", "refuses"] = "just_works"
    passkey: int = 0
    characteristics: dict[int, str] = field(default_factory=lambda: {0x11: "98bd0004-0b0e-421a-84e5-ddbf75dc6de4"})
    """Handle to UUID."""
    needs_bond: bool = False
    has_bond: bool = False
    is_authenticated: bool = False
    connects: list[str] = field(default_factory=list)
    """How the next connects go: abort, hang, ok; ok when empty."""
    is_stuck: bool = False
    """BlueZ is busy with an attempt of old, until that is cancelled."""
    is_stuck_hard: bool = False
    """And only a power cycle helps."""
    written: list[bytes] = field(default_factory=list)
    table_at_discovery: dict[int, str] = field(default_factory=dict)


def error(kind: str, text: str = "") -> DBusError:
    return DBusError(f"org.bluez.Error.{kind}", text or kind)


class FakeBluez:
    """`peers` are on the air; `log` is what was asked of it, oldest first."""

    def __init__(self, group: asyncio.TaskGroup, address: str) -> None:
        self.peers: dict[str, Peer] = {}
        self.log: list[str] = []
        self.agents: dict[str, tuple[str, str]] = {}
        """Sender to path and capability."""
        self.defaults: list[str] = []
        self.refuses_default = False
        self.refuses_agents = 0
        """So many registrations fail: the name is there before the rest of bluetoothd."""
        self.registered = asyncio.Event()
        self.paired: set[str] = set()
        self.objects: dict[str, dict[str, dict[str, Any]]] = {}
        self.adapter = "/org/bluez/hci0"
        self._group = group
        self._address = address
        self._bus: MessageBus | None = None
        self._scanners: set[str] = set()
        self._advertising: asyncio.Task[None] | None = None

    # Life

    async def start(self) -> None:
        self.objects = {
            "/org/bluez": {"org.bluez.AgentManager1": {}},
            self.adapter: {
                ADAPTER: {"Address": "00:00:00:00:00:0A", "Powered": True, "Roles": ["central"], "Discovering": False}
            },
        }
        for path in self.paired:
            self._add_device(self._peer_of(path), path)
        bus = self._bus = await MessageBus(bus_address=self._address).connect()
        bus.add_message_handler(self._received)
        await bus.call(_to_daemon("AddMatch", "s", ["type='signal',member='NameOwnerChanged'"]))
        await bus.request_name("org.bluez", NameFlag.DO_NOT_QUEUE)
        self._advertising = self._group.create_task(self._advertise(), name="advertising")

    async def stop(self) -> None:
        """bluetoothd ends: its name goes, and so does what it did not write down."""
        if self._advertising is not None:
            self._advertising.cancel()
        if self._bus is not None:
            bus, self._bus = self._bus, None
            bus.disconnect()
            await bus.wait_for_disconnect()
        self.agents.clear()
        self.defaults.clear()
        self._scanners.clear()
        self.registered = asyncio.Event()

    def path_of(self, address: str) -> str:
        return f"{self.adapter}/dev_{address.replace(':', '_')}"

    def device(self, address: str) -> dict[str, Any]:
        """The properties of a device that BlueZ knows."""
        return self.objects[self.path_of(address)][DEVICE]

    def is_known(self, address: str) -> bool:
        return self.path_of(address) in self.objects

    def remember(self, peer: Peer, *, connected: bool = False, paired: bool = False) -> None:
        """BlueZ knows the peer from a former life."""
        self.peers[peer.address] = peer
        path = self.path_of(peer.address)
        if paired:
            self.paired.add(path)
            peer.has_bond = True
        self._add_device(peer, path)
        self.objects[path][DEVICE] |= {"Connected": connected, "Paired": paired}

    async def ask_agent(self, member: str, signature: str, body: list[Any]) -> Message:
        """What bluetoothd asks its default agent when some device wants something."""
        sender = self.defaults[-1]
        assert self._bus is not None
        answer = await self._bus.call(
            Message(
                destination=sender,
                path=self.agents[sender][0],
                interface=AGENT,
                member=member,
                signature=signature,
                body=body,
            )
        )
        assert answer is not None
        return answer

    # The air

    async def _advertise(self) -> None:
        while True:
            await asyncio.sleep(ADVERTISE_S)
            if not self._scanners or not self.objects[self.adapter][ADAPTER]["Powered"]:
                continue
            for peer in self.peers.values():
                path = self.path_of(peer.address)
                is_connected = path in self.objects and self.objects[path][DEVICE]["Connected"]
                if not peer.is_on_air or is_connected:
                    continue
                if path not in self.objects:
                    self._add_device(peer, path)
                    self._emit_added(path)
                else:
                    self._change(path, DEVICE, {"RSSI": peer.rssi})

    def _add_device(self, peer: Peer, path: str) -> None:
        self.objects[path] = {
            DEVICE: {
                "Address": peer.address,
                "Name": peer.name,
                "Alias": peer.name,
                "Adapter": self.adapter,
                "Paired": path in self.paired,
                "Connected": False,
                "ServicesResolved": False,
                "Trusted": False,
                "UUIDs": [],
                "RSSI": peer.rssi,
            }
        }

    def _peer_of(self, path: str) -> Peer:
        return next(peer for peer in self.peers.values() if path.startswith(self.path_of(peer.address)))

    # Answers

    def _received(self, message: Message) -> Message | bool | None:
        if message.message_type is MessageType.SIGNAL and message.member == "NameOwnerChanged":
            if not message.body[2]:
                self._forget_caller(message.body[0])
            return None
        if message.message_type is not MessageType.METHOD_CALL:
            return None
        if message.interface not in {PROPERTIES, MANAGER, CHARACTERISTIC, "org.freedesktop.DBus.Peer"}:
            self.log.append(str(message.member))
        name = f"_{(message.interface or '').rsplit('.', 1)[-1].lower()}_{(message.member or '').lower()}"
        method: Callable[[Message], Any] | None = getattr(self, name, None)
        if method is None:
            return None
        self._group.create_task(self._answer(method, message), name=f"bluez {message.member}")
        return True

    async def _answer(self, method: Callable[[Message], Any], message: Message) -> None:
        try:
            found = method(message)
            result = await found if asyncio.iscoroutine(found) else found
            signature, body = result if result is not None else ("", [])
            answer = Message.new_method_return(message, signature, body)
        except DBusError as err:
            answer = Message.new_error(message, err.type, err.text)
        if self._bus is not None:
            await self._bus.send(answer)

    def _objectmanager_getmanagedobjects(self, _: Message) -> tuple[str, list[Any]]:
        return "a{oa{sa{sv}}}", [{path: _wrap(interfaces) for path, interfaces in self.objects.items()}]

    def _find(self, path: str, interface: str) -> dict[str, Any]:
        try:
            return self.objects[path][interface]
        except KeyError:
            raise DBusError("org.freedesktop.DBus.Error.UnknownObject", f"no {path}") from None

    def _properties_get(self, message: Message) -> tuple[str, list[Any]]:
        interface, name = message.body
        found = self._find(message.path or "", interface)
        if name not in found:
            raise DBusError("org.freedesktop.DBus.Error.InvalidArgs", name)
        return "v", [_variant(name, found[name])]

    def _properties_set(self, message: Message) -> None:
        interface, name, value = message.body
        self._find(message.path or "", interface)
        self.log.append(f"{name}={value.value}")
        if name == "Powered" and not value.value:
            self._scanners.clear()
            for path in [path for path in self.objects if DEVICE in self.objects[path]]:
                self._peer_of(path).is_stuck = self._peer_of(path).is_stuck_hard = False
                self._drop(path)
        self._change(message.path or "", interface, {name: value.value})

    # AgentManager1

    def _agentmanager1_registeragent(self, message: Message) -> None:
        if self.refuses_agents:
            self.refuses_agents -= 1
            raise error("Failed")
        sender = message.sender or ""
        if sender in self.agents:
            raise error("AlreadyExists")
        self.agents[sender] = (message.body[0], message.body[1])

    def _agentmanager1_unregisteragent(self, message: Message) -> None:
        if message.sender not in self.agents:
            raise error("DoesNotExist")
        self._forget_caller(message.sender)

    def _agentmanager1_requestdefaultagent(self, message: Message) -> None:
        sender = message.sender or ""
        if sender not in self.agents or self.refuses_default:
            raise error("DoesNotExist")
        self.defaults = [name for name in self.defaults if name != sender] + [sender]
        self.registered.set()

    def _forget_caller(self, sender: str) -> None:
        self.agents.pop(sender, None)
        self.defaults = [name for name in self.defaults if name != sender]
        self._scanners.discard(sender)

    # Adapter1

    def _adapter1_setdiscoveryfilter(self, message: Message) -> None:
        self._find(message.path or "", ADAPTER)

    def _adapter1_startdiscovery(self, message: Message) -> None:
        if not self._find(message.path or "", ADAPTER)["Powered"]:
            raise error("NotReady", "Resource Not Ready")
        self._scanners.add(message.sender or "")

    def _adapter1_stopdiscovery(self, message: Message) -> None:
        if message.sender not in self._scanners:
            raise error("Failed", "No discovery started")
        self._scanners.discard(message.sender or "")

    def _adapter1_removedevice(self, message: Message) -> None:
        path = message.body[0]
        if path not in self.objects:
            raise error("DoesNotExist")
        peer = self._peer_of(path)
        peer.is_stuck = peer.is_stuck_hard
        self._drop(path)
        self.paired.discard(path)
        for gone in [one for one in self.objects if one.startswith(path)][::-1]:
            interfaces = list(self.objects.pop(gone))
            self._signal("/", MANAGER, "InterfacesRemoved", "oas", [gone, interfaces])

    # Device1

    async def _device1_connect(self, message: Message) -> None:
        path = message.path or ""
        device, peer = self._find(path, DEVICE), self._peer_of(path)
        if peer.is_stuck or peer.is_stuck_hard:
            raise error("InProgress", "Operation already in progress")
        how = peer.connects.pop(0) if peer.connects else "ok"
        if how == "hang":
            await asyncio.Event().wait()
        self._change(path, DEVICE, {"Connected": True})
        if how == "abort":
            self._change(path, DEVICE, {"Connected": False})
            raise error("Failed", "le-connection-abort-by-local")
        self._discover(path, peer)
        assert device["Connected"]

    def _discover(self, path: str, peer: Peer) -> None:
        if f"{path}/service0010" not in self.objects:
            peer.table_at_discovery = dict(peer.characteristics)
            self.objects[f"{path}/service0010"] = {
                SERVICE: {"UUID": "98bd0001-0b0e-421a-84e5-ddbf75dc6de4", "Device": path, "Primary": True}
            }
            self._emit_added(f"{path}/service0010")
            for handle, uuid in peer.characteristics.items():
                one = f"{path}/service0010/char{handle:04x}"
                flags = ["read", "write", "notify"]
                service = f"{path}/service0010"
                self.objects[one] = {CHARACTERISTIC: {"UUID": uuid, "Service": service, "Flags": flags, "MTU": 65}}
                self._emit_added(one)
        self._change(path, DEVICE, {"ServicesResolved": True})

    def _device1_disconnect(self, message: Message) -> None:
        path = message.path or ""
        if not self._find(path, DEVICE)["Connected"]:
            raise error("NotConnected", "Not Connected")
        self._drop(path)

    def _drop(self, path: str) -> None:
        if self.objects[path][DEVICE]["Connected"]:
            self._change(path, DEVICE, {"ServicesResolved": False, "Connected": False})

    async def _device1_pair(self, message: Message) -> None:
        path = message.path or ""
        device, peer = self._find(path, DEVICE), self._peer_of(path)
        if device["Paired"]:
            raise error("AlreadyExists")
        sender = message.sender if message.sender in self.agents else (self.defaults or [None])[-1]
        if sender is None or peer.pairs == "refuses":
            raise error("AuthenticationFailed", "Authentication Failed")
        capability = self.agents[sender][1]
        question: tuple[str, str, list[Any]] | None = None
        if peer.pairs == "compares" and capability in ("DisplayYesNo", "KeyboardDisplay"):
            question = ("RequestConfirmation", "ou", [path, peer.passkey])
        elif peer.pairs == "shows" and capability.startswith("Keyboard"):
            question = ("RequestPasskey", "o", [path])
        if question is not None:
            answer = await self.ask_agent(*question)
            wrong = question[0] == "RequestPasskey" and answer.body != [peer.passkey]
            if answer.message_type is MessageType.ERROR or wrong:
                raise error("AuthenticationFailed", "Authentication Failed")
        peer.has_bond, peer.is_authenticated = True, question is not None
        self.paired.add(path)
        self._change(path, DEVICE, {"Paired": True})

    # GattCharacteristic1

    def _reach(self, message: Message) -> Peer:
        path = message.path or ""
        self._find(path, CHARACTERISTIC)
        peer, handle = self._peer_of(path), int(path[-4:], 16)
        if peer.characteristics.get(handle) != peer.table_at_discovery.get(handle):
            raise error("Failed", "Operation failed with ATT error: 0x01 (Invalid Handle)")
        if peer.needs_bond and not (peer.has_bond and self.path_of(peer.address) in self.paired):
            raise error("Failed", "Operation failed with ATT error: 0x05 (Insufficient Authentication)")
        return peer

    def _gattcharacteristic1_readvalue(self, message: Message) -> tuple[str, list[Any]]:
        return "ay", [self._reach(message).name.encode()]

    def _gattcharacteristic1_writevalue(self, message: Message) -> None:
        self._reach(message).written.append(bytes(message.body[0]))

    def _gattcharacteristic1_startnotify(self, message: Message) -> None:
        self._reach(message)

    # Signals

    def _change(self, path: str, interface: str, changed: dict[str, Any]) -> None:
        self.objects[path][interface] |= changed
        wrapped = {name: _variant(name, value) for name, value in changed.items()}
        self._signal(path, PROPERTIES, "PropertiesChanged", "sa{sv}as", [interface, wrapped, []])

    def _emit_added(self, path: str) -> None:
        self._signal("/", MANAGER, "InterfacesAdded", "oa{sa{sv}}", [path, _wrap(self.objects[path])])

    def _signal(self, path: str, interface: str, member: str, signature: str, body: list[Any]) -> None:
        if self._bus is not None:
            self._bus.send(Message.new_signal(path, interface, member, signature, body))


def _variant(name: str, value: Any) -> Variant:
    return Variant(CELLS.get(name) or SIGNATURES[type(value)], value)


def _wrap(interfaces: dict[str, dict[str, Any]]) -> dict[str, dict[str, Variant]]:
    return {
        interface: {name: _variant(name, value) for name, value in properties.items()}
        for interface, properties in interfaces.items()
    }


def _to_daemon(member: str, signature: str, body: list[Any]) -> Message:
    daemon = "org.freedesktop.DBus"
    return Message(
        destination=daemon,
        path="/org/freedesktop/DBus",
        interface=daemon,
        member=member,
        signature=signature,
        body=body,
    )


@asynccontextmanager
async def running_fake_bluez(address: str) -> AsyncIterator[FakeBluez]:
    """bluetoothd with one adapter, hci0, on the bus at `address`."""
    async with asyncio.TaskGroup() as group:
        bluez = FakeBluez(group, address)
        try:
            await bluez.start()
            yield bluez
        finally:
            await bluez.stop()
            for task in list(group._tasks):
                task.cancel()
