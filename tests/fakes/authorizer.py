"""An authorizer whose tuples a test writes, and which can be out of reach."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from core.domain.access import GRANT_OF, ROLES, Grant, ObjectRef, ObjectType, Relation
from core.domain.errors import UnavailableError
from core.identity.principal import Principal


class FakeAuthorizer:
    """Rights by subject, account and object, without a hierarchy. `is_down` makes every question fail; `gate`,
    when given, holds answers back until it is set."""

    def __init__(self) -> None:
        self.grants: set[tuple[str, str, Grant, ObjectType, str]] = set()
        self.is_down = False
        self.gate: asyncio.Event | None = None
        self.asked: list[tuple[Relation, tuple[ObjectRef, ...]]] = []

    def allow(self, who: Principal, what: ObjectRef, *grants: Grant) -> None:
        self.grants |= {(who.subject, who.account_id, grant, what.type, what.id) for grant in grants}

    def allow_role(self, who: Principal, role: str, *what: ObjectRef) -> None:
        for ref in what:
            self.allow(who, ref, *ROLES[role])

    def forbid(self, who: Principal, what: ObjectRef) -> None:
        """Takes every right on an object away."""
        self.grants = {g for g in self.grants if (g[0], g[3], g[4]) != (who.subject, what.type, what.id)}

    async def check(self, who: Principal, relation: Relation, what: ObjectRef) -> bool:
        return (await self.check_many(who, relation, [what]))[0]

    async def check_many(self, who: Principal, relation: Relation, what: Sequence[ObjectRef]) -> Sequence[bool]:
        self.asked.append((relation, tuple(what)))
        self._demand_up()
        answers = [self._has(who, relation, ref) for ref in what]
        if self.gate is not None:
            await self.gate.wait()
        return answers

    async def list_objects(self, who: Principal, relation: Relation, kind: ObjectType) -> frozenset[str]:
        self._demand_up()
        grant = GRANT_OF[relation]
        return frozenset(
            object_id
            for subject, account_id, held, object_type, object_id in self.grants
            if (subject, account_id, held, object_type) == (who.subject, who.account_id, grant, kind)
        )

    async def ping(self) -> None:
        self._demand_up()

    def _has(self, who: Principal, relation: Relation, what: ObjectRef) -> bool:
        return (who.subject, who.account_id, GRANT_OF[relation], what.type, what.id) in self.grants

    def _demand_up(self) -> None:
        if self.is_down:
            raise UnavailableError("the access database is away")
