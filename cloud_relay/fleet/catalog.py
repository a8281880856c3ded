"""The fleet's mowers as the shared routes show them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from cloud_relay.fleet.mowers import group_ids_of, mower_row
from cloud_relay.fleet.tables import MOWER_GROUPS, MOWERS
from core.domain.capabilities import Capabilities
from core.domain.ids import AccountId, EdgeId, GroupId, MowerId
from core.domain.mower import Area, LinkKind
from core.storage.relational import RelationalDatabase
from core.web.ports import MowerView


class FleetCatalog:
    """Implements `MowerCatalog` over the fleet's tables."""

    def __init__(self, *, database: RelationalDatabase, is_online: Callable[[EdgeId], bool | None]) -> None:
        """`is_online` says whether a box is connected (None: unknown)."""
        self._database = database
        self._is_online = is_online

    async def mower(self, account_id: AccountId, mower_id: MowerId) -> MowerView:
        async with self._database.read() as connection:
            row = await mower_row(connection, account_id, mower_id)
            return self._view(row, await group_ids_of(connection, mower_id))

    async def mowers(self, account_id: AccountId) -> Sequence[MowerView]:
        query = sa.select(MOWERS).where(MOWERS.c.account_id == account_id).order_by(MOWERS.c.name, MOWERS.c.mower_id)
        memberships = (
            sa.select(MOWER_GROUPS)
            .join(MOWERS, MOWERS.c.mower_id == MOWER_GROUPS.c.mower_id)
            .where(MOWERS.c.account_id == account_id)
            .order_by(MOWER_GROUPS.c.group_id)
        )
        async with self._database.read() as connection:
            rows = (await connection.execute(query)).all()
            groups: dict[str, list[GroupId]] = {}
            for member in await connection.execute(memberships):
                groups.setdefault(member.mower_id, []).append(GroupId(member.group_id))
        return [self._view(row, tuple(groups.get(row.mower_id, ()))) for row in rows]

    def _view(self, row: sa.Row[Any], group_ids: tuple[GroupId, ...]) -> MowerView:
        return MowerView(
            mower_id=row.mower_id,
            name=row.name,
            site_id=row.site_id,
            group_ids=group_ids,
            edge_id=row.edge_id,
            domain=row.domain,
            vendor=row.vendor,
            serial=row.serial,
            model=row.model,
            links=msgspec.json.decode(row.links, type=tuple[LinkKind, ...]),
            areas=msgspec.json.decode(row.areas, type=tuple[Area, ...]),
            capabilities=msgspec.json.decode(row.capabilities, type=Capabilities),
            is_edge_online=None if row.edge_id is None else self._is_online(row.edge_id),
            setup_error=row.setup_error,
        )
