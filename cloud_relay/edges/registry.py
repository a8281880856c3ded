"""The linked boxes: who they are, how they are doing, and the end of a link."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import sqlalchemy as sa
import structlog
from msgspec import UNSET
from sqlalchemy.ext.asyncio import AsyncConnection

from cloud_relay.broker.passwords import does_match
from cloud_relay.edges.facts import EdgeFacts
from cloud_relay.edges.presence import Presence
from cloud_relay.edges.tables import EDGES, LINK_REQUESTS
from cloud_relay.edges.views import EdgeChange, EdgeView
from cloud_relay.fleet.registrations import Registrar
from cloud_relay.fleet.sites import site_row
from cloud_relay.fleet.tables import MOWERS, REMOVED_MOWERS
from core.domain.clock import Clock
from core.domain.errors import NotFoundError, NotPublishedError, UnauthenticatedError, UnavailableError
from core.domain.ids import AccountId, EdgeId, MowerId, SiteId
from core.storage.relational import RelationalDatabase
from core.storage.telemetry_store import DirectoryEntry, TelemetryStore
from core.sync.linking import LinkEnd
from core.sync.messages import Status

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAccess:
    """The broker's door as the registry sees it; each raises UnavailableError when the broker cannot be told."""

    let_in: Callable[[EdgeId, str], Awaitable[None]]
    """Takes the box's password from now on, instead of any earlier one."""
    make_only: Callable[[Mapping[EdgeId, str | None]], Awaitable[frozenset[EdgeId]]]
    """Lets in these boxes (by their password hashes) and no others; names those that it has no password for."""
    throw_out: Callable[[EdgeId], Awaitable[None]]
    """Refuses the box from now on and ends its sessions at once."""
    clear: Callable[[EdgeId], Awaitable[None]]
    """Removes what the broker retains of the box."""


class EdgeRegistry:
    """The boxes of every account. `open` loads who is linked; that much stays in memory for the message path."""

    def __init__(
        self,
        *,
        database: RelationalDatabase,
        store: TelemetryStore,
        presence: Presence,
        registrar: Registrar,
        broker: BrokerAccess,
        clock: Clock,
        on_ended: Callable[[EdgeId], None],
    ) -> None:
        """`on_ended` hears of each box whose link is over."""
        self._on_ended = on_ended
        self._database = database
        self._store = store
        self._presence = presence
        self._registrar = registrar
        self._broker = broker
        self._clock = clock
        self._accounts: dict[EdgeId, AccountId] = {}
        self._is_door_stale = False

    async def open(self) -> None:
        """Loads who is linked."""
        rows = await self._linked_rows()
        self._accounts = {EdgeId(row.edge_id): AccountId(row.account_id) for row in rows}

    async def open_door(self) -> None:
        """Makes the broker's door agree with the links (a crash may have come between the two). UnavailableError
        when the broker cannot be told."""
        rows = await self._linked_rows()
        locked_out = await self._broker.make_only({EdgeId(row.edge_id): row.credential_hash for row in rows})
        self._is_door_stale = False
        for edge_id in sorted(locked_out):
            log.error("broker does not know a box, link it again", edge_id=edge_id)

    def doubt_door(self) -> None:
        """The broker could not be asked yet: `mend_door` has work to do."""
        self._is_door_stale = True

    async def mend_door(self) -> None:
        """`open_door`, if the broker could not be told of something. UnavailableError as there."""
        if self._is_door_stale:
            await self.open_door()

    def account_of(self, edge_id: EdgeId) -> AccountId | None:
        """Whose box it is; None for one that is not linked."""
        return self._accounts.get(edge_id)

    def linked(self) -> frozenset[EdgeId]:
        """All linked boxes."""
        return frozenset(self._accounts)

    async def admit(self, edge_id: EdgeId, account_id: AccountId, credential: str) -> None:
        """A box has been linked. NotFoundError when somebody has ended the link meanwhile."""
        self._accounts[edge_id] = account_id
        await self._broker.let_in(edge_id, credential)
        async with self._database.read() as connection:
            is_linked = await connection.scalar(sa.select(sa.exists().where(EDGES.c.edge_id == edge_id)))
        if not is_linked:
            self._accounts.pop(edge_id, None)
            await self._throw_out(edge_id)
            raise NotFoundError("the link has been ended")
        await self._registrar.publish(edge_id)

    async def take_status(self, edge_id: EdgeId, status: Status) -> None:
        """`up/status` of a box, or its last will."""
        if edge_id not in self._accounts:
            return
        was_online = self._presence.is_online(edge_id)
        if was_online:
            self._presence.touch(edge_id)
        self._presence.mark(edge_id, is_online=status.online)
        if was_online is not status.online:
            log.info("box connected" if status.online else "box disconnected", edge_id=edge_id)
            await self._keep_last_seen(edge_id)

    async def views(self, account_id: AccountId, site_ids: frozenset[str]) -> tuple[EdgeView, ...]:
        """The account's boxes at these sites, by name."""
        query = sa.select(EDGES).where(EDGES.c.account_id == account_id).order_by(EDGES.c.name, EDGES.c.edge_id)
        async with self._database.read() as connection:
            rows = (await connection.execute(query)).all()
        return tuple([await self._view(row) for row in rows if row.site_id in site_ids])

    async def view(self, account_id: AccountId, edge_id: EdgeId) -> EdgeView:
        """NotFoundError for another account's or none."""
        async with self._database.read() as connection:
            row = await edge_row(connection, account_id, edge_id)
        return await self._view(row)

    async def site_of(self, account_id: AccountId, edge_id: EdgeId) -> SiteId:
        """Where the box stands; NotFoundError for another account's or none."""
        async with self._database.read() as connection:
            return SiteId((await edge_row(connection, account_id, edge_id)).site_id)

    async def change(self, account_id: AccountId, edge_id: EdgeId, change: EdgeChange) -> None:
        """Renames or moves a box; NotFoundError for another account's site."""
        values: dict[str, Any] = {}
        if change.name is not UNSET:
            values["name"] = change.name.strip()
        async with self._database.write() as connection:
            await edge_row(connection, account_id, edge_id)
            if change.site_id is not UNSET:
                values["site_id"] = (await site_row(connection, account_id, change.site_id)).site_id
            if values:
                await connection.execute(EDGES.update().where(EDGES.c.edge_id == edge_id).values(**values))

    async def end(self, account_id: AccountId, edge_id: EdgeId) -> None:
        """Ends the link: the box is told, its credential no longer holds, its session ends at once. Its mowers stay
        with their history; the box goes on locally, and brings them back when it is linked to this account again."""
        async with self._database.write() as connection:
            row = await edge_row(connection, account_id, edge_id)
            mowers = (await connection.execute(sa.select(MOWERS).where(MOWERS.c.edge_id == edge_id))).all()
            change = MOWERS.update().where(MOWERS.c.edge_id == edge_id)
            await connection.execute(change.values(edge_id=None, setup_error=None))
            await connection.execute(REMOVED_MOWERS.delete().where(REMOVED_MOWERS.c.edge_id == edge_id))
            await connection.execute(LINK_REQUESTS.delete().where(LINK_REQUESTS.c.edge_id == edge_id))
            await connection.execute(EDGES.delete().where(EDGES.c.edge_id == edge_id))
        self._accounts.pop(edge_id, None)
        was_stale, self._is_door_stale = self._is_door_stale, True  # until the broker knows, whatever cuts this off
        log.info("box unlinked", account_id=account_id, edge_id=edge_id)
        await self._registrar.publish_end(edge_id, account_id, row.registrations_version + 1)
        if await self._throw_out(edge_id):
            self._is_door_stale = was_stale
        self._presence.forget(edge_id)
        self._on_ended(edge_id)
        await self._store.put_directory(
            [
                DirectoryEntry(mower_id=MowerId(m.mower_id), account_id=account_id, edge_id=None, name=m.name)
                for m in mowers
            ]
        )
        try:
            await self._broker.clear(edge_id)
        except NotPublishedError as err:  # it holds no secret, and nobody can read it any more
            log.warning("broker keeps what it retains of an unlinked box", edge_id=edge_id, error=err.detail)

    async def end_by_box(self, wish: LinkEnd) -> None:
        """The box ends the link. UnauthenticatedError when the credential does not hold (then it is over already)."""
        query = sa.select(EDGES.c.account_id, EDGES.c.credential_hash).where(EDGES.c.edge_id == wish.edge_id)
        async with self._database.read() as connection:
            row = (await connection.execute(query)).one_or_none()
        if row is None or row.credential_hash is None or not does_match(wish.credential, row.credential_hash):
            raise UnauthenticatedError("the credential does not hold")
        await self.end(AccountId(row.account_id), wish.edge_id)

    async def _throw_out(self, edge_id: EdgeId) -> bool:
        """Closes the broker's door; false when that has to be tried again."""
        try:
            await self._broker.throw_out(edge_id)
        except UnavailableError as err:  # what it says is refused here already; the door is mended soon
            self._is_door_stale = True
            log.error("broker cannot be told that a box is out, tried again", edge_id=edge_id, error=err.detail)
            return False
        return True

    async def _linked_rows(self) -> Sequence[sa.Row[Any, Any, Any]]:
        columns = (EDGES.c.edge_id, EDGES.c.account_id, EDGES.c.credential_hash)
        async with self._database.read() as connection:
            return (await connection.execute(sa.select(*columns).where(EDGES.c.credential_hash.is_not(None)))).all()

    async def _keep_last_seen(self, edge_id: EdgeId) -> None:
        seen_at = self._presence.seen_at(edge_id)
        if seen_at is not None:
            async with self._database.write() as connection:
                await connection.execute(EDGES.update().where(EDGES.c.edge_id == edge_id).values(last_seen_at=seen_at))

    async def _view(self, row: sa.Row[Any]) -> EdgeView:
        edge_id = EdgeId(row.edge_id)
        is_online = self._presence.is_online(edge_id)
        seen_at = self._clock.now() if is_online else self._presence.seen_at(edge_id) or row.last_seen_at
        view = EdgeView(
            edge_id=edge_id,
            name=row.name,
            site_id=row.site_id,
            linked_at=row.linked_at,
            is_online=is_online,
            last_seen_at=seen_at,
        )
        if row.facts is None:
            return view
        facts = msgspec.json.decode(row.facts, type=EdgeFacts)
        stored = await self._store.watermark(edge_id, facts.stream_id)
        return msgspec.structs.replace(
            view,
            mowdeck_version=facts.mowdeck_version,
            wire_version=facts.wire_version,
            clock_skew_s=facts.clock_skew_s,
            is_clock_synchronised=facts.is_clock_synchronised,
            has_emergency_lane=facts.has_emergency_lane,
            backlog_rows=max(0, facts.last_seq - (facts.acked_seq if stored is None else stored)),
            failed_registrations=facts.failed,
            duplicate_serials=facts.duplicates,
            refused_mowers=facts.refused,
            notices=facts.notices,
        )


async def edge_row(connection: AsyncConnection, account_id: AccountId, edge_id: EdgeId) -> sa.Row[Any]:
    """The box's row; NotFoundError for another account's or none."""
    query = sa.select(EDGES).where(EDGES.c.edge_id == edge_id, EDGES.c.account_id == account_id)
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        raise NotFoundError("no such box")
    return row
