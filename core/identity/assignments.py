"""Role assignments: role x person x level, with an optional start and end; and who may give them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated

import msgspec
import structlog
from msgspec import Meta
from sqlalchemy import ColumnElement, Row, and_, delete, func, insert, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from core.domain.access import GRANT_OF, ROLES, ROLES_WITH_END, ObjectRef, ObjectType, Relation
from core.domain.clock import Clock
from core.domain.errors import ConflictError, ForbiddenError, InvalidInputError, LimitExceededError, NotFoundError
from core.domain.ids import AccountId, UserId, is_safe_id, make_id
from core.identity.ports import GrantWriter, Rights
from core.identity.principal import Principal
from core.identity.standing import Changes
from core.identity.tables import accounts, memberships, role_assignments
from core.storage.relational import RelationalDatabase

ASSIGNMENTS_PER_ACCOUNT = 5_000
KEPT_AFTER_END = timedelta(days=90)
"""An assignment that has ended stays in the list for this long."""

_log = structlog.get_logger(__name__)


class NewAssignment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A role for a person on a level and all below it, from `starts_at` until just before `ends_at`."""

    user_id: UserId
    role: str
    level: ObjectRef
    starts_at: Annotated[datetime, Meta(tz=True)] | None = None
    ends_at: Annotated[datetime, Meta(tz=True)] | None = None


class AssignmentView(msgspec.Struct, frozen=True, kw_only=True):
    """An assignment as it stands."""

    assignment_id: str
    user_id: UserId
    role: str
    level: ObjectRef
    starts_at: datetime | None
    ends_at: datetime | None
    created_by: str
    created_at: datetime


def account_ref(account_id: AccountId) -> ObjectRef:
    """The account as a level."""
    return ObjectRef(type=ObjectType.ACCOUNT, id=account_id)


class Authority:
    """Who may give what: rights flow only inside the account, only from those who manage users on the level, and
    nobody gives what they do not hold there."""

    def __init__(self, rights: Rights) -> None:
        self._rights = rights

    async def demand(self, who: Principal, level: ObjectRef) -> None:
        """NotFoundError for a level that the caller cannot see, ForbiddenError without the right there."""
        if not is_safe_id(level.id) or not await self._may(who, Relation.CAN_VIEW, level):
            raise NotFoundError(f"no such {level.type}")
        if not await self._may(who, Relation.CAN_MANAGE_USERS, level):
            raise ForbiddenError(f"needs {Relation.CAN_MANAGE_USERS} on the {level.type}")

    async def demand_role(self, who: Principal, role: str, level: ObjectRef) -> None:
        """Also ForbiddenError for a role that gives what the caller lacks; InvalidInputError for no role at all."""
        if role not in ROLES:
            raise InvalidInputError.of("role", f"must be one of {', '.join(ROLES)}")
        await self.demand(who, level)
        for relation, grant in GRANT_OF.items():
            if grant in ROLES[role] and not await self._may(who, relation, level):
                raise ForbiddenError(f"cannot give {grant} on the {level.type} without holding it")

    async def managed(self, who: Principal, levels: Sequence[ObjectRef]) -> list[bool]:
        """For each level, whether the caller manages users there or on the whole account."""
        answers = await self._rights.check_many(
            who, Relation.CAN_MANAGE_USERS, [account_ref(who.account_id), *dict.fromkeys(levels)]
        )
        if answers[0]:
            return [True] * len(levels)
        known = dict(zip(dict.fromkeys(levels), answers[1:], strict=True))
        return [known[level] for level in levels]

    async def _may(self, who: Principal, relation: Relation, level: ObjectRef) -> bool:
        return (await self._rights.check_many(who, relation, [level]))[0]


class Assignments:
    """Gives and takes roles; the grants follow in the same transaction."""

    def __init__(
        self,
        database: RelationalDatabase,
        clock: Clock,
        *,
        writer: GrantWriter,
        authority: Authority,
        changes: Changes,
    ) -> None:
        self._database = database
        self._clock = clock
        self._writer = writer
        self._authority = authority
        self._changes = changes

    async def create(self, who: Principal, new: NewAssignment) -> AssignmentView:
        """NotFoundError for a person or level that is not in the caller's account, ForbiddenError,
        InvalidInputError, ConflictError for somebody who is disabled."""
        check_period(new.role, new.starts_at, new.ends_at, self._clock.now())
        await self._authority.demand_role(who, new.role, new.level)
        async with self._database.write() as conn:
            created = await self.insert(conn, who.account_id, new, created_by=who.subject)
        self._changes.tell(subjects=[new.user_id])
        _log.info("role given", role=new.role, user_id=new.user_id, by=who.subject, level=new.level.type)
        return created

    async def visible(self, who: Principal, *, user_id: UserId | None = None) -> tuple[AssignmentView, ...]:
        """Those of the caller's account on levels where they manage users."""
        found = await self.of_account(who.account_id, user_id=user_id)
        shown = await self._authority.managed(who, [one.level for one in found])
        return tuple(one for one, may in zip(found, shown, strict=True) if may)

    async def of_account(self, account_id: AccountId, *, user_id: UserId | None = None) -> tuple[AssignmentView, ...]:
        """All of an account, or of one person in it, oldest first."""
        query = select(role_assignments).where(role_assignments.c.account_id == account_id)
        if user_id is not None:
            query = query.where(role_assignments.c.user_id == user_id)
        async with self._database.read() as conn:
            rows = (await conn.execute(query.order_by(role_assignments.c.assignment_id))).all()
        return tuple(_view(row) for row in rows)

    async def delete(self, who: Principal, assignment_id: str) -> None:
        """NotFoundError for one that the caller does not see in the list; ConflictError for the last owner's."""
        async with self._database.read() as conn:
            row = (await conn.execute(select(role_assignments).where(_is(who.account_id, assignment_id)))).one_or_none()
        if row is None or not (await self._authority.managed(who, [_view(row).level]))[0]:
            raise NotFoundError("no such assignment")
        async with self._database.write() as conn:
            await conn.execute(delete(role_assignments).where(_is(who.account_id, assignment_id)))
            await self._writer.revoke(conn, account_id=who.account_id, assignment_id=assignment_id)
            await self.demand_owner(conn, who.account_id)
        self._changes.tell(subjects=[row.user_id])
        _log.info("role taken", role=row.role, user_id=row.user_id, by=who.subject)

    async def sweep(self) -> None:
        """Removes what ended long ago; it gave nothing any more."""
        ended = role_assignments.c.ends_at <= self._clock.now() - KEPT_AFTER_END
        query = select(role_assignments.c.account_id, role_assignments.c.assignment_id).where(ended)
        async with self._database.write() as conn:
            for account_id, assignment_id in (await conn.execute(query)).all():
                await conn.execute(delete(role_assignments).where(_is(account_id, assignment_id)))
                await self._writer.revoke(conn, account_id=account_id, assignment_id=assignment_id)

    # Parts of larger transactions

    async def insert(
        self, conn: AsyncConnection, account_id: AccountId, new: NewAssignment, *, created_by: str
    ) -> AssignmentView:
        """The row and its grants. The caller has checked that they may be given, and tells of it after the commit."""
        member = memberships.c.account_id == account_id, memberships.c.user_id == new.user_id
        is_disabled = await conn.scalar(select(memberships.c.is_disabled).where(*member))
        if is_disabled is None:
            raise NotFoundError("no such user")
        if is_disabled:
            raise ConflictError("the user is disabled", hint="Enable the user first.")
        of_account = role_assignments.c.account_id == account_id
        count = await conn.scalar(select(func.count()).select_from(role_assignments).where(of_account))
        if count is not None and count >= ASSIGNMENTS_PER_ACCOUNT:
            raise LimitExceededError(f"at most {ASSIGNMENTS_PER_ACCOUNT} assignments in an account")
        now = self._clock.now()
        view = AssignmentView(
            assignment_id=make_id(now),
            user_id=new.user_id,
            role=new.role,
            level=new.level,
            starts_at=_utc(new.starts_at),
            ends_at=_utc(new.ends_at),
            created_by=created_by,
            created_at=now,
        )
        row = {
            **{name: getattr(view, name) for name in view.__struct_fields__ if name != "level"},
            "account_id": account_id,
            "object_type": view.level.type.value,
            "object_id": view.level.id,
        }
        await conn.execute(insert(role_assignments).values(row))
        await self._grant(conn, account_id, view)
        return view

    async def suspend(self, conn: AsyncConnection, account_id: AccountId, user_id: UserId) -> None:
        """Takes the grants but keeps the assignments; the account must keep an owner."""
        await self._writer.revoke_subject(conn, account_id=account_id, subject=user_id)
        await self.demand_owner(conn, account_id)

    async def resume(self, conn: AsyncConnection, account_id: AccountId, user_id: UserId) -> None:
        """Gives the grants of the assignments again, where their level still exists."""
        mine = role_assignments.c.account_id == account_id, role_assignments.c.user_id == user_id
        for row in (await conn.execute(select(role_assignments).where(*mine))).all():
            view = _view(row)
            if await self._writer.is_in_account(conn, account_id=account_id, what=view.level):
                await self._grant(conn, account_id, view)

    async def remove_all(self, conn: AsyncConnection, account_id: AccountId, user_id: UserId) -> None:
        """Somebody leaves the account, which must keep an owner."""
        mine = role_assignments.c.account_id == account_id, role_assignments.c.user_id == user_id
        await conn.execute(delete(role_assignments).where(*mine))
        await self.suspend(conn, account_id, user_id)

    async def demand_owner(self, conn: AsyncConnection, account_id: AccountId) -> None:
        """ConflictError unless the account has an enabled owner without an end."""
        now = self._clock.now()
        # Where several processes write, two owners must not remove each other at the same moment.
        await conn.execute(select(accounts.c.account_id).where(accounts.c.account_id == account_id).with_for_update())
        query = (
            select(func.count())
            .select_from(role_assignments)
            .join(
                memberships,
                and_(
                    memberships.c.account_id == role_assignments.c.account_id,
                    memberships.c.user_id == role_assignments.c.user_id,
                ),
            )
            .where(
                role_assignments.c.account_id == account_id,
                role_assignments.c.role == "owner",
                role_assignments.c.object_type == ObjectType.ACCOUNT.value,
                or_(role_assignments.c.starts_at.is_(None), role_assignments.c.starts_at <= now),
                role_assignments.c.ends_at.is_(None),
                memberships.c.is_disabled.is_(False),
            )
        )
        if not await conn.scalar(query):
            raise ConflictError("the account would have no owner left", hint="Make somebody else an owner first.")

    async def _grant(self, conn: AsyncConnection, account_id: AccountId, view: AssignmentView) -> None:
        await self._writer.grant(
            conn,
            account_id=account_id,
            assignment_id=view.assignment_id,
            subject=view.user_id,
            held=ROLES[view.role],
            level=view.level,
            starts_at=view.starts_at,
            ends_at=view.ends_at,
        )


def check_period(role: str, starts_at: datetime | None, ends_at: datetime | None, now: datetime) -> None:
    """InvalidInputError for a period that has passed or is upside down, or a missing end where the role needs one."""
    if ends_at is None:
        if role in ROLES_WITH_END:
            raise InvalidInputError.of("ends_at", f"the role {role} is never given without an end")
        return
    if ends_at <= now or (starts_at is not None and ends_at <= starts_at):
        raise InvalidInputError.of("ends_at", "must be in the future and after the start")


def _utc(at: datetime | None) -> datetime | None:
    return None if at is None else at.astimezone(UTC)


def _is(account_id: AccountId, assignment_id: str) -> ColumnElement[bool]:
    return and_(role_assignments.c.account_id == account_id, role_assignments.c.assignment_id == assignment_id)


def _view(row: Row[*tuple[object, ...]]) -> AssignmentView:
    values = row._asdict()
    level = ObjectRef(type=ObjectType(values.pop("object_type")), id=values.pop("object_id"))
    values.pop("account_id")
    return AssignmentView(level=level, **values)
