"""An emulated Bluetooth mower as an integration describes it: pure data and synchronous handlers, no radio.

A host (the virtual radio of the box, a test) puts it on the air. The mower sees sessions, one per central that is
connected; the host sees services, advertising and the pairing policy. Whatever the mower does with time goes
through `MowerHost.later` and `MowerHost.now`, so that a test owns it.

Addresses are upper case `AA:BB:CC:DD:EE:FF` (static random: the two top bits set); UUIDs lower case with dashes.
"""

# Handlers are optional to override, and their defaults look at nothing.
# ruff: noqa: ARG002, B027

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, Protocol

Undo = Callable[[], None]
Property = Literal["read", "write", "write-without-response", "notify", "indicate"]
Security = Literal["open", "encrypted", "authenticated"]
"""What a central needs before it may read, write or subscribe: nothing, any bond, or one made with a passkey."""

LOCAL_HOST_ENDED = 0x16
REMOTE_USER_ENDED = 0x13
REMOTE_POWERED_OFF = 0x15
CONNECTION_TIMEOUT = 0x08
"""Reasons of a disconnection, as the Bluetooth specification numbers them."""


class AttCode(Enum):
    """The ATT errors that an emulated mower may answer with."""

    READ_NOT_PERMITTED = 0x02
    WRITE_NOT_PERMITTED = 0x03
    INSUFFICIENT_AUTHENTICATION = 0x05
    INSUFFICIENT_AUTHORIZATION = 0x08
    INVALID_LENGTH = 0x0D
    UNLIKELY = 0x0E
    INSUFFICIENT_ENCRYPTION = 0x0F
    APPLICATION = 0x80


class AttRefusedError(Exception):
    """A handler raises this to answer with an ATT error. Never leaves the host."""

    def __init__(self, code: AttCode) -> None:
        super().__init__(code.name)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatedCharacteristic:
    """One characteristic. A CCCD is added by the host where it notifies or indicates, with the same security."""

    uuid: str
    properties: frozenset[Property]
    security: Security = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatedService:
    """One primary service."""

    uuid: str
    characteristics: tuple[EmulatedCharacteristic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatedAdvertising:
    """What is on the air. `*_in_scan_response` parts are heard by active scans only, as with real mowers."""

    name: str | None = None
    service_uuids: tuple[str, ...] = ()
    manufacturer_data: Mapping[int, bytes] = field(default_factory=dict)
    service_data: Mapping[str, bytes] = field(default_factory=dict)
    interval_ms: int = 100
    is_name_in_scan_response: bool = True
    is_manufacturer_data_in_scan_response: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatedPairing:
    """Whether the mower pairs now, and how. With a `passkey` the mower shows it and the box has to enter it."""

    is_open: bool = True
    passkey: int | None = None
    is_secure_connections: bool = True
    """False: legacy pairing, as older mowers do."""


class MowerSession(Protocol):
    """One central that is connected to the mower."""

    central: str
    """Its address."""

    @property
    def mtu(self) -> int: ...

    @property
    def is_open(self) -> bool: ...

    @property
    def is_encrypted(self) -> bool: ...

    @property
    def is_bonded(self) -> bool:
        """Encrypted with a key that outlives the connection."""
        ...

    def notify(self, characteristic: str, data: bytes) -> None:
        """Queues a notification, in order; dropped when the central has not subscribed. ValueError when `data` is
        longer than `mtu - 3`: a mower's firmware splits it."""
        ...

    def disconnect(self, reason: int = REMOTE_USER_ENDED) -> None:
        """The mower ends the connection, after what is queued."""
        ...


class MowerHost(Protocol):
    """What the radio side does for a mower that is on the air."""

    def now(self) -> float:
        """Monotonic seconds; virtual in most tests."""
        ...

    def later(self, delay_s: float, action: Callable[[], None]) -> Undo:
        """Runs `action` once after `delay_s`; cancelled when the mower leaves the air. Returns the undo."""
        ...

    def refresh(self) -> None:
        """Advertising, or the pairing policy, has changed."""
        ...


class EmulatedPeer(ABC):
    """An emulated mower. Handlers are synchronous and quick: bytes in, `session.notify` or a value out.

    `address` is fixed; `mtu` is the largest ATT MTU that the server agrees to; `max_connections` as real mowers: one.
    """

    mtu: int = 517
    max_connections: int = 1

    def __init__(self, address: str) -> None:
        self.address = address.upper()
        self.host: MowerHost | None = None
        """Set by the host while the mower is on the air."""

    @property
    @abstractmethod
    def services(self) -> tuple[EmulatedService, ...]:
        """Fixed while the mower is on the air."""

    @abstractmethod
    def advertising(self) -> EmulatedAdvertising:
        """Read again after `host.refresh()`."""

    def pairing(self) -> EmulatedPairing:
        """Asked at each attempt to pair."""
        return EmulatedPairing()

    def opened(self, session: MowerSession) -> None:
        """A central has connected."""

    def closed(self, session: MowerSession) -> None:
        """The central is gone, for whatever reason; state of the session has to be dropped here."""

    def subscribed(self, session: MowerSession, characteristic: str, is_on: bool) -> None:
        """The central switched notifications on or off."""

    def read(self, session: MowerSession, characteristic: str) -> bytes:
        """The value of a readable characteristic; AttRefusedError answers with an error."""
        raise AttRefusedError(AttCode.READ_NOT_PERMITTED)

    def write(self, session: MowerSession, characteristic: str, data: bytes) -> None:
        """Bytes from the central, in order; AttRefusedError answers with an error (only with a response)."""
        raise AttRefusedError(AttCode.WRITE_NOT_PERMITTED)

    def rebooted(self) -> None:
        """The mower lost power and is back: volatile state is gone, bonds stay."""
