"""Sites: the gardens of an account. One hidden default site takes whatever names none."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import sqlalchemy as sa
import structlog
from msgspec import UNSET
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from cloud_relay.edges.tables import EDGES
from cloud_relay.fleet.hierarchy import Hierarchy, site_ref
from cloud_relay.fleet.tables import GROUPS, MOWERS, SITES
from cloud_relay.fleet.views import NewSite, SiteChange, SiteView
from core.domain.clock import Clock
from core.domain.errors import ConflictError, InvalidInputError, LimitExceededError, NotFoundError
from core.domain.ids import AccountId, SiteId, make_id
from core.storage.relational import RelationalDatabase

log = structlog.get_logger(__name__)

SITES_PER_ACCOUNT = 500


class Sites:
    """The sites of every account. Every method names the account; another's site is NotFoundError."""

    def __init__(self, *, database: RelationalDatabase, hierarchy: Hierarchy, clock: Clock) -> None:
        self._database = database
        self._hierarchy = hierarchy
        self._clock = clock

    async def all(self, account_id: AccountId) -> tuple[SiteView, ...]:
        """Every site of the account by name, the default one (if it exists yet) first."""
        query = sa.select(SITES).where(SITES.c.account_id == account_id)
        async with self._database.read() as connection:
            rows = await connection.execute(query.order_by(SITES.c.is_default.desc(), SITES.c.name, SITES.c.site_id))
            return tuple(_view(row) for row in rows)

    async def get(self, account_id: AccountId, site_id: SiteId) -> SiteView:
        async with self._database.read() as connection:
            return _view(await site_row(connection, account_id, site_id))

    async def create(self, account_id: AccountId, new: NewSite) -> SiteView:
        """Makes a site. InvalidInputError for an unknown time zone, LimitExceededError beyond 500."""
        _check_zone(new.time_zone)
        site_id = SiteId(make_id(self._clock.now()))
        async with self._database.write() as connection:
            count = await connection.scalar(
                sa.select(sa.func.count()).select_from(SITES).where(SITES.c.account_id == account_id)
            )
            if (count or 0) >= SITES_PER_ACCOUNT:
                raise LimitExceededError(f"at most {SITES_PER_ACCOUNT} sites")
            await connection.execute(
                SITES.insert().values(
                    site_id=site_id,
                    account_id=account_id,
                    name=new.name.strip(),
                    address=new.address.strip(),
                    time_zone=new.time_zone,
                    is_default=False,
                    created_at=self._clock.now(),
                )
            )
            await self._hierarchy.place_site(connection, account_id, site_id)
            view = _view(await site_row(connection, account_id, site_id))
        self._hierarchy.changed()
        return view

    async def change(self, account_id: AccountId, site_id: SiteId, change: SiteChange) -> SiteView:
        """Changes what is given. ConflictError when the default site is to be renamed."""
        values: dict[str, Any] = {}
        if change.name is not UNSET:
            values["name"] = change.name.strip()
        if change.address is not UNSET:
            values["address"] = change.address.strip()
        if change.time_zone is not UNSET:
            _check_zone(change.time_zone)
            values["time_zone"] = change.time_zone
        async with self._database.write() as connection:
            row = await site_row(connection, account_id, site_id)
            if row.is_default and "name" in values:
                raise ConflictError("the default site cannot be renamed")
            if values:
                await connection.execute(SITES.update().where(SITES.c.site_id == site_id).values(**values))
            return _view(await site_row(connection, account_id, site_id))

    async def delete(self, account_id: AccountId, site_id: SiteId) -> None:
        """Removes an empty site. ConflictError for the default one and while anything refers to it."""
        async with self._database.write() as connection:
            row = await site_row(connection, account_id, site_id)
            if row.is_default:
                raise ConflictError("the default site cannot be deleted")
            for noun, table in (("mowers", MOWERS), ("groups", GROUPS), ("boxes", EDGES)):
                used = await connection.scalar(sa.select(sa.exists().where(table.c.site_id == site_id)))
                if used:
                    raise ConflictError(f"the site still has {noun}", hint="Move or remove them first.")
            await connection.execute(SITES.delete().where(SITES.c.site_id == site_id))
            await self._hierarchy.remove(connection, account_id, site_ref(site_id))
        self._hierarchy.changed()
        log.info("site deleted", account_id=account_id, site_id=site_id)

    async def default(self, connection: AsyncConnection, account_id: AccountId) -> SiteId:
        """The account's default site, made now if it does not exist yet, within the caller's transaction; call
        `placed` after its commit."""
        query = sa.select(SITES.c.site_id).where(SITES.c.account_id == account_id, SITES.c.is_default)
        found = await connection.scalar(query)
        if found is not None:
            return SiteId(found)
        site_id = SiteId(make_id(self._clock.now()))
        statement = SITES.insert().values(
            site_id=site_id, account_id=account_id, name="Home", is_default=True, created_at=self._clock.now()
        )
        try:
            async with connection.begin_nested():
                await connection.execute(statement)
        except IntegrityError:  # another transaction made it in the meantime
            return SiteId(str(await connection.scalar(query)))
        await self._hierarchy.place_site(connection, account_id, site_id)
        return site_id

    def placed(self) -> None:
        """After the commit of a transaction that may have made a default site."""
        self._hierarchy.changed()


async def site_row(connection: AsyncConnection, account_id: AccountId, site_id: SiteId) -> sa.Row[Any]:
    """The site's row; NotFoundError for another account's or none."""
    query = sa.select(SITES).where(SITES.c.site_id == site_id, SITES.c.account_id == account_id)
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        raise NotFoundError("no such site")
    return row


def _view(row: sa.Row[Any]) -> SiteView:
    return SiteView(
        site_id=row.site_id,
        name=row.name,
        address=row.address,
        time_zone=row.time_zone,
        is_default=bool(row.is_default),
        created_at=row.created_at,
    )


def _check_zone(name: str) -> None:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as err:
        raise InvalidInputError.of("time_zone", "must be an IANA time zone such as Europe/Berlin") from err
