"""What the API of boxes takes and gives (the box's own part of linking stands in `core.sync.linking`)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from cloud_relay.edges.facts import MowerNote
from core.domain.ids import EdgeId, SiteId

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=120, pattern=r"\S")]


class EdgeView(msgspec.Struct, frozen=True, kw_only=True):
    """A linked box. What comes from its hello is None until the first one."""

    edge_id: EdgeId
    name: str
    site_id: SiteId
    linked_at: datetime
    is_online: bool | None
    """None while the broker has not said."""
    last_seen_at: datetime | None
    mowdeck_version: str | None = None
    wire_version: int | None = None
    clock_skew_s: float | None = None
    is_clock_synchronised: bool | None = None
    has_emergency_lane: bool | None = None
    backlog_rows: int | None = None
    """Journal numbers that the box had at its last hello and the relay has not stored yet."""
    failed_registrations: tuple[MowerNote, ...] = ()
    duplicate_serials: tuple[MowerNote, ...] = ()
    refused_mowers: tuple[MowerNote, ...] = ()
    notices: tuple[str, ...] = ()
    """What the box says of its storage: rows let go for want of room, a full card."""


class EdgeList(msgspec.Struct, frozen=True, kw_only=True):
    """Linked boxes, by name."""

    items: tuple[EdgeView, ...]


class EdgeChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Only what is given changes. Mowers that the box has already stay at their sites."""

    name: Name | UnsetType = UNSET
    site_id: SiteId | UnsetType = UNSET


class LinkPreview(msgspec.Struct, frozen=True, kw_only=True):
    """A box that waits for a confirmation: what it calls itself and where the request came from."""

    user_code: str
    name: str
    version: str
    remote: str
    requested_at: datetime
    expires_at: datetime


class LinkConfirmation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the box is to stand (the account's default site when not said) and what it is to be called."""

    site_id: SiteId | None = None
    name: Name | None = None
