"""Groups: mowers named together, within a site or over all sites of an account."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from cloud_relay.fleet.hierarchy import Hierarchy, group_ref
from cloud_relay.fleet.sites import site_row
from cloud_relay.fleet.tables import GROUPS, MOWER_GROUPS
from cloud_relay.fleet.views import GroupChange, GroupView, NewGroup
from core.domain.clock import Clock
from core.domain.errors import ConflictError, LimitExceededError, NotFoundError
from core.domain.ids import AccountId, GroupId, make_id
from core.storage.relational import RelationalDatabase

log = structlog.get_logger(__name__)

GROUPS_PER_ACCOUNT = 500


class Groups:
    """The groups of every account. Every method names the account; another's group is NotFoundError."""

    def __init__(self, *, database: RelationalDatabase, hierarchy: Hierarchy, clock: Clock) -> None:
        self._database = database
        self._hierarchy = hierarchy
        self._clock = clock

    async def all(self, account_id: AccountId) -> tuple[GroupView, ...]:
        query = sa.select(GROUPS).where(GROUPS.c.account_id == account_id).order_by(GROUPS.c.name, GROUPS.c.group_id)
        async with self._database.read() as connection:
            return tuple(_view(row) for row in await connection.execute(query))

    async def get(self, account_id: AccountId, group_id: GroupId) -> GroupView:
        async with self._database.read() as connection:
            return _view(await group_row(connection, account_id, group_id))

    async def create(self, account_id: AccountId, new: NewGroup) -> GroupView:
        """Makes a group; NotFoundError for another account's site, LimitExceededError beyond 500."""
        group_id = GroupId(make_id(self._clock.now()))
        async with self._database.write() as connection:
            count = await connection.scalar(
                sa.select(sa.func.count()).select_from(GROUPS).where(GROUPS.c.account_id == account_id)
            )
            if (count or 0) >= GROUPS_PER_ACCOUNT:
                raise LimitExceededError(f"at most {GROUPS_PER_ACCOUNT} groups")
            if new.site_id is not None:
                await site_row(connection, account_id, new.site_id)
            await connection.execute(
                GROUPS.insert().values(
                    group_id=group_id,
                    account_id=account_id,
                    site_id=new.site_id,
                    name=new.name.strip(),
                    created_at=self._clock.now(),
                )
            )
            await self._hierarchy.place_group(connection, account_id, group_id, new.site_id)
            view = _view(await group_row(connection, account_id, group_id))
        self._hierarchy.changed()
        return view

    async def change(self, account_id: AccountId, group_id: GroupId, change: GroupChange) -> GroupView:
        async with self._database.write() as connection:
            await group_row(connection, account_id, group_id)
            await connection.execute(
                GROUPS.update().where(GROUPS.c.group_id == group_id).values(name=change.name.strip())
            )
            return _view(await group_row(connection, account_id, group_id))

    async def delete(self, account_id: AccountId, group_id: GroupId) -> None:
        """Removes an empty group; ConflictError while a mower is in it."""
        async with self._database.write() as connection:
            await group_row(connection, account_id, group_id)
            used = await connection.scalar(sa.select(sa.exists().where(MOWER_GROUPS.c.group_id == group_id)))
            if used:
                raise ConflictError("the group still has mowers", hint="Take them out first.")
            await connection.execute(GROUPS.delete().where(GROUPS.c.group_id == group_id))
            await self._hierarchy.remove(connection, account_id, group_ref(group_id))
        self._hierarchy.changed()
        log.info("group deleted", account_id=account_id, group_id=group_id)


async def group_row(connection: AsyncConnection, account_id: AccountId, group_id: GroupId) -> sa.Row[Any]:
    """The group's row; NotFoundError for another account's or none."""
    query = sa.select(GROUPS).where(GROUPS.c.group_id == group_id, GROUPS.c.account_id == account_id)
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        raise NotFoundError("no such group")
    return row


def _view(row: sa.Row[Any]) -> GroupView:
    return GroupView(group_id=row.group_id, name=row.name, site_id=row.site_id, created_at=row.created_at)
