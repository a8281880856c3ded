"""The fleet's place in access: which site, group or mower is below which, written with the row it follows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from core.access.tables import hierarchy
from core.access.tuples import TupleWriter
from core.domain.access import ObjectRef, ObjectType
from core.domain.ids import AccountId, GroupId, MowerId, SiteId


def account_ref(account_id: AccountId) -> ObjectRef:
    return ObjectRef(type=ObjectType.ACCOUNT, id=account_id)


def site_ref(site_id: SiteId) -> ObjectRef:
    return ObjectRef(type=ObjectType.SITE, id=site_id)


def group_ref(group_id: GroupId) -> ObjectRef:
    return ObjectRef(type=ObjectType.GROUP, id=group_id)


def mower_ref(mower_id: MowerId) -> ObjectRef:
    return ObjectRef(type=ObjectType.MOWER, id=mower_id)


class Hierarchy:
    """Places objects within the caller's transaction; `changed` is called after its commit."""

    def __init__(self, tuples: TupleWriter, notify: Callable[[frozenset[str] | None], None]) -> None:
        """`tuples` is fleet's writer, `notify` tells that rights changed (None: anybody's)."""
        self._tuples = tuples
        self._notify = notify

    async def place_site(self, connection: AsyncConnection, account_id: AccountId, site_id: SiteId) -> None:
        await self._set_parents(connection, account_id, site_ref(site_id), [account_ref(account_id)])

    async def place_group(
        self, connection: AsyncConnection, account_id: AccountId, group_id: GroupId, site_id: SiteId | None
    ) -> None:
        """Below its site, or the account when it reaches over all sites."""
        parent = account_ref(account_id) if site_id is None else site_ref(site_id)
        await self._set_parents(connection, account_id, group_ref(group_id), [parent])

    async def place_mower(
        self,
        connection: AsyncConnection,
        account_id: AccountId,
        mower_id: MowerId,
        site_id: SiteId,
        group_ids: Sequence[GroupId],
    ) -> None:
        """Below exactly this site and these groups."""
        parents = [site_ref(site_id), *(group_ref(group_id) for group_id in group_ids)]
        await self._set_parents(connection, account_id, mower_ref(mower_id), parents)

    async def remove(self, connection: AsyncConnection, account_id: AccountId, what: ObjectRef) -> None:
        await self._tuples.remove(connection, account_id=account_id, what=what)

    def changed(self) -> None:
        """After the commit: a place in the hierarchy changed, so anybody's rights may have."""
        self._notify(None)

    async def _set_parents(
        self, connection: AsyncConnection, account_id: AccountId, child: ObjectRef, parents: Sequence[ObjectRef]
    ) -> None:
        query = select(hierarchy.c.parent_type, hierarchy.c.parent_id).where(
            hierarchy.c.account_id == account_id,
            hierarchy.c.child_type == child.type.value,
            hierarchy.c.child_id == child.id,
        )
        present = [ObjectRef(type=ObjectType(t), id=i) for t, i in (await connection.execute(query)).all()]
        for parent in parents:
            await self._tuples.place(connection, account_id=account_id, child=child, parent=parent)
        for parent in present:
            if parent not in parents:
                await self._tuples.displace(connection, account_id=account_id, child=child, parent=parent)
