"""Answers access questions from the tuples, each question by one query."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import CTE, ColumnElement, Select, and_, exists, or_, select, union

from core.access.tables import grants, hierarchy
from core.domain.access import GRANT_OF, ObjectRef, ObjectType, Relation
from core.domain.clock import Clock
from core.domain.errors import LimitExceededError, StorageError, UnavailableError
from core.identity.principal import Principal
from core.storage.relational import RelationalDatabase

CHECKS = 5_000
"""Objects in one `check_many`."""
FOR_EVER = datetime.max.replace(tzinfo=UTC)

Pair = tuple[str, str]


class SqlAuthorizer:
    """Implements `Authorizer`. The account of the object must be the principal's, in every row that is looked at.
    Somebody who has yet to change their password holds nothing."""

    def __init__(self, database: RelationalDatabase, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def check(self, who: Principal, relation: Relation, what: ObjectRef) -> bool:
        return (await self.check_many(who, relation, [what]))[0]

    async def check_many(self, who: Principal, relation: Relation, what: Sequence[ObjectRef]) -> Sequence[bool]:
        if not what or who.must_change_password:
            return [False] * len(what)
        ids = {one.id for one in what}
        if len(ids) > CHECKS:
            raise LimitExceededError(f"at most {CHECKS} objects in one check")
        held = await self._pairs(_held(who, self._counts(who, relation), ids))
        return [(one.type.value, one.id) in held for one in what]

    async def held_until(self, who: Principal, relation: Relation, what: ObjectRef) -> datetime | None:
        """When the relation ends by itself: FOR_EVER without an end, None when it is not held now. UnavailableError
        as for `check`."""
        if who.must_change_password:
            return None
        query = _ends(who, self._counts(who, relation), what)
        try:
            async with self._database.read() as conn:
                ends: list[datetime | None] = list((await conn.execute(query)).scalars())
        except StorageError as err:
            raise UnavailableError("access cannot be checked") from err
        return max((FOR_EVER if end is None else end for end in ends), default=None)

    async def list_objects(self, who: Principal, relation: Relation, kind: ObjectType) -> frozenset[str]:
        if who.must_change_password:
            return frozenset()
        pairs = await self._pairs(_reachable(who, self._counts(who, relation), kind))
        return frozenset(identifier for _, identifier in pairs)

    async def ping(self) -> None:
        try:
            await self._database.ping()
        except StorageError as err:
            raise UnavailableError("access cannot be checked") from err

    def _counts(self, who: Principal, relation: Relation) -> ColumnElement[bool]:
        """The grants that count: of this subject, in this account, now."""
        now = self._clock.now()
        return and_(
            grants.c.account_id == who.account_id,
            grants.c.subject == who.subject,
            grants.c.grant_name == GRANT_OF[relation].value,
            or_(grants.c.starts_at.is_(None), grants.c.starts_at <= now),
            or_(grants.c.ends_at.is_(None), grants.c.ends_at > now),
        )

    async def _pairs(self, query: Select[str, str]) -> frozenset[Pair]:
        try:
            async with self._database.read() as conn:
                return frozenset((kind, identifier) for kind, identifier in (await conn.execute(query)).all())
        except StorageError as err:
            raise UnavailableError("access cannot be checked") from err


def _held(who: Principal, counts: ColumnElement[bool], ids: set[str]) -> Select[str, str]:
    """Which of the objects named (by type and id), and the account, are below or at an object with a grant:
    climb from each to the top, one set of (start, ancestor), and look for a grant on any ancestor."""
    up = _up(who, ids)
    below = select(up.c.start_type, up.c.start_id).where(
        exists().where(counts, grants.c.object_type == up.c.type, grants.c.object_id == up.c.id)
    )
    at_the_top = select(grants.c.object_type, grants.c.object_id).where(
        counts, grants.c.object_type == ObjectType.ACCOUNT.value, grants.c.object_id == who.account_id
    )
    found = union(below, at_the_top).subquery()
    return select(found.c.start_type, found.c.start_id)


def _ends(who: Principal, counts: ColumnElement[bool], what: ObjectRef) -> Select[datetime | None]:
    """The ends of all grants that reach the object from where they are."""
    up = _up(who, {what.id})
    start = up.c.start_type == what.type.value, up.c.start_id == what.id
    above = exists().where(*start, grants.c.object_type == up.c.type, grants.c.object_id == up.c.id)
    is_top = what == ObjectRef(type=ObjectType.ACCOUNT, id=who.account_id)
    at_it = and_(grants.c.object_type == what.type.value, grants.c.object_id == what.id)
    return select(grants.c.ends_at).where(counts, or_(above, at_it) if is_top else above)


def _up(who: Principal, ids: set[str]) -> CTE:
    """The objects with these ids and all that is above each, as rows of (start_type, start_id, type, id)."""
    in_account = hierarchy.c.account_id == who.account_id
    start = select(
        hierarchy.c.child_type.label("start_type"),
        hierarchy.c.child_id.label("start_id"),
        hierarchy.c.child_type.label("type"),
        hierarchy.c.child_id.label("id"),
    ).where(in_account, hierarchy.c.child_id.in_(sorted(ids)))
    up = start.cte("up", recursive=True)
    return up.union(
        select(up.c.start_type, up.c.start_id, hierarchy.c.parent_type, hierarchy.c.parent_id).where(
            in_account, hierarchy.c.child_type == up.c.type, hierarchy.c.child_id == up.c.id
        )
    )


def _reachable(who: Principal, counts: ColumnElement[bool], kind: ObjectType) -> Select[str, str]:
    """All objects of a type at or below an object with a grant: climb down from the grants."""
    in_account = hierarchy.c.account_id == who.account_id
    down = (
        select(grants.c.object_type.label("type"), grants.c.object_id.label("id"))
        .where(counts)
        .cte("down", recursive=True)
    )
    down = down.union(
        select(hierarchy.c.child_type, hierarchy.c.child_id).where(
            in_account, hierarchy.c.parent_type == down.c.type, hierarchy.c.parent_id == down.c.id
        )
    )
    is_ours = (
        down.c.id == who.account_id
        if kind is ObjectType.ACCOUNT
        else exists().where(in_account, hierarchy.c.child_type == down.c.type, hierarchy.c.child_id == down.c.id)
    )
    return select(down.c.type, down.c.id).where(down.c.type == kind.value, is_ours)
