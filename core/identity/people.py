"""Rows of people: made, found by login name, and gone with their last account."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import ColumnElement, delete, exists, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from core.domain.errors import ConflictError
from core.domain.ids import AccountId, UserId
from core.identity.names import fold
from core.identity.tables import login_names, memberships, users


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """What signing in needs to know."""

    user_id: UserId
    username: str
    password_hash: str = field(repr=False)
    must_change_password: bool
    home_account_id: AccountId | None


async def add_person(
    conn: AsyncConnection,
    *,
    user_id: UserId,
    account_id: AccountId,
    username: str,
    email: str | None,
    password_hash: str,
    must_change_password: bool,
    now: datetime,
) -> None:
    """A person whose home is the account. ConflictError for a username or address that somebody has."""
    await conn.execute(
        insert(users).values(
            user_id=user_id,
            username=username,
            email=email,
            password_hash=password_hash,
            must_change_password=must_change_password,
            home_account_id=account_id,
            created_at=now,
        )
    )
    await _take_names(conn, user_id, username, email)
    await conn.execute(
        insert(memberships).values(account_id=account_id, user_id=user_id, is_disabled=False, created_at=now)
    )


async def change_email(conn: AsyncConnection, user_id: UserId, username: str, email: str | None) -> None:
    """Another address, or none. ConflictError for one that somebody has."""
    await conn.execute(delete(login_names).where(login_names.c.user_id == user_id))
    await _take_names(conn, user_id, username, email)
    await conn.execute(update(users).where(users.c.user_id == user_id).values(email=email))


async def find_person(conn: AsyncConnection, login: str) -> Person | None:
    """By username or address."""
    named = select(login_names.c.user_id).where(login_names.c.name == fold(login))
    return await _one(conn, users.c.user_id.in_(named))


async def person(conn: AsyncConnection, user_id: UserId) -> Person | None:
    """By id."""
    return await _one(conn, users.c.user_id == user_id)


async def remove_if_homeless(conn: AsyncConnection, user_id: UserId, left: AccountId) -> None:
    """After somebody left an account: gone if it was the last one, else nobody's administrator can reset their
    password if it was their home."""
    if not await conn.scalar(select(exists().where(memberships.c.user_id == user_id))):
        await conn.execute(delete(users).where(users.c.user_id == user_id))
        return
    at_home = users.c.user_id == user_id, users.c.home_account_id == left
    await conn.execute(update(users).where(*at_home).values(home_account_id=None))


async def _take_names(conn: AsyncConnection, user_id: UserId, username: str, email: str | None) -> None:
    names = {fold(username)} | ({fold(email)} if email is not None else set())
    taken = await conn.scalar(select(exists().where(or_(*(login_names.c.name == name for name in names)))))
    if taken:
        raise ConflictError("this name or address is taken", hint="Choose another one.")
    await conn.execute(insert(login_names), [{"name": name, "user_id": user_id} for name in sorted(names)])


async def _one(conn: AsyncConnection, condition: ColumnElement[bool]) -> Person | None:
    row = (await conn.execute(select(users).where(condition))).one_or_none()
    if row is None:
        return None
    return Person(
        user_id=UserId(row.user_id),
        username=row.username,
        password_hash=row.password_hash,
        must_change_password=row.must_change_password,
        home_account_id=None if row.home_account_id is None else AccountId(row.home_account_id),
    )
