"""Linking a box to an account, like RFC 8628 (device flow): what box and relay say to each other over HTTPS.

`POST   /api/v1/edges/link`        LinkRequest -> LinkOffer   (public; 409 when the box is linked already)
`POST   /api/v1/edges/link/token`  LinkPoll -> LinkGrant      (public; every `interval` seconds; until then 400 and a
                                   LinkPending with the RFC's word in `error`)
`DELETE /api/v1/edges/link`        LinkEnd -> 204             (public; the credential is the proof; 401 when it does
                                   not hold, and then the link is over as well)
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from core.domain.ids import AccountId, EdgeId


class _Secretive(msgspec.Struct, frozen=True, kw_only=True):
    """Root of messages with a secret in them: their `repr` shows none of it."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


class LinkRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A box asks to be linked. `fingerprint` names the box for life (random, made at first start)."""

    name: str
    version: str
    fingerprint: str


class LinkOffer(_Secretive, frozen=True, kw_only=True):
    """What the box shows to its person (`user_code`, the addresses) and keeps for itself (`device_code`)."""

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str
    expires_in: int
    """Seconds."""
    interval: int
    """Seconds to wait between two polls."""


class LinkPoll(_Secretive, frozen=True, kw_only=True):
    """The box asks whether somebody has confirmed."""

    device_code: str


class LinkPending(msgspec.Struct, frozen=True, kw_only=True):
    """Not (or never): `slow_down` adds 5 s to the interval; the last two are final, ask for a new link."""

    error: Literal["authorization_pending", "slow_down", "expired_token", "access_denied"]
    interval: int


class BrokerAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where the box connects. `ca_pem` is what it trusts; None means the system's authorities."""

    host: str
    port: int
    tls: bool
    ca_pem: str | None = None


class LinkGrant(_Secretive, frozen=True, kw_only=True):
    """The link. User name at the broker is `edge_id`, password is `credential`."""

    edge_id: EdgeId
    account_id: AccountId
    broker: BrokerAddress
    credential: str
    """256 random bits, base64url; the relay keeps only a hash."""
    relay_keys: tuple[dict[str, Any], ...]
    """Public keys (JWK, OKP Ed25519, with `kid`) that the box pins: it obeys nobody else."""
    relay_url: str


class LinkEnd(_Secretive, frozen=True, kw_only=True):
    """The box ends the link by itself."""

    edge_id: EdgeId
    credential: str
