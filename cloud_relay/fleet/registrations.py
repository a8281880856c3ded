"""What a box hears about its mowers: the whole list, retained, with a version that only grows."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import sqlalchemy as sa
import structlog

from cloud_relay.edges.tables import EDGES
from cloud_relay.fleet.entered_records import EnteredRecords
from cloud_relay.fleet.tables import MOWERS, REMOVED_MOWERS, SITES
from core.domain.clock import Clock
from core.domain.errors import MowdeckError, NotPublishedError
from core.domain.ids import AccountId, EdgeId, MowerId
from core.storage.relational import RelationalDatabase
from core.sync.messages import Registration, Registrations

log = structlog.get_logger(__name__)

Publish = Callable[[EdgeId, Registrations], Awaitable[None]]
"""Puts the message on `down/registrations`, retained. NotPublishedError when the broker is away."""


class Registrar:
    """Publishes the list of a box after each change. One publish at a time per box, so that an older list never
    replaces a newer one; a list that could not leave is sent at the next hello or reconnection."""

    def __init__(
        self, *, database: RelationalDatabase, clock: Clock, publish: Publish, entered: EnteredRecords | None = None
    ) -> None:
        self._database = database
        self._entered = entered
        self._clock = clock
        self._publish = publish
        self._turns: defaultdict[EdgeId, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._published: set[EdgeId] = set()
        self._waiting: set[EdgeId] = set()

    async def publish(self, edge_id: EdgeId) -> None:
        """Sends the current list under a new version. A broker that is away is no error of the change."""
        async with self._turns[edge_id]:
            message = await self._with_entered(await self._build(edge_id))
            if message is None:
                self._waiting.discard(edge_id)
            else:
                await self._send(edge_id, message)

    async def publish_entered(self, _account_id: AccountId, mower_id: MowerId) -> None:
        """Something was entered about a mower: its box is told. While that cannot be done it is told at its next
        hello."""
        query = sa.select(MOWERS.c.edge_id).where(MOWERS.c.mower_id == mower_id)
        try:
            async with self._database.read() as connection:
                edge_id = await connection.scalar(query)
            if edge_id is not None:
                self._published.discard(edge_id)
                await self.publish(edge_id)
        except MowdeckError as err:
            log.warning("a box hears later of what was entered", mower_id=mower_id, detail=err.detail)

    async def ensure_published(self, edge_id: EdgeId) -> None:
        """Sends the list unless this process has done so since the broker was last lost."""
        if edge_id not in self._published:
            await self.publish(edge_id)

    async def on_broker_connected(self) -> None:
        """The broker was away: what could not leave leaves now, and what it may have forgotten is said again at
        each box's next hello (a broker that lost its memory has lost its connections, too)."""
        self._published.clear()
        for edge_id in sorted(self._waiting):
            await self.publish(edge_id)

    async def publish_end(self, edge_id: EdgeId, account_id: AccountId, version: int) -> None:
        """Tells the box that its link has been ended."""
        message = Registrations(
            version=version, account_id=account_id, sent_at=self._clock.now(), mowers=(), is_linked=False
        )
        async with self._turns[edge_id]:
            await self._send(edge_id, message)
            self._published.discard(edge_id)
            self._waiting.discard(edge_id)
        self._turns.pop(edge_id, None)

    async def _send(self, edge_id: EdgeId, message: Registrations) -> None:
        try:
            await self._publish(edge_id, message)
        except NotPublishedError:
            self._published.discard(edge_id)
            self._waiting.add(edge_id)
            log.warning("registrations wait for the broker", edge_id=edge_id, version=message.version)
        else:
            self._published.add(edge_id)
            self._waiting.discard(edge_id)

    async def _with_entered(self, message: Registrations | None) -> Registrations | None:
        if message is None or self._entered is None:
            return message
        mowers = [
            msgspec.structs.replace(mower, entered=await self._entered.of_mower(mower.account_id, mower.mower_id))
            for mower in message.mowers
        ]
        return msgspec.structs.replace(message, mowers=tuple(mowers))

    async def _build(self, edge_id: EdgeId) -> Registrations | None:
        async with self._database.write() as connection:
            bump = EDGES.update().where(EDGES.c.edge_id == edge_id)
            await connection.execute(bump.values(registrations_version=EDGES.c.registrations_version + 1))
            edge = (await connection.execute(sa.select(EDGES).where(EDGES.c.edge_id == edge_id))).one_or_none()
            if edge is None:
                return None
            mowers = await connection.execute(
                sa.select(MOWERS, SITES.c.time_zone)
                .join(SITES, SITES.c.site_id == MOWERS.c.site_id)
                .where(MOWERS.c.edge_id == edge_id)
                .order_by(MOWERS.c.mower_id)
            )
            removed = await connection.execute(
                sa.select(REMOVED_MOWERS.c.mower_id).where(REMOVED_MOWERS.c.edge_id == edge_id)
            )
            return Registrations(
                version=edge.registrations_version,
                account_id=edge.account_id,
                sent_at=self._clock.now(),
                mowers=tuple(_registration(row) for row in mowers),
                removed=tuple(MowerId(row.mower_id) for row in removed),
            )


def _registration(row: sa.Row[Any]) -> Registration:
    return Registration(
        mower_id=row.mower_id,
        account_id=row.account_id,
        name=row.name,
        site_id=row.site_id,
        time_zone=row.time_zone,
        domain=row.domain,
        connection=None if row.connection is None else msgspec.json.decode(row.connection),
    )
