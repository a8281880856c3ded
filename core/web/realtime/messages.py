"""Messages of the realtime socket: JSON text frames, one message each, told apart by `type`.

Unknown fields are ignored, so either side may be newer.
"""

from __future__ import annotations

from datetime import datetime
from enum import IntEnum
from typing import Annotated, Literal

import msgspec

from core.domain.commands import CommandStatus
from core.domain.drive import DriveFrame
from core.domain.events import MowerEvent
from core.domain.ids import AccountId, CommandId, MowerId, UserId
from core.domain.mower import MowerState
from core.domain.secretive import hidden_repr

RequestId = Annotated[str, msgspec.Meta(max_length=64)]
"""Chosen by the client, repeated in the answer."""


class CloseCode(IntEnum):
    """Why the server ends a connection."""

    SHUTDOWN = 1001
    TOO_BIG = 1009
    INTERNAL = 1011
    PROTOCOL_ERROR = 4400
    NOT_AUTHENTICATED = 4401
    TOO_MANY = 4429
    SLOW_CONSUMER = 4430


class _Client(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Root of what a client says."""


class Auth(_Client, frozen=True, kw_only=True, tag="auth"):
    """The first message; a later one refreshes the token."""

    __repr__ = hidden_repr

    token: str


class Subscribe(_Client, frozen=True, kw_only=True, tag="subscribe"):
    mower_ids: tuple[str, ...]
    request_id: RequestId | None = None


class Unsubscribe(_Client, frozen=True, kw_only=True, tag="unsubscribe"):
    mower_ids: tuple[str, ...]
    request_id: RequestId | None = None


class Drive(_Client, frozen=True, kw_only=True, tag="drive"):
    """One joystick frame of an open drive session."""

    mower_id: str
    frame: DriveFrame


class Ping(_Client, frozen=True, kw_only=True, tag="ping"):
    request_id: RequestId | None = None


ClientMessage = Auth | Subscribe | Unsubscribe | Drive | Ping


class _Server(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Root of what the server says."""


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Whose connection it is."""

    subject: UserId
    account_id: AccountId
    kind: Literal["user", "service"]
    name: str


class Ready(_Server, frozen=True, kw_only=True, tag="ready"):
    """Answers every accepted `auth`."""

    connection_id: str
    principal: Identity
    token_expires_at: datetime
    server_time: datetime


class Subscribed(_Server, frozen=True, kw_only=True, tag="subscribed"):
    """`denied` holds unknown and foreign ids alike."""

    mower_ids: tuple[str, ...]
    denied: tuple[str, ...]
    request_id: str | None = None


class Unsubscribed(_Server, frozen=True, kw_only=True, tag="unsubscribed"):
    mower_ids: tuple[str, ...]
    request_id: str | None = None


class Revoked(_Server, frozen=True, kw_only=True, tag="revoked"):
    """Rights have ended; nothing more of these mowers follows."""

    mower_ids: tuple[str, ...]
    reason: str


class State(_Server, frozen=True, kw_only=True, tag="state"):
    """A snapshot. Snapshots in between may be left out for a slow viewer; the newest never is."""

    mower_id: MowerId
    state: MowerState


class CommandResultMessage(_Server, frozen=True, kw_only=True, tag="command_result"):
    """A transition of a command, whoever issued it."""

    command_id: CommandId
    mower_id: MowerId
    status: CommandStatus
    at: datetime
    reason: str | None = None


class Event(_Server, frozen=True, kw_only=True, tag="event"):
    mower_id: MowerId
    event: MowerEvent


class Record(_Server, frozen=True, kw_only=True, tag="record"):
    """A record (a small document about the mower: a day of its health, a session, ...) is new or has changed."""

    mower_id: MowerId
    kind: str
    key: str
    at: datetime
    updated_at: datetime
    body: msgspec.Raw | None
    """The kind's own object; null when it is too large for a frame: then read it."""


class Error(_Server, frozen=True, kw_only=True, tag="error"):
    """Something the client asked for was not done. The connection stays open unless a close follows."""

    code: Literal["invalid_message", "unauthorized", "limit_exceeded", "internal"]
    detail: str
    request_id: str | None = None


class Pong(_Server, frozen=True, kw_only=True, tag="pong"):
    server_time: datetime
    request_id: str | None = None


ServerMessage = (
    Ready | Subscribed | Unsubscribed | Revoked | State | CommandResultMessage | Event | Record | Error | Pong
)

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(ClientMessage)


def encode(message: ServerMessage) -> bytes:
    """The text frame of a message."""
    return _encoder.encode(message)


def decode(data: bytes) -> ClientMessage:
    """The message in a text frame; msgspec.DecodeError (ValidationError for JSON of another shape), RecursionError."""
    return _decoder.decode(data)
