"""Accounts: how one begins, and who is in it."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec
import structlog
from sqlalchemy import exists, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from core.domain.clock import Clock
from core.domain.errors import ConflictError, ForbiddenError, NotFoundError
from core.domain.ids import AccountId, UserId, make_id
from core.identity.assignments import Assignments, NewAssignment, account_ref
from core.identity.names import parse_email, parse_name, parse_username
from core.identity.passwords import PasswordHasher, check_password
from core.identity.people import add_person
from core.identity.rate_limit import Guard
from core.identity.standing import Changes
from core.identity.tables import accounts, memberships, users
from core.storage.relational import RelationalDatabase

_log = structlog.get_logger(__name__)


class RegisterMode(StrEnum):
    """Who may open an account by themselves."""

    OPEN = "open"
    INVITE = "invite"
    CLOSED = "closed"
    FIRST_START = "first_start"
    """Only the first person ever: a box that has just been set up."""


class Registered(msgspec.Struct, frozen=True, kw_only=True):
    """A new account and its owner."""

    account_id: AccountId
    user_id: UserId


class AccountView(msgspec.Struct, frozen=True, kw_only=True):
    """An account that somebody belongs to."""

    account_id: AccountId
    name: str


class Accounts:
    """Opens accounts and reads them."""

    def __init__(
        self,
        database: RelationalDatabase,
        clock: Clock,
        *,
        hasher: PasswordHasher,
        guard: Guard,
        assignments: Assignments,
        changes: Changes,
        mode: RegisterMode,
    ) -> None:
        self._database = database
        self._clock = clock
        self._hasher = hasher
        self._guard = guard
        self._assignments = assignments
        self._changes = changes
        self._mode = mode

    async def register(
        self, *, username: str, password: str, account_name: str, email: str | None, address: str
    ) -> Registered:
        """Makes an account, its owner and the owner's grants, or nothing at all. ForbiddenError when registration is
        not open, ConflictError for a name that is taken, InvalidInputError, RateLimitedError (per address)."""
        await self._demand_open()
        username = parse_username(username)
        check_password(password, username=username)
        name = parse_name(account_name, "account_name")
        email = None if email is None else parse_email(email)
        self._guard.begin(address=address)
        password_hash = await self._hasher.hash(password)
        now = self._clock.now()
        account_id, user_id = AccountId(make_id(now)), UserId(make_id(now))
        async with self._database.write() as conn:
            if self._mode is RegisterMode.FIRST_START and await _is_anybody_there(conn):
                raise _closed(self._mode)
            await conn.execute(insert(accounts).values(account_id=account_id, name=name, created_at=now))
            await add_person(
                conn,
                user_id=user_id,
                account_id=account_id,
                username=username,
                email=email,
                password_hash=password_hash,
                must_change_password=False,
                now=now,
            )
            owner = NewAssignment(user_id=user_id, role="owner", level=account_ref(account_id))
            await self._assignments.insert(conn, account_id, owner, created_by=user_id)
        self._changes.tell(subjects=[user_id])
        _log.info("account opened", account_id=account_id, user_id=user_id)
        return Registered(account_id=account_id, user_id=user_id)

    async def is_registration_open(self) -> bool:
        """Whether the sign-up page should be shown."""
        try:
            await self._demand_open()
        except ForbiddenError:
            return False
        return True

    async def of_user(self, user_id: UserId) -> tuple[AccountView, ...]:
        """The accounts that somebody may act for, the first joined first."""
        query = (
            select(accounts.c.account_id, accounts.c.name)
            .join(memberships, memberships.c.account_id == accounts.c.account_id)
            .where(memberships.c.user_id == user_id, memberships.c.is_disabled.is_(False))
            .order_by(memberships.c.created_at, accounts.c.account_id)
        )
        async with self._database.read() as conn:
            rows = (await conn.execute(query)).all()
        return tuple(AccountView(account_id=AccountId(row.account_id), name=row.name) for row in rows)

    async def account(self, account_id: AccountId) -> AccountView:
        """One account; NotFoundError."""
        async with self._database.read() as conn:
            name = await conn.scalar(select(accounts.c.name).where(accounts.c.account_id == account_id))
        if name is None:
            raise NotFoundError("no such account")
        return AccountView(account_id=account_id, name=name)

    async def _demand_open(self) -> None:
        if self._mode is RegisterMode.OPEN:
            return
        if self._mode is RegisterMode.FIRST_START:
            async with self._database.read() as conn:
                if not await _is_anybody_there(conn):
                    return
        raise _closed(self._mode)


async def add_member(conn: AsyncConnection, account_id: AccountId, user_id: UserId, now: datetime) -> None:
    """Lets an existing person into another account; ConflictError if they are in it."""
    member = memberships.c.account_id == account_id, memberships.c.user_id == user_id
    if await conn.scalar(select(exists().where(*member))):
        raise ConflictError("already a member")
    await conn.execute(
        insert(memberships).values(account_id=account_id, user_id=user_id, is_disabled=False, created_at=now)
    )


async def _is_anybody_there(conn: AsyncConnection) -> bool:
    return bool(await conn.scalar(select(exists().select_from(users))))


def _closed(mode: RegisterMode) -> ForbiddenError:
    if mode is RegisterMode.INVITE:
        return ForbiddenError("registration needs an invite", hint="Ask somebody who has an account here.")
    if mode is RegisterMode.FIRST_START:
        return ForbiddenError("somebody has set this up already", hint="Sign in, or ask its owner for a user.")
    return ForbiddenError("registration is closed", hint="Ask the operator of this installation.")
