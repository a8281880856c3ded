"""Our own pairing agent (`org.bluez.Agent1`): a box without screen and keys has nobody else to answer BlueZ.

It answers for the one peer that a person is pairing right now, and only to BlueZ itself; everything else is rejected.
What BlueZ asks follows from the capability that we register:

* `DisplayYesNo` when no passkey is known: a mower that compares numbers is agreed to, all others pair by themselves.
  A mower that *shows* a number falls back to pairing without one, as with any box that has no keys.
* `KeyboardDisplay` when the flow has brought the passkey that the mower shows or is set to: only with keys of our own
  does the mower's number get asked for at all.

The passkey is a secret of the flow: in no log, no repr, and told to nobody but the owner of BlueZ's name.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import structlog
from bleak.exc import BleakDBusError
from dbus_fast.message import Message

from edge_agent.bluez.bus import FAILURES, RETRY_FIRST_S, RETRY_MAX_S, BluezBus, device_path

log = structlog.get_logger(__name__)

PATH = "/org/mowdeck/pairing_agent"
INTERFACE = "org.bluez.Agent1"
AGENTS = "org.bluez.AgentManager1"
AGENTS_PATH = "/org/bluez"
REJECTED = "org.bluez.Error.Rejected"

Capability = Literal["DisplayYesNo", "KeyboardDisplay"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The peer that is being paired, as BlueZ names it, and the passkey that it will want."""

    device_path: str
    passkey: int | None = field(repr=False)


def answer(member: str, body: Sequence[Any], expected: Expected | None) -> tuple[str, list[Any]] | None:
    """Signature and body of the answer to one question of BlueZ; None is a rejection. Pure."""
    if expected is None or not body or body[0] != expected.device_path:
        return None
    match member:
        case "RequestPasskey" if expected.passkey is not None:
            return "u", [expected.passkey]
        case "RequestConfirmation" if expected.passkey in (None, body[1]):
            return "", []
        case "RequestAuthorization":
            return "", []
        case _:  # PIN codes and services are of the old Bluetooth; a number to be typed into the mower: nobody sees it
            return None


class BluezAgent:
    """Registered as long as `run` lives, and again whenever BlueZ has been started anew. One pairing at a time."""

    def __init__(self, bus: BluezBus) -> None:
        self._bus = bus
        self._expected: Expected | None = None
        self._capability: Capability = "DisplayYesNo"
        self._may_be_known = False
        """Whether BlueZ has been told of the agent, though perhaps not to the end."""
        self._registered_with: str | None = None
        self._changed = asyncio.Event()
        self._pairing = asyncio.Lock()
        self._registering = asyncio.Lock()
        bus.on_owner(self._changed.set)
        bus.on_call(self._asked)

    @property
    def is_registered(self) -> bool:
        """Whether the BlueZ that runs now has us as its agent."""
        return self._registered_with is not None and self._registered_with == self._bus.owner

    async def run(self) -> None:
        """Keeps itself registered until it is cancelled, and unregisters then."""
        delay_s = RETRY_FIRST_S
        why: str | None = None
        try:
            while True:
                self._changed.clear()
                try:
                    if self._bus.owner is not None and not self.is_registered:
                        await self._register()
                        log.info("pairing agent registered")
                    delay_s, why = RETRY_FIRST_S, None
                    await self._changed.wait()
                except FAILURES as err:  # BlueZ may have its name before it takes agents
                    if str(err) != why:
                        log.warning("no pairing agent", reason=str(err) or type(err).__name__)
                    why = str(err)
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(delay_s):
                            await self._changed.wait()
                    delay_s = min(delay_s * 2, RETRY_MAX_S)
        finally:
            if self._may_be_known:
                with contextlib.suppress(*FAILURES):
                    await self._bus.call(AGENTS_PATH, AGENTS, "UnregisterAgent", "o", [PATH])
            self._registered_with = None

    def on_adapter(self, adapter: str) -> AdapterAgent:
        """The agent as one adapter's PairingAgent."""
        return AdapterAgent(self, adapter)

    @asynccontextmanager
    async def expecting(self, device: str, passkey: int | None) -> AsyncIterator[None]:
        """Inside, pairing with this one peer is agreed to."""
        async with self._pairing:
            self._capability = "DisplayYesNo" if passkey is None else "KeyboardDisplay"
            try:
                await self._register()  # anew: the capability, and whoever has made himself the default since
            except FAILURES as err:
                log.warning("pairing without an agent", reason=str(err) or type(err).__name__)
            self._expected = Expected(device_path=device, passkey=passkey)
            try:
                yield
            finally:
                self._expected = None

    async def _register(self) -> None:
        async with self._registering:
            owner = self._bus.owner
            self._registered_with = None
            with contextlib.suppress(BleakDBusError):  # it takes one agent from each of us, and may still have one
                await self._bus.call(AGENTS_PATH, AGENTS, "UnregisterAgent", "o", [PATH])
            self._may_be_known = True
            await self._bus.call(AGENTS_PATH, AGENTS, "RegisterAgent", "os", [PATH, self._capability])
            await self._bus.call(AGENTS_PATH, AGENTS, "RequestDefaultAgent", "o", [PATH])
            self._registered_with = owner

    def _asked(self, message: Message) -> Message | None:
        if message.path != PATH or message.interface != INTERFACE:
            return None
        member = message.member or ""
        if message.sender != self._bus.owner:
            return Message.new_error(message, REJECTED, "only BlueZ may ask")
        if member == "Release":  # BlueZ is ending, or has taken another agent in our place
            self._registered_with = None
            self._changed.set()
            return Message.new_method_return(message)
        if member == "Cancel":
            return Message.new_method_return(message)
        found = answer(member, message.body, self._expected)
        if found is None:
            log.info("a pairing was rejected", question=member, device=message.body[0] if message.body else None)
            return Message.new_error(message, REJECTED, "not asked for here")
        return Message.new_method_return(message, *found)


class AdapterAgent:
    """Implements `edge_agent.bluetooth.adapter.PairingAgent`."""

    def __init__(self, agent: BluezAgent, adapter: str) -> None:
        self._agent = agent
        self._adapter = adapter

    def expecting(self, address: str, passkey: int | None) -> AbstractAsyncContextManager[None]:
        return self._agent.expecting(device_path(self._adapter, address), passkey)
