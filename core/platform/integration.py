"""THE contract between Mowdeck and a brand. An integration sees this module and `core.domain`, nothing else.

A plugin folder's `create(context, entry)` returns an Integration; the supervisor asks it for mowers and opens
one link per mower. Whatever a plugin does wrong (raise, hang, flood, leak) stays behind its mower's fire door.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NewType, Protocol, runtime_checkable

import aiohttp

from core.domain.capabilities import Capabilities
from core.domain.clock import Clock
from core.domain.commands import Command
from core.domain.drive import DriveFrame
from core.domain.events import MowerEvent
from core.domain.ids import EntryId
from core.domain.mower import LinkKind, MowerDescription, MowerState
from core.platform.bluetooth import BluetoothPort

API_VERSION = 1
"""Version of this boundary; a manifest names the one that it was written for."""

MowerKey = NewType("MowerKey", str)
"""`vendor:serial`, the identity of a mower across links and integrations."""

Report = Callable[[MowerState | MowerEvent], None]
"""Synchronous and bounded: states coalesce to the newest, events never do (a full lane raises FloodError)."""


def key_of(mower: MowerDescription) -> MowerKey:
    """The identity of a described mower."""
    return MowerKey(f"{mower.vendor}:{mower.serial}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the mower said to a command. `unknown`: it may or may not have heard it; never sent again."""

    kind: Literal["accepted", "refused", "unknown"]
    reason: str | None = None


ACCEPTED = Outcome(kind="accepted")


@runtime_checkable
class MowerLink(Protocol):
    """One mower over one path, one connection. Never reopened: after `run` has ended a new link is made."""

    capabilities: Capabilities

    async def run(self, report: Report) -> None:
        """Reports until the connection ends: returns when it was closed in peace, else raises an
        IntegrationError (LinkLostError, LinkTimeoutError, AuthFailedError, ...). Cancelling it closes the link."""
        ...

    async def send(self, command: Command) -> Outcome:
        """Hands the command to the mower once. Raises an IntegrationError when the connection fails."""
        ...


@runtime_checkable
class DrivableLink(MowerLink, Protocol):
    """A link over which a person can drive by hand."""

    async def drive(self, frame: DriveFrame) -> None:
        """One joystick frame; the machine stops when none follows within `frame.ttl_ms`. Frames come between a
        `ManualDrive` and its end, with growing sequence numbers, one at a time; one with both speeds 0 makes the
        machine stand. Where `pause_mow` can be done, it also leaves manual mode. Raises as `send`."""
        ...


class Integration(Protocol):
    """One set-up config entry of a brand."""

    async def mowers(self) -> Sequence[MowerDescription]:
        """The mowers behind this entry. NotReadyError: try again later; AuthFailedError: ask a person."""
        ...

    async def open(self, mower: MowerKey, link: LinkKind) -> MowerLink:
        """A new connection to one mower."""
        ...

    async def close(self) -> None:
        """Releases everything; called once, also after a failed set-up."""
        ...


class Secrets(Protocol):
    """Secrets of one entry, kept apart from its data and out of every log."""

    def get(self, name: str) -> str | None: ...

    def put(self, name: str, value: str) -> None: ...


class RequestBudget(Protocol):
    """How many requests the vendor allows; survives restarts."""

    async def spend(self, requests: int = 1) -> None:
        """Waits until the requests are allowed; RateLimitedError when that is more than a minute away."""
        ...


Spawn = Callable[[Coroutine[object, object, None], str], None]
"""Starts a named task in the entry's own group; it ends with the entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What an integration may know of its config entry."""

    entry_id: EntryId
    domain: str
    unique_id: str | None
    title: str
    data: Mapping[str, object] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    version: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegrationContext:
    """All of the box that a plugin can reach."""

    clock: Clock
    log: logging.LoggerAdapter[logging.Logger]
    secrets: Secrets
    budget: RequestBudget
    spawn: Spawn
    http: Callable[[], Awaitable[aiohttp.ClientSession]]
    """The shared HTTP session, made on first use; owned and closed by the box."""
    bluetooth: BluetoothPort | None = None
    """None on a box without any radio or proxy."""


class Create(Protocol):
    """The plugin's one entry point, `integrations.<domain>.create`."""

    def __call__(self, context: IntegrationContext, entry: Entry) -> Integration: ...
