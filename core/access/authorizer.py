"""The port that answers access questions. A subject is a user or token id within the account it acts for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from core.domain.access import ObjectRef, ObjectType, Relation
from core.identity.principal import Principal


class Authorizer(Protocol):
    """Answers are false for anything unknown, foreign, not yet begun or ended. UnavailableError when the
    database cannot be asked: nobody is let in, nobody is thrown out."""

    async def check(self, who: Principal, relation: Relation, what: ObjectRef) -> bool: ...

    async def check_many(self, who: Principal, relation: Relation, what: Sequence[ObjectRef]) -> Sequence[bool]:
        """One answer per object, in order, by one query."""
        ...

    async def list_objects(self, who: Principal, relation: Relation, kind: ObjectType) -> frozenset[str]:
        """Ids of all objects of a type on which the subject has the relation."""
        ...

    async def ping(self) -> None: ...
