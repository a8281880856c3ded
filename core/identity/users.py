"""The people of an account, and their passwords."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

import msgspec
import structlog
from msgspec import UNSET, Meta, UnsetType
from sqlalchemy import ColumnElement, Row, Select, and_, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from core.domain.access import ObjectRef
from core.domain.clock import Clock
from core.domain.errors import (
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    LimitExceededError,
    NotFoundError,
    UnauthenticatedError,
)
from core.domain.ids import AccountId, UserId, make_id
from core.domain.secretive import hidden_repr
from core.identity.assignments import Assignments, Authority, NewAssignment, account_ref, check_period
from core.identity.names import parse_email, parse_username
from core.identity.opaque import RESET_PREFIX, fingerprint, make_secret
from core.identity.passwords import PasswordHasher, check_password
from core.identity.people import add_person, change_email, person, remove_if_homeless
from core.identity.principal import Principal
from core.identity.rate_limit import Guard
from core.identity.service_tokens import ServiceTokens
from core.identity.sessions import demand_person, end_sessions
from core.identity.standing import Changes
from core.identity.tables import memberships, reset_links, users
from core.storage.relational import RelationalDatabase

USERS_PER_ACCOUNT = 500
ASSIGNMENTS_AT_FIRST = 50
RESET_TTL = timedelta(hours=24)

_log = structlog.get_logger(__name__)


class FirstAssignment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A role that a new person gets at once; as NewAssignment."""

    role: str
    level: ObjectRef
    starts_at: Annotated[datetime, Meta(tz=True)] | None = None
    ends_at: Annotated[datetime, Meta(tz=True)] | None = None


class NewUser(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A person to be let in, with a password that they have to change at once."""

    __repr__ = hidden_repr

    username: str
    password: str
    email: str | None = None
    assignments: Annotated[tuple[FirstAssignment, ...], Meta(max_length=ASSIGNMENTS_AT_FIRST)] = ()


class UserChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is not given stays; `email: null` removes the address."""

    email: str | UnsetType | None = UNSET
    is_disabled: bool | UnsetType = UNSET


class UserView(msgspec.Struct, frozen=True, kw_only=True):
    """A person in an account."""

    user_id: UserId
    username: str
    email: str | None
    is_disabled: bool
    must_change_password: bool
    is_home: bool
    """Whether this account's administrators may reset the password and change the address."""
    created_at: datetime


class ResetLink(msgspec.Struct, frozen=True, kw_only=True):
    """A token to hand to its user; it works once."""

    __repr__ = hidden_repr

    token: str
    expires_at: datetime


class Users:
    """Administers the people of the caller's own account; the callers' right is asked per method as said there."""

    def __init__(
        self,
        database: RelationalDatabase,
        clock: Clock,
        *,
        hasher: PasswordHasher,
        guard: Guard,
        authority: Authority,
        assignments: Assignments,
        tokens: ServiceTokens,
        changes: Changes,
    ) -> None:
        self._database = database
        self._clock = clock
        self._hasher = hasher
        self._guard = guard
        self._authority = authority
        self._assignments = assignments
        self._tokens = tokens
        self._changes = changes

    async def create(self, who: Principal, new: NewUser) -> UserView:
        """Needs the right to give each first assignment (without any: to manage users on the account).
        InvalidInputError, ConflictError for a name that is taken, ForbiddenError, NotFoundError (a level)."""
        demand_person(who)
        now = self._clock.now()
        for one in new.assignments:
            check_period(one.role, one.starts_at, one.ends_at, now)
            await self._authority.demand_role(who, one.role, one.level)
        if not new.assignments:
            await self._authority.demand(who, account_ref(who.account_id))
        username = parse_username(new.username)
        check_password(new.password, username=username)
        email = None if new.email is None else parse_email(new.email)
        password_hash = await self._hasher.hash(new.password)
        user_id = UserId(make_id(now))
        async with self._database.write() as conn:
            of_account = memberships.c.account_id == who.account_id
            count = await conn.scalar(select(func.count()).select_from(memberships).where(of_account))
            if count is not None and count >= USERS_PER_ACCOUNT:
                raise LimitExceededError(f"at most {USERS_PER_ACCOUNT} users in an account")
            await add_person(
                conn,
                user_id=user_id,
                account_id=who.account_id,
                username=username,
                email=email,
                password_hash=password_hash,
                must_change_password=True,
                now=now,
            )
            for one in new.assignments:
                given = NewAssignment(user_id=user_id, **msgspec.structs.asdict(one))
                await self._assignments.insert(conn, who.account_id, given, created_by=who.subject)
            row = await _member(conn, who.account_id, user_id)
        self._changes.tell(subjects=[user_id])
        _log.info("user made", user_id=user_id, by=who.subject)
        return _view(row, who.account_id)

    async def visible(self, who: Principal) -> tuple[UserView, ...]:
        """Everybody in the caller's account. Needs the right to manage users on it."""
        await self._authority.demand(who, account_ref(who.account_id))
        query = _members(memberships.c.account_id == who.account_id).order_by(users.c.user_id)
        async with self._database.read() as conn:
            return tuple(_view(row, who.account_id) for row in (await conn.execute(query)).all())

    async def change(self, who: Principal, user_id: UserId, change: UserChange) -> UserView:
        """Disabling ends their sessions and revokes the service tokens that they made. Needs the right to manage users
        on the account. ConflictError for the last owner, or an address that is taken; ForbiddenError for the address of somebody whose home is another account."""
        await self._authority.demand(who, account_ref(who.account_id))
        gone: list[str] = []
        ended: list[str] = []
        async with self._database.write() as conn:
            row = await _member(conn, who.account_id, user_id)
            if change.email is not UNSET:
                _demand_home(row, who.account_id)
                email = None if change.email is None else parse_email(change.email)
                await change_email(conn, user_id, row.username, email)
            if change.is_disabled is not UNSET and change.is_disabled != row.is_disabled:
                gone, ended = await self._set_disabled(conn, who.account_id, user_id, is_disabled=change.is_disabled)
            row = await _member(conn, who.account_id, user_id)
        self._changes.tell(subjects=[user_id, *gone], sessions=[*ended, *gone])
        _log.info("user changed", user_id=user_id, by=who.subject, is_disabled=row.is_disabled)
        return _view(row, who.account_id)

    async def _set_disabled(
        self, conn: AsyncConnection, account_id: AccountId, user_id: UserId, *, is_disabled: bool
    ) -> tuple[list[str], list[str]]:
        """Ids of the service tokens and of the sessions that this ended."""
        member = memberships.c.account_id == account_id, memberships.c.user_id == user_id
        await conn.execute(update(memberships).where(*member).values(is_disabled=is_disabled))
        if not is_disabled:
            await self._assignments.resume(conn, account_id, user_id)
            return [], []
        await self._assignments.suspend(conn, account_id, user_id)
        gone = await self._tokens.remove_of(conn, account_id, user_id)
        return gone, await end_sessions(conn, user_id, account_id=account_id)

    async def delete(self, who: Principal, user_id: UserId) -> None:
        """Out of the account, with their roles, sessions and the service tokens that they made; gone altogether if
        it was their only one. Needs the right to manage users on the account; ConflictError for the last owner."""
        await self._authority.demand(who, account_ref(who.account_id))
        account_id = who.account_id
        async with self._database.write() as conn:
            await _member(conn, account_id, user_id)
            member = memberships.c.account_id == account_id, memberships.c.user_id == user_id
            await conn.execute(delete(memberships).where(*member))
            await self._assignments.remove_all(conn, account_id, user_id)
            gone = await self._tokens.remove_of(conn, account_id, user_id)
            ended = await end_sessions(conn, user_id, account_id=account_id)
            links = reset_links.c.account_id == account_id, reset_links.c.user_id == user_id
            await conn.execute(delete(reset_links).where(*links))
            await remove_if_homeless(conn, user_id, account_id)
        self._changes.tell(subjects=[user_id, *gone], sessions=[*ended, *gone])
        _log.info("user removed", user_id=user_id, by=who.subject)

    async def make_reset_link(self, who: Principal, user_id: UserId) -> ResetLink:
        """Replaces an earlier one. Needs the right to manage users on the account, which must be the person's home:
        who sets the password can act for them in all their accounts."""
        demand_person(who)
        await self._authority.demand(who, account_ref(who.account_id))
        now = self._clock.now()
        secret = make_secret(RESET_PREFIX)
        link = ResetLink(token=secret, expires_at=now + RESET_TTL)
        async with self._database.write() as conn:
            _demand_home(await _member(conn, who.account_id, user_id), who.account_id)
            await conn.execute(delete(reset_links).where(reset_links.c.user_id == user_id))
            await conn.execute(
                insert(reset_links).values(
                    fingerprint=fingerprint(secret),
                    user_id=user_id,
                    account_id=who.account_id,
                    created_at=now,
                    expires_at=link.expires_at,
                )
            )
        _log.info("reset link made", user_id=user_id, by=who.subject)
        return link

    async def reset(self, *, token: str, new_password: str, address: str) -> None:
        """Sets a password by a link, once, and ends all sessions. NotFoundError for a link that does not hold,
        InvalidInputError for the password (the link can be used again), RateLimitedError."""
        self._guard.begin(address=address)
        mark = fingerprint(token)
        holds = and_(reset_links.c.fingerprint == mark, reset_links.c.expires_at > self._clock.now())
        query = select(users.c.user_id, users.c.username).join(reset_links, reset_links.c.user_id == users.c.user_id)
        async with self._database.read() as conn:
            row = (await conn.execute(query.where(holds))).one_or_none()
        if row is None:
            raise _no_link()
        check_password(new_password, username=row.username, field="new_password")
        new_hash = await self._hasher.hash(new_password)
        async with self._database.write() as conn:
            used = await conn.execute(delete(reset_links).where(holds))
            if used.rowcount != 1:
                raise _no_link()
            await _set_password(conn, UserId(row.user_id), new_hash)
            ended = await end_sessions(conn, UserId(row.user_id))
        self._guard.succeed(address=address)
        self._changes.tell(subjects=[row.user_id], sessions=ended)
        _log.info("password reset", user_id=row.user_id)

    async def change_password(self, who: Principal, *, current: str, new: str, address: str) -> None:
        """The caller's own; ends their other sessions. ForbiddenError for a wrong current one, InvalidInputError,
        RateLimitedError."""
        demand_person(who)
        key = f"password of {who.subject}"
        self._guard.begin(address=address, user=key)
        async with self._database.read() as conn:
            found = await person(conn, who.subject)
        if found is None:
            raise UnauthenticatedError("the user is gone")
        if not await self._hasher.verify(found.password_hash, current):
            raise ForbiddenError("the current password is wrong", hint="Type the password you signed in with.")
        self._guard.succeed(address=address, user=key)
        check_password(new, username=found.username, field="new_password")
        if new == current:
            raise InvalidInputError.of("new_password", "must be another one")
        new_hash = await self._hasher.hash(new)
        async with self._database.write() as conn:
            again = await person(conn, who.subject)
            if again is None or again.password_hash != found.password_hash:
                raise ConflictError("the password was changed in the meantime")
            await _set_password(conn, who.subject, new_hash)
            await conn.execute(delete(reset_links).where(reset_links.c.user_id == who.subject))
            ended = await end_sessions(conn, who.subject, but=who.session_id)
        self._changes.tell(subjects=[who.subject], sessions=ended)
        _log.info("password changed", user_id=who.subject)


async def _set_password(conn: AsyncConnection, user_id: UserId, new_hash: str) -> None:
    values = {"password_hash": new_hash, "must_change_password": False}
    await conn.execute(update(users).where(users.c.user_id == user_id).values(values))


def _members(condition: ColumnElement[bool]) -> Select[*tuple[object, ...]]:
    return (
        select(
            users.c.user_id,
            users.c.username,
            users.c.email,
            memberships.c.is_disabled,
            users.c.must_change_password,
            users.c.home_account_id,
            users.c.created_at,
        )
        .join(memberships, memberships.c.user_id == users.c.user_id)
        .where(condition)
    )


async def _member(conn: AsyncConnection, account_id: AccountId, user_id: UserId) -> Row[*tuple[object, ...]]:
    condition = and_(memberships.c.account_id == account_id, memberships.c.user_id == user_id)
    row = (await conn.execute(_members(condition))).one_or_none()
    if row is None:
        raise NotFoundError("no such user")
    return row


def _demand_home(row: Row[*tuple[object, ...]], account_id: AccountId) -> None:
    if row.home_account_id != account_id:
        raise ForbiddenError("this person belongs to another account, too", hint="They change it themselves.")


def _view(row: Row[*tuple[object, ...]], account_id: AccountId) -> UserView:
    values = row._asdict()
    return UserView(is_home=values.pop("home_account_id") == account_id, **values)


def _no_link() -> NotFoundError:
    return NotFoundError("the link has been used or has expired", hint="Ask for a new link.")
