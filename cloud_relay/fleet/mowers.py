"""Mowers of the fleet: made, changed, moved and removed by people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa
import structlog
from msgspec import UNSET
from sqlalchemy.ext.asyncio import AsyncConnection

from cloud_relay.edges.tables import EDGES
from cloud_relay.fleet.connection_options import encode_connection
from cloud_relay.fleet.groups import group_row
from cloud_relay.fleet.hierarchy import Hierarchy, mower_ref
from cloud_relay.fleet.registrations import Registrar
from cloud_relay.fleet.sites import site_row
from cloud_relay.fleet.tables import MOWER_GROUPS, MOWERS, REMOVED_MOWERS
from cloud_relay.fleet.views import MowerChange, NewMower
from core.domain import limits
from core.domain.clock import Clock
from core.domain.errors import ConflictError, InvalidInputError, LimitExceededError, NotFoundError
from core.domain.ids import AccountId, EdgeId, GroupId, MowerId, SiteId, make_id
from core.storage.relational import RelationalDatabase
from core.storage.telemetry_store import DirectoryEntry, TelemetryStore

log = structlog.get_logger(__name__)


class Mowers:
    """The mowers of every account. Every method names the account; another's mower is NotFoundError.

    A change is in the database before its box and the telemetry store hear of it; what they miss (a broker that
    is away, a crash) is made up for at the next start or connection.
    """

    def __init__(
        self,
        *,
        database: RelationalDatabase,
        hierarchy: Hierarchy,
        store: TelemetryStore,
        registrar: Registrar,
        clock: Clock,
        on_removed: Callable[[MowerId], None],
    ) -> None:
        """`on_removed` hears of each mower that is gone."""
        self._on_removed = on_removed
        self._database = database
        self._hierarchy = hierarchy
        self._store = store
        self._registrar = registrar
        self._clock = clock

    async def placement(self, account_id: AccountId, mower_id: MowerId) -> tuple[SiteId, frozenset[GroupId]]:
        """The mower's site and groups."""
        async with self._database.read() as connection:
            row = await mower_row(connection, account_id, mower_id)
            return SiteId(row.site_id), frozenset(await group_ids_of(connection, mower_id))

    async def edge_site(self, account_id: AccountId, edge_id: EdgeId) -> SiteId:
        """The site of a box; NotFoundError for another account's or none."""
        query = sa.select(EDGES.c.site_id).where(EDGES.c.edge_id == edge_id, EDGES.c.account_id == account_id)
        async with self._database.read() as connection:
            site_id = await connection.scalar(query)
        if site_id is None:
            raise NotFoundError("no such box")
        return SiteId(site_id)

    async def create(self, account_id: AccountId, new: NewMower, site_id: SiteId) -> MowerId:
        """Registers a mower that the box then sets up. LimitExceededError beyond 50 mowers, InvalidInputError
        for bad connection options or a group of another site."""
        options = encode_connection(new.connection)
        mower_id = MowerId(make_id(self._clock.now()))
        async with self._database.write() as connection:
            await check_quota(connection, account_id)
            await site_row(connection, account_id, site_id)
            await _check_groups(connection, account_id, site_id, new.group_ids)
            await connection.execute(
                MOWERS.insert().values(
                    mower_id=mower_id,
                    account_id=account_id,
                    site_id=site_id,
                    edge_id=new.edge_id,
                    name=new.name.strip(),
                    domain=new.domain,
                    connection=options,
                    created_at=self._clock.now(),
                )
            )
            await _write_groups(connection, mower_id, new.group_ids)
            await self._hierarchy.place_mower(connection, account_id, mower_id, site_id, new.group_ids)
        self._hierarchy.changed()
        await self._store.put_directory(
            [DirectoryEntry(mower_id=mower_id, account_id=account_id, edge_id=new.edge_id, name=new.name.strip())]
        )
        await self._registrar.publish(new.edge_id)
        log.info("mower registered", account_id=account_id, mower_id=mower_id, domain=new.domain)
        return mower_id

    async def change(self, account_id: AccountId, mower_id: MowerId, change: MowerChange) -> None:
        """Renames, moves or reconnects a mower. ConflictError when it is moved away from a group's site, or
        reconnected although its box found it by itself."""
        values: dict[str, Any] = {}
        if change.name is not UNSET:
            values["name"] = change.name.strip()
        if change.connection is not UNSET:
            values["connection"] = encode_connection(change.connection)
        async with self._database.write() as connection:
            row = await mower_row(connection, account_id, mower_id)
            if "connection" in values and row.domain is None:
                raise ConflictError("this mower was set up on its box", hint="Change its connection there.")
            if change.site_id is not UNSET and change.site_id != row.site_id:
                await site_row(connection, account_id, change.site_id)
                group_ids = await group_ids_of(connection, mower_id)
                try:
                    await _check_groups(connection, account_id, change.site_id, group_ids)
                except InvalidInputError as err:
                    raise ConflictError(
                        "the mower is in a group of its present site", hint="Take it out of that group first."
                    ) from err
                values["site_id"] = change.site_id
                await self._hierarchy.place_mower(connection, account_id, mower_id, change.site_id, group_ids)
            if values:
                await connection.execute(MOWERS.update().where(MOWERS.c.mower_id == mower_id).values(**values))
        if not values:
            return
        if "site_id" in values:
            self._hierarchy.changed()
        if "name" in values:
            await self._store.put_directory(
                [DirectoryEntry(mower_id=mower_id, account_id=account_id, edge_id=row.edge_id, name=values["name"])]
            )
        if row.edge_id is not None:
            await self._registrar.publish(EdgeId(row.edge_id))

    async def set_groups(self, account_id: AccountId, mower_id: MowerId, group_ids: Sequence[GroupId]) -> None:
        """Puts the mower into exactly these groups; InvalidInputError for a group of another site."""
        async with self._database.write() as connection:
            row = await mower_row(connection, account_id, mower_id)
            await _check_groups(connection, account_id, SiteId(row.site_id), group_ids)
            await connection.execute(MOWER_GROUPS.delete().where(MOWER_GROUPS.c.mower_id == mower_id))
            await _write_groups(connection, mower_id, group_ids)
            await self._hierarchy.place_mower(connection, account_id, mower_id, SiteId(row.site_id), group_ids)
        self._hierarchy.changed()

    async def delete(self, account_id: AccountId, mower_id: MowerId) -> None:
        """Removes the mower, its rights and its telemetry, and tells its box. Its commands stay 90 days."""
        async with self._database.write() as connection:
            row = await mower_row(connection, account_id, mower_id)
            await connection.execute(MOWER_GROUPS.delete().where(MOWER_GROUPS.c.mower_id == mower_id))
            await connection.execute(MOWERS.delete().where(MOWERS.c.mower_id == mower_id))
            if row.edge_id is not None:
                await connection.execute(
                    REMOVED_MOWERS.insert().values(edge_id=row.edge_id, mower_id=mower_id, removed_at=self._clock.now())
                )
            await self._hierarchy.remove(connection, account_id, mower_ref(mower_id))
        self._hierarchy.changed()
        self._on_removed(mower_id)
        await self._store.purge_mower(mower_id)
        if row.edge_id is not None:
            await self._registrar.publish(EdgeId(row.edge_id))
        log.info("mower deleted", account_id=account_id, mower_id=mower_id)

    async def reconcile_directory(self) -> None:
        """Makes the telemetry store know exactly the fleet's mowers (at start: a crash may have come between
        the two databases); telemetry of mowers that are gone is purged."""
        query = sa.select(MOWERS.c.mower_id, MOWERS.c.account_id, MOWERS.c.edge_id, MOWERS.c.name)
        async with self._database.read() as connection:
            rows = (await connection.execute(query)).all()
        known = {row.mower_id for row in rows}
        for entry in await self._store.directory():
            if entry.mower_id not in known:
                log.warning("telemetry of a removed mower purged", mower_id=entry.mower_id)
                await self._store.purge_mower(entry.mower_id)
        await self._store.put_directory(
            [DirectoryEntry(mower_id=r.mower_id, account_id=r.account_id, edge_id=r.edge_id, name=r.name) for r in rows]
        )


async def mower_row(connection: AsyncConnection, account_id: AccountId, mower_id: MowerId) -> sa.Row[Any]:
    """The mower's row; NotFoundError for another account's or none."""
    query = sa.select(MOWERS).where(MOWERS.c.mower_id == mower_id, MOWERS.c.account_id == account_id)
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        raise NotFoundError("no such mower")
    return row


async def group_ids_of(connection: AsyncConnection, mower_id: MowerId) -> tuple[GroupId, ...]:
    query = sa.select(MOWER_GROUPS.c.group_id).where(MOWER_GROUPS.c.mower_id == mower_id)
    rows = await connection.execute(query.order_by(MOWER_GROUPS.c.group_id))
    return tuple(GroupId(row.group_id) for row in rows)


async def check_quota(connection: AsyncConnection, account_id: AccountId) -> None:
    """LimitExceededError when the account has as many mowers as it may have."""
    query = sa.select(sa.func.count()).select_from(MOWERS).where(MOWERS.c.account_id == account_id)
    if (await connection.scalar(query) or 0) >= limits.MOWERS_PER_ACCOUNT:
        raise LimitExceededError(f"at most {limits.MOWERS_PER_ACCOUNT} mowers")


async def _check_groups(
    connection: AsyncConnection, account_id: AccountId, site_id: SiteId, group_ids: Sequence[GroupId]
) -> None:
    """A group of a site takes only that site's mowers: else its people would keep rights on one that moved."""
    for group_id in group_ids:
        row = await group_row(connection, account_id, group_id)
        if row.site_id is not None and row.site_id != site_id:
            raise InvalidInputError.of("group_ids", f"group {group_id} belongs to another site")


async def _write_groups(connection: AsyncConnection, mower_id: MowerId, group_ids: Sequence[GroupId]) -> None:
    for group_id in sorted(set(group_ids)):
        await connection.execute(MOWER_GROUPS.insert().values(mower_id=mower_id, group_id=group_id))
