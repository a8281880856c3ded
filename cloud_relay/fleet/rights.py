"""Asking for rights where the object is known only to the handler, with the same answers as the guards give."""

from __future__ import annotations

from collections.abc import Sequence

from cloud_relay.fleet.hierarchy import account_ref
from core.access.authorizer import Authorizer
from core.domain.access import ObjectRef, ObjectType, Relation
from core.domain.errors import ForbiddenError, NotFoundError
from core.identity.principal import Principal


class Rights:
    """Questions about a principal; nothing is remembered."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    async def require(self, who: Principal, relation: Relation, what: Sequence[ObjectRef]) -> None:
        """For objects that the caller names. NotFoundError when one cannot even be seen (an account is always seen
        by its own), ForbiddenError when one can be seen and no more."""
        refused = await self._refused(who, relation, what)
        hidden = [ref for ref in refused if ref.type is not ObjectType.ACCOUNT]
        if hidden and not all(await self._authorizer.check_many(who, Relation.CAN_VIEW, hidden)):
            raise NotFoundError(f"no such {hidden[0].type.value}")
        if refused:
            raise ForbiddenError(f"needs {relation.value} on the {refused[0].type.value}")

    async def require_around(self, who: Principal, relation: Relation, what: Sequence[ObjectRef]) -> None:
        """For objects around one that the caller sees, such as its site: ForbiddenError, whoever sees them."""
        refused = await self._refused(who, relation, what)
        if refused:
            raise ForbiddenError(f"needs {relation.value} on the {refused[0].type.value}")

    async def _refused(self, who: Principal, relation: Relation, what: Sequence[ObjectRef]) -> list[ObjectRef]:
        allowed = await self._authorizer.check_many(who, relation, what)
        return [ref for ref, is_allowed in zip(what, allowed, strict=True) if not is_allowed]

    async def is_allowed(self, who: Principal, relation: Relation, what: ObjectRef) -> bool:
        return await self._authorizer.check(who, relation, what)

    async def visible(self, who: Principal, relation: Relation, kind: ObjectType) -> frozenset[str]:
        """Ids of all objects of a type on which `who` has the relation."""
        return await self._authorizer.list_objects(who, relation, kind)

    async def require_somewhere(self, who: Principal, relation: Relation) -> None:
        """Returns when `who` has the relation on the account or on any site; else ForbiddenError."""
        if await self._authorizer.check(who, relation, account_ref(who.account_id)):
            return
        if not await self._authorizer.list_objects(who, relation, ObjectType.SITE):
            raise ForbiddenError(f"{relation.value} is missing")
