"""Writes tuples, each kind only for the module that owns it, on the connection (and so in the transaction) of
the row that the tuple follows.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Literal

from sqlalchemy import ColumnElement, and_, delete, exists, insert, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from core.access.tables import grants, hierarchy
from core.domain.access import Grant, ObjectRef, ObjectType
from core.domain.errors import ConflictError, InvalidInputError, NotFoundError
from core.domain.ids import AccountId

Owner = Literal["identity", "fleet"]

_PARENTS: dict[ObjectType, frozenset[ObjectType]] = {
    ObjectType.ACCOUNT: frozenset(),
    ObjectType.SITE: frozenset({ObjectType.ACCOUNT}),
    ObjectType.GROUP: frozenset({ObjectType.ACCOUNT, ObjectType.SITE}),
    # Straight below the account: a box, which knows no sites.
    ObjectType.MOWER: frozenset({ObjectType.ACCOUNT, ObjectType.SITE, ObjectType.GROUP}),
}


class TupleWriter:
    """Identity writes grants, fleet writes the hierarchy; the wrong one gets RuntimeError, because that is a bug.
    Tell the notifier after the commit."""

    def __init__(self, owner: Owner) -> None:
        self._owner: Owner = owner

    async def grant(
        self,
        conn: AsyncConnection,
        *,
        account_id: AccountId,
        assignment_id: str,
        subject: str,
        held: Collection[Grant],
        level: ObjectRef,
        starts_at: datetime | None = None,
        ends_at: datetime | None = None,
    ) -> None:
        """Gives `held` on `level` and all below it. NotFoundError unless the level is the account or in it."""
        self._only("identity")
        if not await is_in_account(conn, account_id, level):
            raise NotFoundError(f"no such {level.type}")
        rows = [
            {
                "assignment_id": assignment_id,
                "account_id": account_id,
                "subject": subject,
                "grant_name": one.value,
                "object_type": level.type.value,
                "object_id": level.id,
                "starts_at": starts_at,
                "ends_at": ends_at,
            }
            for one in held
        ]
        if rows:
            await conn.execute(insert(grants), rows)

    async def revoke(self, conn: AsyncConnection, *, account_id: AccountId, assignment_id: str) -> None:
        """Takes back what an assignment gave."""
        self._only("identity")
        await conn.execute(
            delete(grants).where(grants.c.account_id == account_id, grants.c.assignment_id == assignment_id)
        )

    async def revoke_subject(self, conn: AsyncConnection, *, account_id: AccountId, subject: str) -> None:
        """Takes back all that a subject holds in an account."""
        self._only("identity")
        await conn.execute(delete(grants).where(grants.c.account_id == account_id, grants.c.subject == subject))

    async def place(self, conn: AsyncConnection, *, account_id: AccountId, child: ObjectRef, parent: ObjectRef) -> None:
        """Puts `child` below `parent`; once more is the same. NotFoundError for a parent that is not in the account,
        ConflictError for a child of another account, InvalidInputError for a pair of types that cannot be.
        Deliberately adds: a mower has one site, so displace it from the old one."""
        self._only("fleet")
        if parent.type not in _PARENTS[child.type]:
            raise InvalidInputError.of("parent", f"a {child.type} cannot be below a {parent.type}")
        if not await is_in_account(conn, account_id, parent):
            raise NotFoundError(f"no such {parent.type}")
        rows = await conn.execute(
            select(hierarchy.c.account_id, hierarchy.c.parent_type, hierarchy.c.parent_id).where(_is_child(child))
        )
        present = rows.all()
        if any(row.account_id != account_id for row in present):
            raise ConflictError(f"this {child.type} belongs elsewhere")
        if any((row.parent_type, row.parent_id) == (parent.type, parent.id) for row in present):
            return
        await conn.execute(
            insert(hierarchy).values(
                account_id=account_id,
                child_type=child.type.value,
                child_id=child.id,
                parent_type=parent.type.value,
                parent_id=parent.id,
            )
        )

    async def displace(
        self, conn: AsyncConnection, *, account_id: AccountId, child: ObjectRef, parent: ObjectRef
    ) -> None:
        """Takes `child` from below `parent`, if it is there."""
        self._only("fleet")
        await conn.execute(
            delete(hierarchy).where(hierarchy.c.account_id == account_id, _is_child(child), _is_parent(parent))
        )

    async def remove(self, conn: AsyncConnection, *, account_id: AccountId, what: ObjectRef) -> None:
        """Takes an object out: nothing is below it any more, and no grant on it counts."""
        self._only("fleet")
        await conn.execute(
            delete(hierarchy).where(hierarchy.c.account_id == account_id, or_(_is_child(what), _is_parent(what)))
        )

    async def is_in_account(self, conn: AsyncConnection, *, account_id: AccountId, what: ObjectRef) -> bool:
        """Whether the object is the account or placed in it (either owner may ask)."""
        return await is_in_account(conn, account_id, what)

    def _only(self, owner: Owner) -> None:
        if self._owner != owner:
            raise RuntimeError(f"{self._owner} may not write the tuples of {owner}")


async def is_in_account(conn: AsyncConnection, account_id: AccountId, what: ObjectRef) -> bool:
    """Whether the object is the account itself or placed in it."""
    if what.type is ObjectType.ACCOUNT:
        return what.id == account_id
    found = await conn.scalar(select(exists().where(hierarchy.c.account_id == account_id, _is_child(what))))
    return bool(found)


def _is_child(what: ObjectRef) -> ColumnElement[bool]:
    return and_(hierarchy.c.child_type == what.type.value, hierarchy.c.child_id == what.id)


def _is_parent(what: ObjectRef) -> ColumnElement[bool]:
    return and_(hierarchy.c.parent_type == what.type.value, hierarchy.c.parent_id == what.id)
