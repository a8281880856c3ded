"""What identity needs from the layer above it: a writer of grants, and answers about rights."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from sqlalchemy.ext.asyncio import AsyncConnection

from core.domain.access import Grant, ObjectRef, Relation
from core.domain.ids import AccountId
from core.identity.principal import Principal


class GrantWriter(Protocol):
    """Writes grants in the transaction of the row that they follow (`core.access.tuples.TupleWriter`)."""

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
        """NotFoundError unless the level is in the account."""
        ...

    async def revoke(self, conn: AsyncConnection, *, account_id: AccountId, assignment_id: str) -> None: ...

    async def revoke_subject(self, conn: AsyncConnection, *, account_id: AccountId, subject: str) -> None: ...

    async def is_in_account(self, conn: AsyncConnection, *, account_id: AccountId, what: ObjectRef) -> bool: ...


class Rights(Protocol):
    """Answers who may do what (`core.access.authorizer.Authorizer`)."""

    async def check_many(self, who: Principal, relation: Relation, what: Sequence[ObjectRef]) -> Sequence[bool]: ...
