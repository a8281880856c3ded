"""Linking a box to an account (04 section 4.7): a code that a person confirms, a credential that is shown once."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from cloud_relay.broker.passwords import hash_password
from cloud_relay.edges.tables import EDGES, LINK_REQUESTS
from cloud_relay.edges.tries import Tries
from cloud_relay.edges.views import LinkConfirmation, LinkPreview
from cloud_relay.fleet.sites import Sites, site_row
from core.domain import limits
from core.domain.clock import Clock
from core.domain.errors import ConflictError, InvalidInputError, LimitExceededError, NotFoundError
from core.domain.ids import AccountId, EdgeId, SiteId, make_id
from core.identity.principal import Principal
from core.identity.rate_limit import network_of
from core.storage.relational import RelationalDatabase
from core.sync.linking import BrokerAddress, LinkGrant, LinkOffer, LinkPending, LinkRequest

log = structlog.get_logger(__name__)

CODE_ALPHABET = "BCDFGHJKLMNPQRSTVWXZ"
"""No vowels (no words), no digits (nothing to confuse): RFC 8628 section 6.1. 8 letters are 34 bits."""
REQUESTS = 1_000
"""Links that may wait for a confirmation at one time."""
REQUESTS_PER_ADDRESS = 10
EDGES_PER_ACCOUNT = 50
SLOW_DOWN_S = 5
FINGERPRINT_MIN = 16
FINGERPRINT_MAX = 128

Admit = Callable[[EdgeId, AccountId, str], Awaitable[None]]
"""Lets the box of the account in at the broker with this password (replacing an earlier one)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """What every linked box is told about this relay."""

    relay_url: str
    broker: Callable[[], BrokerAddress]
    relay_keys: tuple[dict[str, Any], ...]


class Links:
    """Requests of boxes and the answers of people. Times and tries: 10 minutes, five wrong codes per person."""

    def __init__(
        self,
        *,
        database: RelationalDatabase,
        sites: Sites,
        clock: Clock,
        endpoint: Endpoint,
        admit: Admit,
    ) -> None:
        self._database = database
        self._sites = sites
        self._clock = clock
        self._endpoint = endpoint
        self._admit = admit
        window_s = limits.LINK_CODE_TTL.total_seconds()
        self._requests = Tries(clock, count=REQUESTS_PER_ADDRESS, window_s=window_s)
        self._wrong_codes = Tries(clock, count=limits.LINK_CODE_TRIES, window_s=window_s)

    async def request(self, wish: LinkRequest, remote: str) -> LinkOffer:
        """A box asks. ConflictError when it is linked already, RateLimitedError beyond ten requests per address,
        LimitExceededError while too many wait."""
        self._requests.spend(network_of(remote))
        if not FINGERPRINT_MIN <= len(wish.fingerprint) <= FINGERPRINT_MAX or not wish.fingerprint.isprintable():
            raise InvalidInputError.of("fingerprint", f"must be {FINGERPRINT_MIN} to {FINGERPRINT_MAX} characters")
        now = self._clock.now()
        device_code = secrets.token_urlsafe(32)
        user_code = _make_user_code()
        async with self._database.write() as connection:
            await _refuse_linked(connection, wish.fingerprint)
            live = sa.select(sa.func.count()).select_from(LINK_REQUESTS).where(LINK_REQUESTS.c.expires_at > now)
            waiting = await connection.scalar(live)
            if (waiting or 0) >= REQUESTS:
                raise LimitExceededError("too many boxes wait to be linked", hint="Try again in some minutes.")
            await connection.execute(
                LINK_REQUESTS.insert().values(
                    device_code_hash=hash_of(device_code),
                    user_code=user_code,
                    name=wish.name.strip()[:120] or "Box",
                    version=wish.version[:64],
                    fingerprint=wish.fingerprint,
                    remote=remote,
                    created_at=now,
                    expires_at=now + limits.LINK_CODE_TTL,
                    status="pending",
                    interval_s=int(limits.LINK_POLL_S),
                )
            )
        uri = f"{self._endpoint.relay_url}/link"
        return LinkOffer(
            device_code=device_code,
            user_code=user_code,
            verification_uri=uri,
            verification_uri_complete=f"{uri}?code={user_code}",
            expires_in=int(limits.LINK_CODE_TTL.total_seconds()),
            interval=int(limits.LINK_POLL_S),
        )

    async def preview(self, who: Principal, user_code: str) -> LinkPreview:
        """What waits under a code. NotFoundError for a wrong, used or expired one, RateLimitedError after five."""
        async with self._database.read() as connection:
            row = await self._waiting(connection, who, user_code)
        return LinkPreview(
            user_code=row.user_code,
            name=row.name,
            version=row.version,
            remote=row.remote,
            requested_at=row.created_at,
            expires_at=row.expires_at,
        )

    async def confirm(self, who: Principal, user_code: str, wish: LinkConfirmation) -> EdgeId:
        """The box becomes one of the account; it learns so at its next poll. NotFoundError as `preview`, or for
        another account's site; ConflictError when the box is linked already."""
        now = self._clock.now()
        edge_id = EdgeId(make_id(now))
        async with self._database.write() as connection:
            row = await self._waiting(connection, who, user_code)
            await _refuse_linked(connection, row.fingerprint)
            await _check_quota(connection, who.account_id)
            if wish.site_id is None:
                site_id = await self._sites.default(connection, who.account_id)
            else:
                site_id = SiteId((await site_row(connection, who.account_id, wish.site_id)).site_id)
            await connection.execute(
                EDGES.insert().values(
                    edge_id=edge_id,
                    account_id=who.account_id,
                    site_id=site_id,
                    name=(wish.name or row.name).strip(),
                    fingerprint=row.fingerprint,
                    linked_at=now,
                    linked_by=who.subject,
                )
            )
            await _answer(connection, row, status="confirmed", edge_id=edge_id)
        self._sites.placed()
        log.info("link confirmed", account_id=who.account_id, edge_id=edge_id, subject=who.subject)
        return edge_id

    async def deny(self, who: Principal, user_code: str) -> None:
        """The person does not know this box; it stops asking."""
        async with self._database.write() as connection:
            await _answer(connection, await self._waiting(connection, who, user_code), status="denied")

    async def poll(self, device_code: str) -> LinkGrant | LinkPending:
        """The box asks what became of it. The credential is new at each answer until the box has connected for the
        first time (an answer may get lost), and is never told again after that."""
        now = self._clock.now()
        over = LinkPending(error="expired_token", interval=int(limits.LINK_POLL_S))
        query = sa.select(LINK_REQUESTS).where(
            LINK_REQUESTS.c.device_code_hash == hash_of(device_code), LINK_REQUESTS.c.expires_at > now
        )
        async with self._database.read() as connection:  # a stranger's guess does not get to the one writer
            if (await connection.execute(query)).one_or_none() is None:
                return over
        async with self._database.write() as connection:
            row = (await connection.execute(query)).one_or_none()
            if row is None:
                return over
            pending = await _pace(connection, row, now)
            if pending is not None:
                return pending
            credential = secrets.token_urlsafe(32)
            edge = await _claim(connection, EdgeId(row.edge_id), credential)
            if edge is None:
                return over
        await self._admit(EdgeId(edge.edge_id), AccountId(edge.account_id), credential)
        log.info("box linked", account_id=edge.account_id, edge_id=edge.edge_id)
        return LinkGrant(
            edge_id=edge.edge_id,
            account_id=edge.account_id,
            broker=self._endpoint.broker(),
            credential=credential,
            relay_keys=self._endpoint.relay_keys,
            relay_url=self._endpoint.relay_url,
        )

    async def tidy(self) -> int:
        """Forgets requests that are over, and boxes that were confirmed but never fetched their credential.
        Returns how many requests went."""
        now = self._clock.now()
        async with self._database.write() as connection:
            over = LINK_REQUESTS.c.expires_at <= now
            unclaimed = sa.select(LINK_REQUESTS.c.edge_id).where(over, LINK_REQUESTS.c.edge_id.is_not(None))
            await connection.execute(
                EDGES.delete().where(EDGES.c.edge_id.in_(unclaimed), EDGES.c.credential_hash.is_(None))
            )
            gone = await connection.execute(LINK_REQUESTS.delete().where(over))
            return gone.rowcount

    async def _waiting(self, connection: AsyncConnection, who: Principal, user_code: str) -> sa.Row[Any]:
        self._wrong_codes.check(who.subject)
        query = sa.select(LINK_REQUESTS).where(
            LINK_REQUESTS.c.user_code == normalise_code(user_code),
            LINK_REQUESTS.c.status == "pending",
            LINK_REQUESTS.c.expires_at > self._clock.now(),
        )
        row = (await connection.execute(query)).one_or_none()
        if row is None:
            self._wrong_codes.count(who.subject)
            raise NotFoundError("no box waits under this code", hint="Check the code on the box; it lives 10 minutes.")
        return row


def hash_of(secret: str) -> bytes:
    """SHA-256, for secrets of 256 random bits (nothing to guess, so nothing to slow down)."""
    return hashlib.sha256(secret.encode()).digest()


def normalise_code(text: str) -> str:
    """A code as it is kept, however a person typed it."""
    letters = "".join(c for c in text.upper() if c in CODE_ALPHABET)
    return f"{letters[:4]}-{letters[4:8]}" if len(letters) == 8 else ""


def _make_user_code() -> str:
    return normalise_code("".join(secrets.choice(CODE_ALPHABET) for _ in range(8)))


async def _refuse_linked(connection: AsyncConnection, fingerprint: str) -> None:
    if await connection.scalar(sa.select(sa.exists().where(EDGES.c.fingerprint == fingerprint))):
        raise ConflictError("this box is linked already", hint="End that link first, on the box or on the relay.")


async def _check_quota(connection: AsyncConnection, account_id: AccountId) -> None:
    count = await connection.scalar(
        sa.select(sa.func.count()).select_from(EDGES).where(EDGES.c.account_id == account_id)
    )
    if (count or 0) >= EDGES_PER_ACCOUNT:
        raise LimitExceededError(f"at most {EDGES_PER_ACCOUNT} boxes")


async def _answer(connection: AsyncConnection, row: sa.Row[Any], *, status: str, edge_id: EdgeId | None = None) -> None:
    change = LINK_REQUESTS.update().where(LINK_REQUESTS.c.device_code_hash == row.device_code_hash)
    await connection.execute(change.values(status=status, edge_id=edge_id))


async def _pace(connection: AsyncConnection, row: sa.Row[Any], now: Any) -> LinkPending | None:
    """Notes the poll; what to answer unless the request is confirmed."""
    too_soon = row.polled_at is not None and now - row.polled_at < timedelta(seconds=row.interval_s - 0.5)
    interval_s = row.interval_s + SLOW_DOWN_S if too_soon else row.interval_s
    change = LINK_REQUESTS.update().where(LINK_REQUESTS.c.device_code_hash == row.device_code_hash)
    await connection.execute(change.values(polled_at=now, interval_s=interval_s))
    if row.status == "denied":
        return LinkPending(error="access_denied", interval=interval_s)
    if too_soon:
        return LinkPending(error="slow_down", interval=interval_s)
    if row.status == "pending":
        return LinkPending(error="authorization_pending", interval=interval_s)
    return None


async def _claim(connection: AsyncConnection, edge_id: EdgeId, credential: str) -> sa.Row[Any] | None:
    """The box's row with its new credential; None when it has connected before, or was removed meanwhile."""
    never_seen = sa.and_(EDGES.c.edge_id == edge_id, EDGES.c.last_seen_at.is_(None))
    await connection.execute(EDGES.update().where(never_seen).values(credential_hash=hash_password(credential)))
    return (await connection.execute(sa.select(EDGES).where(never_seen))).one_or_none()
