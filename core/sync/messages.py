"""Messages between box and relay, as JSON. Unknown fields are ignored, so either side may be newer.

Version ladder of the wire (`WIRE_VERSION` in hello): 1: all of this module.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, TypeVar

import msgspec

from core.domain.capabilities import Capabilities
from core.domain.commands import Command, CommandResult, IssuedBy, Priority
from core.domain.drive import DriveEnd, DriveFrame
from core.domain.errors import MalformedMessageError
from core.domain.events import MowerEvent
from core.domain.ids import AccountId, BootId, CommandId, EdgeId, EntryId, MowerId, StreamId
from core.domain.mower import MowerDescription, MowerState

WIRE_VERSION = 1
WIRE_VERSION_MIN = 1


class _Message(msgspec.Struct, frozen=True, kw_only=True):
    """Root of all messages."""


class Status(_Message, frozen=True, kw_only=True):
    """`up/status`, retained, and the last will (then `online` is false)."""

    online: bool
    boot_id: BootId
    at: datetime


class InventoryItem(_Message, frozen=True, kw_only=True):
    """One mower that the box has."""

    mower_id: MowerId
    description: MowerDescription
    capabilities: Capabilities
    entry_id: EntryId


class FailedRegistration(_Message, frozen=True, kw_only=True):
    """A mower that the relay asked for and the box could not set up, and why."""

    mower_id: MowerId
    reason: str


class Hello(_Message, frozen=True, kw_only=True):
    """`up/hello`: the start of a session, and again whenever the inventory changes."""

    wire_version: int
    mowdeck_version: str
    boot_id: BootId
    sent_at: datetime
    is_clock_synchronised: bool
    stream_id: StreamId
    first_seq: int
    """Oldest sequence number that the box still keeps (head of a new stream)."""
    last_seq: int
    acked_seq: int
    mowers: tuple[InventoryItem, ...]
    failed_registrations: tuple[FailedRegistration, ...] = ()
    emergency_lane: bool = True
    name: str = ""
    notices: tuple[str, ...] = ()
    """What the box's people are told of its storage, in sentences; also said when it changes."""


class StateMessage(_Message, frozen=True, kw_only=True):
    """`up/state/{mower_id}`: a live snapshot."""

    mower_id: MowerId
    state: MowerState


class EventMessage(_Message, frozen=True, kw_only=True):
    """`up/event/{mower_id}`: a past fact, at once."""

    mower_id: MowerId
    event: MowerEvent


class Ack(_Message, frozen=True, kw_only=True):
    """`down/ack`: everything of the stream up to `acked_seq` is on the relay's disk."""

    stream_id: StreamId
    acked_seq: int
    answers: Literal["hello", "batch", "gap", "stranger"] = "batch"
    """What it answers. `gap`: a batch did not follow on `acked_seq` and was not taken; the box goes on from there.
    `stranger`: the relay has no hello of this session (it was restarted); the box says hello again."""
    rejected: tuple[RejectedRow, ...] = ()
    """Rows that went to the relay's quarantine instead of its tables."""
    received_at: datetime | None = None
    """The relay's clock, for measuring the offset."""


class RejectedRow(_Message, frozen=True, kw_only=True):
    """A row that the relay could not store, and why."""

    seq: int
    reason: str


class CommandEnvelope(_Message, frozen=True, kw_only=True):
    """What a relay signs and a box admits (04 section 4.5)."""

    command_id: CommandId
    account_id: AccountId
    edge_id: EdgeId
    mower_id: MowerId
    command: Command
    priority: Priority
    issued_by: IssuedBy
    issued_at: datetime
    expires_at: datetime
    correlation_id: str


class DriveMessage(_Message, frozen=True, kw_only=True):
    """`down/drive/{mower_id}`, signed like a command: a joystick frame for the drive session that the command
    `session_id` has opened, or the session's end. A session has many frames, so they carry no time of their own: old
    ones are known by their sequence number."""

    session_id: CommandId
    edge_id: EdgeId
    mower_id: MowerId
    frame: DriveFrame | None = None
    end: DriveEnd | None = None
    detail: str = ""
    """To the end: who ended it."""


class CancelEnvelope(_Message, frozen=True, kw_only=True):
    """`down/cancel/{mower_id}`: what a relay signs to take one of its commands back before it has begun. Saying it
    again changes nothing, and it never moves anything."""

    command_id: CommandId
    account_id: AccountId
    edge_id: EdgeId
    mower_id: MowerId
    reason: str
    """What the command's result says."""
    issued_at: datetime


class ResultMessage(_Message, frozen=True, kw_only=True):
    """`up/result/{mower_id}`; the same transition also travels in the journal."""

    result: CommandResult


class EnteredRecord(_Message, frozen=True, kw_only=True):
    """A record that people enter (kinds of `core.telemetry.blades.ENTERED`), as the relay has it. The box merges it
    with its own: of two versions the newer stands on both sides."""

    kind: str
    key: str
    at: datetime
    updated_at: datetime
    body: msgspec.Raw


class Registration(_Message, frozen=True, kw_only=True):
    """The fleet's view of one mower of this box. With `domain` set, the box adds a config entry for it."""

    mower_id: MowerId
    account_id: AccountId
    name: str
    site_id: str | None = None
    time_zone: str | None = None
    domain: str | None = None
    connection: dict[str, Any] | None = None
    entered: tuple[EnteredRecord, ...] = ()


class Registrations(_Message, frozen=True, kw_only=True):
    """`down/registrations`, retained: all mowers that the fleet has on this box. `removed` were deleted there."""

    version: int
    account_id: AccountId
    sent_at: datetime
    mowers: tuple[Registration, ...]
    removed: tuple[MowerId, ...] = ()
    is_linked: bool = True
    """False: the relay has ended the link; the box forgets its credential and goes on locally."""


class Call(_Message, frozen=True, kw_only=True):
    """`down/call`: a request to the box itself; the answer is an `up/reply/{request_id}`."""

    request_id: str
    method: Literal["recent", "hello", "diagnostics"]
    params: dict[str, Any] = {}
    expires_at: datetime


class Reply(_Message, frozen=True, kw_only=True):
    """`up/reply/{request_id}`: the result, or the code and detail of an error."""

    request_id: str
    result: Any = None
    error_code: str | None = None
    error_detail: str | None = None


M = TypeVar("M", bound=_Message)
_encoder = msgspec.json.Encoder()


def encode(message: _Message) -> bytes:
    """The message as UTF-8 JSON."""
    return _encoder.encode(message)


def decode(data: bytes, kind: type[M]) -> M:
    """The message in `data`; MalformedMessageError says what is wrong with it."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, RecursionError) as err:  # ValidationError is a DecodeError
        raise MalformedMessageError(f"{kind.__name__}: {err}") from err
