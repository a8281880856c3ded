"""A box's inventory becomes part of the fleet: unknown mowers are adopted, known ones refreshed, never moved."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import sqlalchemy as sa
import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from cloud_relay.edges.facts import EdgeFacts, MowerNote, facts_of
from cloud_relay.edges.tables import EDGES
from cloud_relay.fleet.hierarchy import Hierarchy
from cloud_relay.fleet.mowers import check_quota
from cloud_relay.fleet.registrations import Registrar
from cloud_relay.fleet.tables import MOWERS, REMOVED_MOWERS
from core.domain.clock import Clock
from core.domain.errors import LimitExceededError
from core.domain.ids import EdgeId, MowerId, SiteId, is_safe_id
from core.storage.relational import RelationalDatabase
from core.storage.telemetry_store import DirectoryEntry, TelemetryStore
from core.sync.messages import Hello, InventoryItem

log = structlog.get_logger(__name__)

INVENTORY_SIZE = 200
"""Mowers of one hello that are looked at; a box has a handful."""
AREAS_BYTES = 256 * 1024
"""Area outlines of one mower that the relay keeps; more are kept without their rings."""


TEXT_CHARS = 120
"""Of a vendor's name or a serial number; they name a mower, so they are not cut."""
REMOVED_HERE = "was removed from the fleet; remove it on the box too, or link the box again to have it back"
"""A box keeps what its household has set up, whatever the fleet removes."""


@dataclass(slots=True)
class _Findings:
    """What one hello brought."""

    directory: list[DirectoryEntry] = field(default_factory=list)
    duplicates: list[MowerNote] = field(default_factory=list)
    refused: list[MowerNote] = field(default_factory=list)


class Inventory:
    """Takes hellos. One that repeats what is known changes nothing."""

    def __init__(
        self,
        *,
        database: RelationalDatabase,
        hierarchy: Hierarchy,
        store: TelemetryStore,
        registrar: Registrar,
        clock: Clock,
    ) -> None:
        self._database = database
        self._hierarchy = hierarchy
        self._store = store
        self._registrar = registrar
        self._clock = clock

    async def take(self, edge_id: EdgeId, hello: Hello) -> EdgeFacts | None:
        """The hello of a box (None: no longer linked). When it returns, the store accepts rows of the box's mowers."""
        now = self._clock.now()
        async with self._database.write() as connection:
            edge = (await connection.execute(sa.select(EDGES).where(EDGES.c.edge_id == edge_id))).one_or_none()
            if edge is None:
                return None
            found = await self._merge(connection, edge, hello)
            facts = facts_of(hello, now, duplicates=tuple(found.duplicates), refused=tuple(found.refused))
            change = {"facts": msgspec.json.encode(facts).decode(), "last_seen_at": now}
            await connection.execute(EDGES.update().where(EDGES.c.edge_id == edge_id).values(**change))
        if found.directory:
            self._hierarchy.changed()
            await self._store.put_directory(found.directory)
        if found.directory:
            await self._registrar.publish(edge_id)
        else:
            await self._registrar.ensure_published(edge_id)
        for note in found.refused:
            log.warning("mower of a box refused", edge_id=edge_id, mower_id=note.mower_id, reason=note.reason)
        return facts

    async def _merge(self, connection: AsyncConnection, edge: sa.Row[Any], hello: Hello) -> _Findings:
        found = _Findings()
        items: dict[MowerId, InventoryItem] = {}
        for item in hello.mowers[:INVENTORY_SIZE]:
            fault = _find_fault(item)
            if fault is None:
                items[item.mower_id] = item
            else:
                found.refused.append(MowerNote(mower_id=MowerId(item.mower_id[:64]), reason=fault))
        removed = await self._unheard_removals(connection, EdgeId(edge.edge_id), set(items))
        for mower_id, item in items.items():
            if mower_id in removed:
                found.refused.append(MowerNote(mower_id=mower_id, reason=REMOVED_HERE))
                continue
            row = (await connection.execute(sa.select(MOWERS).where(MOWERS.c.mower_id == mower_id))).one_or_none()
            if row is None:
                await self._adopt(connection, edge, item, found)
            elif row.account_id != edge.account_id or row.edge_id not in (None, edge.edge_id):
                reason = "belongs to another box" if row.account_id == edge.account_id else "belongs elsewhere"
                found.refused.append(MowerNote(mower_id=mower_id, reason=f"{reason}: remove it there first"))
            else:
                await self._refresh(connection, edge, row, item, found)
        await _note_failures(connection, EdgeId(edge.edge_id), hello)
        return found

    async def _unheard_removals(
        self, connection: AsyncConnection, edge_id: EdgeId, reported: set[MowerId]
    ) -> set[MowerId]:
        """Mowers that people removed and the box still has. A removal that the box has heard is forgotten, so
        that the mower can be set up there again."""
        query = sa.select(REMOVED_MOWERS.c.mower_id).where(REMOVED_MOWERS.c.edge_id == edge_id)
        removed = {MowerId(row.mower_id) for row in await connection.execute(query)}
        heard = removed - reported
        if heard:
            forget = REMOVED_MOWERS.delete().where(REMOVED_MOWERS.c.edge_id == edge_id)
            await connection.execute(forget.where(REMOVED_MOWERS.c.mower_id.in_(sorted(heard))))
        return removed & reported

    async def _adopt(
        self, connection: AsyncConnection, edge: sa.Row[Any], item: InventoryItem, found: _Findings
    ) -> None:
        if await _has_serial(connection, edge.account_id, item):
            found.duplicates.append(_duplicate(item))
            return
        try:
            await check_quota(connection, edge.account_id)
        except LimitExceededError as err:
            found.refused.append(MowerNote(mower_id=item.mower_id, reason=err.detail))
            return
        name = item.description.name.strip()[:120] or item.description.serial[:120] or "Mower"
        await connection.execute(
            MOWERS.insert().values(
                mower_id=item.mower_id,
                account_id=edge.account_id,
                site_id=edge.site_id,
                edge_id=edge.edge_id,
                name=name,
                created_at=self._clock.now(),
                **_identity(item),
                **_abilities(item),
            )
        )
        await self._hierarchy.place_mower(connection, edge.account_id, item.mower_id, SiteId(edge.site_id), ())
        found.directory.append(
            DirectoryEntry(mower_id=item.mower_id, account_id=edge.account_id, edge_id=edge.edge_id, name=name)
        )
        log.info("mower adopted", account_id=edge.account_id, edge_id=edge.edge_id, mower_id=item.mower_id)

    async def _refresh(
        self,
        connection: AsyncConnection,
        edge: sa.Row[Any],
        row: sa.Row[Any],
        item: InventoryItem,
        found: _Findings,
    ) -> None:
        values = _abilities(item)
        if (row.vendor, row.serial) != (item.description.vendor, item.description.serial):
            if await _has_serial(connection, edge.account_id, item):
                found.duplicates.append(_duplicate(item))
            else:
                values |= _identity(item)
        if row.edge_id is None:  # the box was unlinked and is back
            values["edge_id"] = edge.edge_id
            found.directory.append(
                DirectoryEntry(mower_id=item.mower_id, account_id=edge.account_id, edge_id=edge.edge_id, name=row.name)
            )
        await connection.execute(MOWERS.update().where(MOWERS.c.mower_id == item.mower_id).values(**values))


def _find_fault(item: InventoryItem) -> str | None:
    """Why a mower cannot even be looked at: nobody could name it in a path or a topic, or its names have no end."""
    if not is_safe_id(item.mower_id):
        return "has an id that cannot be one"
    described = item.description
    if max(len(described.vendor), len(described.serial)) > TEXT_CHARS:
        return f"has a vendor or serial of more than {TEXT_CHARS} characters"
    return None


async def _has_serial(connection: AsyncConnection, account_id: str, item: InventoryItem) -> bool:
    """Whether the account has this vendor and serial under another id."""
    query = sa.select(
        sa.exists().where(
            MOWERS.c.account_id == account_id,
            MOWERS.c.vendor == item.description.vendor,
            MOWERS.c.serial == item.description.serial,
            MOWERS.c.mower_id != item.mower_id,
        )
    )
    return bool(await connection.scalar(query))


async def _note_failures(connection: AsyncConnection, edge_id: EdgeId, hello: Hello) -> None:
    of_edge = MOWERS.update().where(MOWERS.c.edge_id == edge_id)
    await connection.execute(of_edge.where(MOWERS.c.setup_error.is_not(None)).values(setup_error=None))
    for failure in hello.failed_registrations[:INVENTORY_SIZE]:
        await connection.execute(
            of_edge.where(MOWERS.c.mower_id == failure.mower_id).values(setup_error=failure.reason[:400])
        )


def _duplicate(item: InventoryItem) -> MowerNote:
    described = item.description
    return MowerNote(
        mower_id=item.mower_id,
        reason=f"{described.vendor} {described.serial} is in the account already, under another id"[:400],
    )


def _identity(item: InventoryItem) -> dict[str, Any]:
    return {"vendor": item.description.vendor, "serial": item.description.serial}


def _abilities(item: InventoryItem) -> dict[str, Any]:
    described = item.description
    areas = msgspec.json.encode(described.areas)
    if len(areas) > AREAS_BYTES:
        areas = msgspec.json.encode([msgspec.structs.replace(area, ring=()) for area in described.areas])
    return {
        "model": None if described.model is None else described.model[:200],
        "links": msgspec.json.encode(described.links).decode(),
        "areas": areas.decode(),
        "capabilities": msgspec.json.encode(item.capabilities).decode(),
    }
