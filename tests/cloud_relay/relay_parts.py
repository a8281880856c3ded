"""The relay's parts over a real database, with the broker's door and the telemetry store's directory as fakes."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from cloud_relay.commands.cancellations import Cancellations
from cloud_relay.commands.ledger import CommandLedger
from cloud_relay.commands.service import CommandService
from cloud_relay.commands.tenure import Tenure
from cloud_relay.edges.links import Endpoint, Links
from cloud_relay.edges.presence import Presence
from cloud_relay.edges.registry import BrokerAccess, EdgeRegistry
from cloud_relay.edges.signing_key import SigningKey, load_signing_key
from cloud_relay.edges.views import LinkConfirmation
from cloud_relay.fleet.catalog import FleetCatalog
from cloud_relay.fleet.groups import Groups
from cloud_relay.fleet.hierarchy import Hierarchy
from cloud_relay.fleet.inventory import Inventory
from cloud_relay.fleet.mowers import Mowers
from cloud_relay.fleet.registrations import Registrar
from cloud_relay.fleet.rights import Rights
from cloud_relay.fleet.sites import Sites
from core.access.sql_authorizer import SqlAuthorizer
from core.access.tuples import TupleWriter
from core.domain.access import Grant, ObjectRef, ObjectType
from core.domain.capabilities import Capabilities, Range, Simple, Start
from core.domain.commands import CommandResult
from core.domain.errors import NotPublishedError
from core.domain.ids import AccountId, BootId, EdgeId, EntryId, MowerId, StreamId, UserId, make_id
from core.domain.mower import Area, LinkKind, MowerDescription
from core.identity.principal import Principal
from core.storage.relational import METADATA, RelationalDatabase, sqlite_url
from core.storage.telemetry_store import DirectoryEntry
from core.sync.linking import BrokerAddress, LinkGrant, LinkRequest
from core.sync.messages import FailedRegistration, Hello, InventoryItem, Registrations
from tests.fakes.clock import ManualClock

ABILITIES = Capabilities(
    start_mow=Start(takes_areas=True, max_duration_s=7200),
    pause_mow=Simple(),
    return_to_dock=Simple(),
    emergency_stop=Simple(),
    set_blade_height=Range(minimum=20, maximum=60),
)


class FakeStore:
    """The directory half of a TelemetryStore."""

    def __init__(self) -> None:
        self.entries: dict[str, DirectoryEntry] = {}
        self.purged: list[str] = []
        self.watermarks: dict[tuple[str, str], int] = {}

    async def put_directory(self, entries: Sequence[DirectoryEntry]) -> None:
        self.entries |= {entry.mower_id: entry for entry in entries}

    async def directory(self) -> Sequence[DirectoryEntry]:
        return list(self.entries.values())

    async def purge_mower(self, mower_id: MowerId) -> None:
        self.entries.pop(mower_id, None)
        self.purged.append(mower_id)

    async def watermark(self, edge_id: EdgeId, stream_id: StreamId) -> int | None:
        return self.watermarks.get((edge_id, stream_id))


class FakeBroker:
    """What left the relay and who may enter the broker; `is_away` refuses everything."""

    def __init__(self) -> None:
        self.is_away = False
        self.is_stop_lane_away = False
        self.refusals = 0
        self.credentials: dict[str, str] = {}
        self.log: list[tuple[str, str]] = []
        self.registrations: dict[str, Registrations] = {}
        self.sent: list[tuple[str, str, bytes]] = []
        self.cancelled: list[tuple[str, str, bytes]] = []

    async def publish_registrations(self, edge_id: EdgeId, message: Registrations) -> None:
        self._demand()
        self.registrations[edge_id] = message
        self.log.append(("registrations", edge_id))

    async def publish(self, edge_id: EdgeId, mower_id: MowerId, data: bytes) -> None:
        self._demand()
        self.sent.append(("command", mower_id, data))

    async def publish_stop(self, edge_id: EdgeId, mower_id: MowerId, data: bytes) -> None:
        if self.is_stop_lane_away:
            raise NotPublishedError("the stop lane is away")
        self._demand()
        self.sent.append(("stop", mower_id, data))

    async def publish_cancel(self, edge_id: EdgeId, mower_id: MowerId, data: bytes) -> None:
        self._demand()
        self.cancelled.append((edge_id, mower_id, data))

    async def let_in(self, edge_id: EdgeId, credential: str) -> None:
        self.credentials[edge_id] = credential
        self.log.append(("let_in", edge_id))

    async def make_only(self, edges: Mapping[EdgeId, str | None]) -> frozenset[EdgeId]:
        self._demand()
        self.credentials = {edge_id: word for edge_id, word in self.credentials.items() if edge_id in edges}
        return frozenset(edges).difference(self.credentials)

    async def throw_out(self, edge_id: EdgeId) -> None:
        self._demand()
        self.credentials.pop(edge_id, None)
        self.log.append(("throw_out", edge_id))

    async def clear(self, edge_id: EdgeId) -> None:
        self._demand()
        self.registrations.pop(edge_id, None)
        self.log.append(("clear", edge_id))

    def _demand(self) -> None:
        if self.is_away:
            self.refusals += 1
            raise NotPublishedError("the broker is away")


@dataclass
class Parts:
    """Everything below the web, wired as `app.py` wires it."""

    clock: ManualClock
    database: RelationalDatabase
    store: FakeStore
    broker: FakeBroker
    presence: Presence
    hierarchy: Hierarchy
    sites: Sites
    groups: Groups
    registrar: Registrar
    mowers: Mowers
    inventory: Inventory
    catalog: FleetCatalog
    registry: EdgeRegistry
    links: Links
    ledger: CommandLedger
    desk: CommandService
    cancellations: Cancellations
    key: SigningKey
    authorizer: SqlAuthorizer
    rights: Rights
    announced: list[tuple[AccountId, CommandResult]] = field(default_factory=list)
    ended: set[str] = field(default_factory=set)
    """Sessions that have ended."""

    async def person(
        self, account_id: str, grants: frozenset[Grant] = frozenset(Grant), level: ObjectRef | None = None
    ) -> Principal:
        """Somebody with these grants on the level (the account when not said)."""
        subject = UserId(make_id(self.clock.now()))
        account = AccountId(account_id)
        async with self.database.write() as connection:
            await TupleWriter(owner="identity").grant(
                connection,
                account_id=account,
                assignment_id=make_id(self.clock.now()),
                subject=subject,
                held=grants,
                level=level or ObjectRef(type=ObjectType.ACCOUNT, id=account_id),
            )
        return Principal(
            subject=subject,
            account_id=account,
            kind="user",
            name="somebody",
            session_id="s",
            expires_at=self.clock.now() + timedelta(days=1),
        )

    async def link(self, who: Principal, fingerprint: str = "box-fingerprint-1") -> LinkGrant:
        """A linked box of the person's account."""
        offer = await self.links.request(LinkRequest(name="Shed", version="1.0", fingerprint=fingerprint), "10.0.0.1")
        await self.links.confirm(who, offer.user_code, LinkConfirmation())
        answer = await self.links.poll(offer.device_code)
        assert isinstance(answer, LinkGrant)
        return answer


def item(
    mower_id: str, serial: str = "S1", *, name: str = "Shaun", abilities: Capabilities = ABILITIES
) -> InventoryItem:
    """A mower in a box's inventory."""
    return InventoryItem(
        mower_id=MowerId(mower_id),
        description=MowerDescription(
            vendor="acme",
            serial=serial,
            name=name,
            model="A1",
            links=(LinkKind.SIM,),
            areas=(Area(area_id="front", name="Front"),),
        ),
        capabilities=abilities,
        entry_id=EntryId("e1"),
    )


def hello(
    clock: ManualClock, *items: InventoryItem, failed: tuple[FailedRegistration, ...] = (), **changes: object
) -> Hello:
    """A box's hello."""
    values: dict[str, object] = {
        "wire_version": 1,
        "mowdeck_version": "0.1.0",
        "boot_id": BootId("boot"),
        "sent_at": clock.now(),
        "is_clock_synchronised": True,
        "stream_id": StreamId("stream"),
        "first_seq": 1,
        "last_seq": 0,
        "acked_seq": 0,
        "mowers": items,
        "failed_registrations": failed,
    }
    return Hello(**(values | changes))


@contextlib.asynccontextmanager
async def relay_parts(folder: Path) -> AsyncIterator[Parts]:
    """The parts over a database in `folder`."""
    clock = ManualClock()
    database = RelationalDatabase(sqlite_url(folder / "relay.sqlite3"))
    await database.open(METADATA)
    store, broker = FakeStore(), FakeBroker()
    presence = Presence(clock)
    hierarchy = Hierarchy(TupleWriter(owner="fleet"), lambda _: None)
    sites = Sites(database=database, hierarchy=hierarchy, clock=clock)
    registrar = Registrar(database=database, clock=clock, publish=broker.publish_registrations)
    catalog = FleetCatalog(database=database, is_online=presence.is_online)
    registry = EdgeRegistry(
        database=database,
        store=store,
        presence=presence,
        registrar=registrar,
        broker=BrokerAccess(
            let_in=broker.let_in, make_only=broker.make_only, throw_out=broker.throw_out, clear=broker.clear
        ),
        clock=clock,
        on_ended=lambda _: None,
    )
    key = load_signing_key(folder / "command.key")
    ledger = CommandLedger(database)
    authorizer = SqlAuthorizer(database, clock)
    announced: list[tuple[AccountId, CommandResult]] = []
    ended: set[str] = set()

    async def find_ended(sessions: Collection[str]) -> frozenset[str]:
        return frozenset(ended & set(sessions))

    tenure = Tenure(authorizer, find_ended)
    common = {"database": database, "hierarchy": hierarchy, "clock": clock}
    parts = Parts(
        clock=clock,
        database=database,
        store=store,
        broker=broker,
        presence=presence,
        hierarchy=hierarchy,
        sites=sites,
        groups=Groups(**common),
        registrar=registrar,
        mowers=Mowers(**common, store=store, registrar=registrar, on_removed=lambda _: None),
        inventory=Inventory(**common, store=store, registrar=registrar),
        catalog=catalog,
        registry=registry,
        links=Links(
            database=database,
            sites=sites,
            clock=clock,
            endpoint=Endpoint(
                relay_url="https://relay.example",
                broker=lambda: BrokerAddress(host="relay.example", port=8883, tls=True),
                relay_keys=(key.jwk(),),
            ),
            admit=registry.admit,
        ),
        ledger=ledger,
        desk=CommandService(
            ledger=ledger,
            catalog=catalog,
            tenure=tenure,
            key=key,
            publish=broker.publish,
            publish_stop=broker.publish_stop,
            announce=lambda account_id, result: announced.append((account_id, result)),
            clock=clock,
        ),
        cancellations=Cancellations(ledger=ledger, tenure=tenure, key=key, publish=broker.publish_cancel, clock=clock),
        key=key,
        authorizer=authorizer,
        rights=Rights(authorizer),
        announced=announced,
        ended=ended,
    )
    try:
        yield parts
    finally:
        await database.close()
