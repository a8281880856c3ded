"""Sessions: signing in and out, refresh tokens that rotate, and whether an access token still stands."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

import msgspec
import structlog
from sqlalchemy import and_, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from core.domain.clock import Clock
from core.domain.errors import ForbiddenError, NotFoundError, StorageFullError, UnauthenticatedError
from core.domain.ids import AccountId, UserId, make_id
from core.domain.limits import REFRESH_TOKEN_TTL
from core.domain.secretive import hidden_repr
from core.identity.access_tokens import AccessTokens, Claims
from core.identity.names import fold
from core.identity.opaque import REFRESH_PREFIX, fingerprint, make_secret
from core.identity.passwords import PasswordHasher
from core.identity.people import Person, find_person, person
from core.identity.principal import Principal
from core.identity.rate_limit import Guard
from core.identity.standing import Changes, Standing
from core.identity.tables import memberships, refresh_tokens, sessions, users
from core.storage.relational import RelationalDatabase

SESSIONS_PER_USER = 50
"""Signed-in devices of one person; the one used longest ago makes room."""

_log = structlog.get_logger(__name__)


class AccessTokenView(msgspec.Struct, frozen=True, kw_only=True):
    """An access token, for the Authorization header."""

    __repr__ = hidden_repr

    access_token: str
    token_type: str = "Bearer"  # noqa: S105  (a word of the protocol)
    expires_at: datetime
    account_id: AccountId
    session_id: str


class TokenPair(AccessTokenView, frozen=True, kw_only=True):
    """What a device gets: the refresh token works once, and gives the next pair."""

    __repr__ = hidden_repr

    refresh_token: str
    refresh_expires_at: datetime
    user_id: UserId
    must_change_password: bool


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """A signed-in device."""

    session_id: str
    device: str
    address: str
    created_at: datetime
    last_used_at: datetime
    expires_at: datetime
    is_current: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stands:
    """What the database says of a session that holds."""

    user_id: str
    username: str
    must_change_password: bool
    expires_at: datetime


class Sessions:
    """Verifies the access tokens that it issues."""

    def __init__(
        self,
        database: RelationalDatabase,
        clock: Clock,
        *,
        hasher: PasswordHasher,
        guard: Guard,
        tokens: AccessTokens,
        changes: Changes,
    ) -> None:
        self._database = database
        self._clock = clock
        self._hasher = hasher
        self._guard = guard
        self._tokens = tokens
        self._changes = changes
        self._standing: Standing[_Stands] = Standing(clock)
        changes.follow(self._standing.forget)

    async def sign_in(self, *, login: str, password: str, address: str, device: str = "") -> TokenPair:
        """By username or e-mail address. UnauthenticatedError (one answer, after the same work, for an unknown user,
        a wrong password and somebody who is disabled everywhere), RateLimitedError."""
        name = fold(login)
        self._guard.begin(address=address, user=name)
        async with self._database.read() as conn:
            found = await find_person(conn, login)
        is_right = await self._hasher.verify(None if found is None else found.password_hash, password)
        if found is None or not is_right:
            # Never the name that was typed: people type passwords into the wrong field.
            _log.info("sign-in refused", address=address, user_id=None if found is None else found.user_id)
            raise _refused()
        new_hash = await self._hasher.hash(password) if self._hasher.is_outdated(found.password_hash) else None
        async with self._database.write() as conn:
            # The password may have been changed, or the person removed, while it was hashed.
            again = await person(conn, found.user_id)
            account_id = await _default_account(conn, found)
            if again is None or again.password_hash != found.password_hash or account_id is None:
                raise _refused()
            if new_hash is not None:
                await conn.execute(update(users).where(users.c.user_id == found.user_id).values(password_hash=new_hash))
            pair, ended = await self._begin(conn, again, account_id, address=address, device=device)
        self._guard.succeed(address=address, user=name)
        if ended:
            self._changes.tell(sessions=ended)
        _log.info("signed in", user_id=found.user_id, session_id=pair.session_id)
        return pair

    async def refresh(self, refresh_token: str, *, address: str) -> TokenPair:
        """The next pair. UnauthenticatedError for a token that does not hold; one that was used before was stolen by
        somebody, so its whole session ends. RateLimitedError for many unknown ones."""
        known = select(refresh_tokens.c.session_id).where(refresh_tokens.c.fingerprint == fingerprint(refresh_token))
        async with self._database.read() as conn:
            session_id = await conn.scalar(known)
        if session_id is None:
            # Only strangers are slowed down: nobody can guess one, and a neighbour must not sign a household out.
            self._guard.begin(address=address)
            raise UnauthenticatedError("the session has ended")
        try:
            async with self._database.write() as conn:
                outcome = await self._rotate(conn, refresh_token, address)
        except StorageFullError:
            outcome = await self._prolong(refresh_token)
        # Outside of the transaction: the end of a stolen session has to be committed.
        if isinstance(outcome, str):
            self._changes.tell(sessions=[outcome])
            _log.warning("a used refresh token came again; its session has ended", session_id=outcome)
        if not isinstance(outcome, TokenPair):
            raise UnauthenticatedError("the session has ended")
        return outcome

    async def _rotate(self, conn: AsyncConnection, refresh_token: str, address: str) -> TokenPair | str | None:
        """The next pair, or the id of a session that this ended, or None."""
        now = self._clock.now()
        mark = fingerprint(refresh_token)
        query = (
            select(refresh_tokens.c.used_at, sessions)
            .join(sessions, sessions.c.session_id == refresh_tokens.c.session_id)
            .where(refresh_tokens.c.fingerprint == mark)
        )
        row = (await conn.execute(query)).one_or_none()
        if row is None or row.expires_at <= now:
            return None
        session_id = str(row.session_id)
        is_mine = refresh_tokens.c.fingerprint == mark, refresh_tokens.c.used_at.is_(None)
        used = await conn.execute(update(refresh_tokens).where(*is_mine).values(used_at=now))
        if used.rowcount != 1:
            await conn.execute(delete(sessions).where(sessions.c.session_id == session_id))
            return session_id
        who = await person(conn, UserId(row.user_id))
        account_id = AccountId(row.account_id)
        if who is None or not await _is_active(conn, who.user_id, account_id):
            return None
        changed = {"last_used_at": now, "expires_at": now + REFRESH_TOKEN_TTL, "address": address[:64]}
        await conn.execute(update(sessions).where(sessions.c.session_id == session_id).values(changed))
        return await self._issue(conn, who, account_id, session_id)

    async def _prolong(self, refresh_token: str) -> TokenPair | None:
        """A new access token with the same refresh token, on a disk that takes nothing: whoever is signed in must
        still be able to stop their mower. None unless the token could have been used."""
        query = (
            select(refresh_tokens.c.used_at, sessions)
            .join(sessions, sessions.c.session_id == refresh_tokens.c.session_id)
            .where(refresh_tokens.c.fingerprint == fingerprint(refresh_token))
        )
        async with self._database.read() as conn:
            row = (await conn.execute(query)).one_or_none()
            if row is None or row.used_at is not None or row.expires_at <= self._clock.now():
                return None
            who = await person(conn, UserId(row.user_id))
            account_id = AccountId(row.account_id)
            if who is None or not await _is_active(conn, who.user_id, account_id):
                return None
        _log.warning("a session goes on with its old refresh token: the disk is full", session_id=row.session_id)
        return self._pair(who, account_id, row.session_id, refresh_token, row.expires_at)

    async def verify(self, token: str) -> Principal:
        """Who holds an access token; UnauthenticatedError also when the session or the membership has ended."""
        claims = self._tokens.read(token)
        stands = await self._standing.get((claims.sid, claims.acc), lambda: self._ask(claims))
        if stands is None or stands.user_id != claims.sub or stands.expires_at <= self._clock.now():
            raise UnauthenticatedError("the session has ended")
        return Principal(
            subject=claims.sub,
            account_id=claims.acc,
            kind="user",
            name=stands.username,
            session_id=claims.sid,
            expires_at=claims.expires_at,
            must_change_password=stands.must_change_password,
        )

    async def _ask(self, claims: Claims) -> _Stands | None:
        query = (
            select(users.c.user_id, users.c.username, users.c.must_change_password, sessions.c.expires_at)
            .select_from(sessions)
            .join(users, users.c.user_id == sessions.c.user_id)
            .join(memberships, memberships.c.user_id == users.c.user_id)
            .where(
                sessions.c.session_id == claims.sid,
                memberships.c.account_id == claims.acc,
                memberships.c.is_disabled.is_(False),
            )
        )
        async with self._database.read() as conn:
            row = (await conn.execute(query)).one_or_none()
        return None if row is None else _Stands(**row._asdict())

    async def switch(self, who: Principal, account_id: AccountId) -> AccessTokenView:
        """Acts for another of one's accounts from now on; NotFoundError for one that the person is not in."""
        demand_person(who)
        if who.must_change_password:
            raise ForbiddenError("the password has to be changed first", hint="Change the password, then go on.")
        async with self._database.write() as conn:
            if not await _is_active(conn, who.subject, account_id):
                raise NotFoundError("no such account")
            is_mine = sessions.c.session_id == who.session_id, sessions.c.user_id == who.subject
            await conn.execute(update(sessions).where(*is_mine).values(account_id=account_id))
        token, expires_at = self._tokens.issue(
            user_id=who.subject, account_id=account_id, name=who.name, session_id=who.session_id
        )
        return AccessTokenView(
            access_token=token, expires_at=expires_at, account_id=account_id, session_id=who.session_id
        )

    async def own(self, who: Principal) -> tuple[SessionView, ...]:
        """The caller's own devices, the last used first."""
        demand_person(who)
        mine = sessions.c.user_id == who.subject, sessions.c.expires_at > self._clock.now()
        query = select(sessions).where(*mine).order_by(sessions.c.last_used_at.desc(), sessions.c.session_id)
        async with self._database.read() as conn:
            rows = (await conn.execute(query)).all()
        return tuple(
            SessionView(
                session_id=row.session_id,
                device=row.device,
                address=row.address,
                created_at=row.created_at,
                last_used_at=row.last_used_at,
                expires_at=row.expires_at,
                is_current=row.session_id == who.session_id,
            )
            for row in rows
        )

    async def find_ended(self, session_ids: Collection[str]) -> frozenset[str]:
        """Which of these are no sessions any more."""
        query = select(sessions.c.session_id).where(sessions.c.session_id.in_(sorted(session_ids)))
        async with self._database.read() as conn:
            return frozenset(session_ids).difference((await conn.execute(query)).scalars())

    async def revoke(self, who: Principal, session_id: str) -> None:
        """Ends one of the caller's own sessions, and its access tokens at once; NotFoundError for any other."""
        demand_person(who)
        async with self._database.write() as conn:
            is_mine = sessions.c.session_id == session_id, sessions.c.user_id == who.subject
            gone = await conn.execute(delete(sessions).where(*is_mine))
        if gone.rowcount != 1:
            raise NotFoundError("no such session")
        self._changes.tell(sessions=[session_id])
        _log.info("session ended", user_id=who.subject, session_id=session_id)

    async def revoke_others(self, who: Principal) -> None:
        """Ends all of the caller's sessions but the present one."""
        demand_person(who)
        async with self._database.write() as conn:
            ended = await end_sessions(conn, who.subject, but=who.session_id)
        self._changes.tell(sessions=ended)

    async def _begin(
        self, conn: AsyncConnection, who: Person, account_id: AccountId, *, address: str, device: str
    ) -> tuple[TokenPair, list[str]]:
        now = self._clock.now()
        ended = await _make_room(conn, who.user_id)
        session_id = make_id(now)
        await conn.execute(
            insert(sessions).values(
                session_id=session_id,
                user_id=who.user_id,
                account_id=account_id,
                device="".join(c for c in device if c.isprintable())[:200],
                address=address[:64],
                created_at=now,
                last_used_at=now,
                expires_at=now + REFRESH_TOKEN_TTL,
            )
        )
        return await self._issue(conn, who, account_id, session_id), ended

    async def _issue(self, conn: AsyncConnection, who: Person, account_id: AccountId, session_id: str) -> TokenPair:
        now = self._clock.now()
        secret = make_secret(REFRESH_PREFIX)
        row = {"fingerprint": fingerprint(secret), "session_id": session_id, "issued_at": now}
        await conn.execute(insert(refresh_tokens).values(row))
        return self._pair(who, account_id, session_id, secret, now + REFRESH_TOKEN_TTL)

    def _pair(
        self, who: Person, account_id: AccountId, session_id: str, refresh_token: str, refresh_expires_at: datetime
    ) -> TokenPair:
        token, expires_at = self._tokens.issue(
            user_id=who.user_id, account_id=account_id, name=who.username, session_id=session_id
        )
        return TokenPair(
            access_token=token,
            expires_at=expires_at,
            account_id=account_id,
            session_id=session_id,
            refresh_token=refresh_token,
            refresh_expires_at=refresh_expires_at,
            user_id=who.user_id,
            must_change_password=who.must_change_password,
        )


def demand_person(who: Principal) -> None:
    """ForbiddenError for a service token, which has no sessions and no password."""
    if who.kind != "user":
        raise ForbiddenError("only for people", hint="Sign in as a user; a service token is revoked in its list.")


async def end_sessions(
    conn: AsyncConnection, user_id: UserId, *, account_id: AccountId | None = None, but: str | None = None
) -> list[str]:
    """Deletes somebody's sessions (of one account, or but one) and answers their ids, to be told after the commit."""
    conditions = [sessions.c.user_id == user_id]
    if account_id is not None:
        conditions.append(sessions.c.account_id == account_id)
    if but is not None:
        conditions.append(sessions.c.session_id != but)
    ended = list((await conn.execute(select(sessions.c.session_id).where(and_(*conditions)))).scalars())
    await conn.execute(delete(sessions).where(and_(*conditions)))
    return ended


async def _make_room(conn: AsyncConnection, user_id: UserId) -> list[str]:
    query = (
        select(sessions.c.session_id)
        .where(sessions.c.user_id == user_id)
        .order_by(sessions.c.last_used_at.desc(), sessions.c.session_id.desc())
        .offset(SESSIONS_PER_USER - 1)
        .limit(SESSIONS_PER_USER)
    )
    old = list((await conn.execute(query)).scalars())
    if old:
        await conn.execute(delete(sessions).where(sessions.c.session_id.in_(old)))
    return old


async def _default_account(conn: AsyncConnection, who: Person) -> AccountId | None:
    """Home if it lets them in, else the account joined first; None when they are disabled everywhere."""
    mine = memberships.c.user_id == who.user_id, memberships.c.is_disabled.is_(False)
    query = select(memberships.c.account_id).where(*mine).order_by(memberships.c.created_at, memberships.c.account_id)
    active = list((await conn.execute(query)).scalars())
    if who.home_account_id in active:
        return who.home_account_id
    return AccountId(active[0]) if active else None


async def _is_active(conn: AsyncConnection, user_id: UserId, account_id: AccountId) -> bool:
    mine = and_(memberships.c.user_id == user_id, memberships.c.account_id == account_id)
    return await conn.scalar(select(memberships.c.is_disabled).where(mine)) is False


def _refused() -> UnauthenticatedError:
    return UnauthenticatedError("wrong username or password", hint="Check both and try again.")
