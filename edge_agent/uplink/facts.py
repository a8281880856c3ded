"""What the box says of itself to its relay, and what it shows of the line to its household."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from core.domain.errors import InvalidInputError
from core.sync.envelope import import_public_key
from core.sync.linking import LinkGrant
from core.sync.messages import FailedRegistration, InventoryItem


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxFacts:
    """The part of a hello that only the box's composition knows."""

    name: str
    version: str
    mowers: tuple[InventoryItem, ...]
    failed_registrations: tuple[FailedRegistration, ...] = ()
    notices: tuple[str, ...] = ()


class UplinkStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The line to the relay. `backlog_rows` wait for its ack; `skew_s` is its clock minus ours."""

    is_online: bool
    is_emergency_lane_up: bool
    since: datetime
    backlog_rows: int = 0
    last_ack_at: datetime | None = None
    skew_s: float | None = None
    problem: str | None = None
    code: str | None = None
    dropped_events: int = 0
    rejected_rows: int = 0
    """Rows that the relay put into its quarantine."""
    refused_messages: dict[str, int] = {}
    """Messages from the relay's side that were not obeyed, by reason."""


def pinned_keys(grant: LinkGrant) -> dict[str, Ed25519PublicKey]:
    """The relay's keys by id, from the JWKs of the link. InvalidInputError when there is none that can be used."""
    keys = {}
    for jwk in grant.relay_keys:
        key_id, x = jwk.get("kid"), jwk.get("x")
        if isinstance(key_id, str) and isinstance(x, str) and jwk.get("kty") == "OKP" and jwk.get("crv") == "Ed25519":
            keys[key_id] = import_public_key(x)
    if not keys:
        raise InvalidInputError.of("relay_keys", "no Ed25519 key with an id")
    return keys
