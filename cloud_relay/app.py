"""The relay's composition root: every part is made here and handed what it needs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from importlib.metadata import version
from typing import Any

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry

from cloud_relay.broker.port import Broker
from cloud_relay.broker_choice import make_broker
from cloud_relay.care import Chore, run_chores
from cloud_relay.commands.cancellations import Cancellations
from cloud_relay.commands.ledger import CommandLedger
from cloud_relay.commands.service import CommandService
from cloud_relay.commands.tenure import Tenure
from cloud_relay.driving import RelayDriveHost
from cloud_relay.edges import box_offline
from cloud_relay.edges.links import Endpoint, Links
from cloud_relay.edges.presence import Presence
from cloud_relay.edges.registry import BrokerAccess, EdgeRegistry
from cloud_relay.edges.signing_key import SigningKey, load_signing_key
from cloud_relay.fleet.catalog import FleetCatalog
from cloud_relay.fleet.entered_records import EnteredRecords
from cloud_relay.fleet.groups import Groups
from cloud_relay.fleet.hierarchy import Hierarchy
from cloud_relay.fleet.inventory import Inventory
from cloud_relay.fleet.mowers import Mowers
from cloud_relay.fleet.registrations import Registrar
from cloud_relay.fleet.rights import Rights
from cloud_relay.fleet.sites import Sites
from cloud_relay.gateway import Gateway
from cloud_relay.ingest.ingest import Ingest, Listeners
from cloud_relay.outgoing import Outgoing
from cloud_relay.people import open_people
from cloud_relay.process import ending_by_signal, failures_of
from cloud_relay.routes import RouteParts, relay_routes
from cloud_relay.settings import RelaySettings
from cloud_relay.telemetry import open_telemetry
from core.access.people import People
from core.access.tuples import TupleWriter
from core.domain.clock import Clock, SystemClock
from core.domain.commands import CommandResult
from core.domain.errors import UnavailableError
from core.domain.events import MowerEvent
from core.domain.ids import AccountId, EdgeId, MowerId, StreamId, UserId
from core.storage.data_folder import open_data_folder
from core.storage.retention_metrics import RetentionMetrics
from core.storage.sqlite_store import SqliteTelemetryStore
from core.storage.thinning_metrics import ThinningMetrics
from core.storage.thinning_rounds import BUDGET_S, EVERY_S, ThinningRounds
from core.web.application import build_application
from core.web.drive_desk import DrivingDesk
from core.web.host_routes import HostInfo
from core.web.realtime.hub import RealtimeHub
from core.web.route import Route
from core.web.serving import announced, bind, serve, url_of

log = structlog.get_logger(__name__)

VERSION = version("mowdeck")
BROKER_START_S = 20.0
"""The relay's own broker has this long to start; an external one may come later."""

Started = Callable[["Relay"], Awaitable[None]]


async def run(settings: RelaySettings, *, on_started: Started | None = None) -> None:
    """Runs the relay until SIGTERM or SIGINT (a second one does not wait for open requests). MowdeckError when it
    cannot start or go on. `on_started` is called once it serves; tests drive it from there."""
    try:
        await _run(settings, on_started)
    except BaseExceptionGroup as group:
        failure = next(failures_of(group), None)
        if failure is None:
            raise
        raise failure from group


async def _run(settings: RelaySettings, on_started: Started | None) -> None:
    async with AsyncExitStack() as stack:
        clock = SystemClock()
        stack.enter_context(open_data_folder(settings.data_dir, "relay"))
        sock = bind(settings.listen_host, settings.listen_port, section="relay")
        stack.callback(sock.close)
        key = await asyncio.to_thread(load_signing_key, settings.data_dir / "command-key.pem")
        people = await stack.enter_async_context(open_people(settings, clock))
        store = await stack.enter_async_context(open_telemetry(settings, clock))
        relay_url = settings.public_url or url_of(sock)
        broker = make_broker(settings, relay_url=relay_url, clock=clock)
        relay = Relay(settings, clock, people, store, broker, key, relay_url)
        ending = ending_by_signal()
        async with asyncio.TaskGroup() as group:
            tasks = await relay.start(group)
            async with serve(relay.application(), sock):
                address = {"url": url_of(sock), "broker": {"host": broker.address.host, "port": broker.address.port}}
                with announced(settings.address_path, address):
                    log.info("the relay is up", url=relay_url, version=VERSION)
                    if on_started is not None:
                        await on_started(relay)
                    else:
                        await ending.wait()
                    log.info("the relay is ending")
            for task in reversed(tasks):
                task.cancel()
                await asyncio.wait({task})


class Relay:
    """The parts of one running relay."""

    def __init__(
        self,
        settings: RelaySettings,
        clock: Clock,
        people: People,
        store: SqliteTelemetryStore,
        broker: Broker,
        key: SigningKey,
        relay_url: str,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._people = people
        self._store = store
        self._broker = broker
        self._key = key
        self._metrics = CollectorRegistry()
        self._hub = RealtimeHub(clock=clock, registry=self._metrics)
        self._presence = Presence(clock)
        self._outgoing = Outgoing(lambda: self._gateway)
        self._rights = Rights(people.authorizer)
        self._hierarchy = Hierarchy(TupleWriter("fleet"), people.grants_changed.notify)
        self._sites = Sites(database=people.database, hierarchy=self._hierarchy, clock=clock)
        self._groups = Groups(database=people.database, hierarchy=self._hierarchy, clock=clock)
        self._registrar = Registrar(
            database=people.database,
            clock=clock,
            publish=self._outgoing.registrations,
            entered=EnteredRecords(store.records),
        )
        self._mowers = self._make_mowers()
        self._inventory = self._make_inventory()
        self._catalog = FleetCatalog(database=people.database, is_online=self._presence.is_online)
        self.registry = self._make_registry()
        self._links = Links(
            database=people.database,
            sites=self._sites,
            clock=clock,
            endpoint=Endpoint(relay_url=relay_url, broker=lambda: broker.advertised, relay_keys=(key.jwk(),)),
            admit=self.registry.admit,
        )
        self._ledger = CommandLedger(people.database)
        self._drive_host = RelayDriveHost(ledger=self._ledger, key=key, publish=self._outgoing.drive, clock=clock)
        self._drives = DrivingDesk(host=self._drive_host, authorizer=people.authorizer, clock=clock)
        self._tenure = Tenure(people.rights, people.identity.sessions.find_ended)
        self._desk = self._make_desk()
        self._cancellations = Cancellations(
            ledger=self._ledger, tenure=self._tenure, key=key, publish=self._outgoing.cancel, clock=clock
        )
        self._ingest = self._make_ingest()
        self._gateway = Gateway(
            address=broker.address,
            credential=broker.relay_credential,
            handlers=self._ingest.handlers,
            clock=clock,
            registry=self._metrics,
            wait_for_broker=broker.wait_ready,
            on_connected=self._on_broker_connected,
        )
        self._thinning = ThinningRounds(
            thinner=store.thinner,
            clock=clock,
            window=settings.thinning_hours,
            detail=timedelta(days=settings.detail_days),
            metrics=ThinningMetrics(self._metrics),
        )
        self._retention = RetentionMetrics(self._metrics)
        self._box_offline = box_offline.BoxOffline(store=store, clock=clock, is_online=self._presence.is_online)
        self._subscribe()

    # -- parts

    def _make_mowers(self) -> Mowers:
        return Mowers(
            database=self._people.database,
            hierarchy=self._hierarchy,
            store=self._store,
            registrar=self._registrar,
            clock=self._clock,
            on_removed=self._hub.forget,
        )

    def _make_inventory(self) -> Inventory:
        return Inventory(
            database=self._people.database,
            hierarchy=self._hierarchy,
            store=self._store,
            registrar=self._registrar,
            clock=self._clock,
        )

    def _make_registry(self) -> EdgeRegistry:
        broker = self._broker
        return EdgeRegistry(
            database=self._people.database,
            store=self._store,
            presence=self._presence,
            registrar=self._registrar,
            broker=BrokerAccess(
                let_in=broker.put_edge,
                make_only=broker.sync_edges,
                throw_out=broker.remove_edge,
                clear=self._outgoing.clear_retained,
            ),
            clock=self._clock,
            on_ended=self._forget_edge,
        )

    def _make_desk(self) -> CommandService:
        return CommandService(
            ledger=self._ledger,
            catalog=self._catalog,
            tenure=self._tenure,
            key=self._key,
            publish=self._outgoing.command,
            publish_stop=self._outgoing.stop,
            announce=self._announce_result,
            clock=self._clock,
        )

    def _make_ingest(self) -> Ingest:
        return Ingest(
            store=self._store,
            account_of=self.registry.account_of,
            listeners=Listeners(
                on_hello=self._inventory.take,
                on_status=self.registry.take_status,
                on_result=self._desk.take_result,
                publish_state=self._hub.publish_state,
                on_event=self._publish_event,
            ),
            publish_ack=self._outgoing.ack,
            clock=self._clock,
            registry=self._metrics,
        )

    # -- life

    async def start(self, group: asyncio.TaskGroup) -> list[asyncio.Task[Any]]:
        """Starts every task, in order; they are ended in the opposite one. MowdeckError when a part cannot start."""
        await self.registry.open()
        await self._mowers.reconcile_directory()
        broker = group.create_task(self._broker.run(), name="broker")
        await self._await_broker(broker)
        return [
            broker,
            group.create_task(self._gateway.run(), name="gateway"),
            group.create_task(self._desk.run(), name="command desk"),
            group.create_task(self._cancellations.run(), name="cancellations"),
            group.create_task(self._ingest.run(), name="ingest"),
            group.create_task(run_chores(self._chores()), name="chores"),
        ]

    async def _await_broker(self, running: asyncio.Task[Any]) -> None:
        """Until boxes can connect. A broker of the relay's own must come up; for an external one the rest does not
        wait: people see what there is, and commands say that they were not published."""
        try:
            async with asyncio.timeout(BROKER_START_S):
                await self._broker.wait_ready()
                await self.registry.open_door()
        except TimeoutError as err:
            if self._settings.broker == "embedded":
                running.cancel()
                raise UnavailableError(f"the broker did not start within {BROKER_START_S:.0f} s") from err
            self.registry.doubt_door()
            log.error("the broker is away, going on without it", host=self._settings.broker_host)

    def _chores(self) -> tuple[Chore, ...]:
        hour_s = 3600.0
        return (
            Chore(name="silent commands", every_s=5, work=self._desk.sweep),
            Chore(name="lost rights", every_s=5, work=self._cancellations.check),
            Chore(name="broker's door", every_s=10, work=self.registry.mend_door),
            Chore(name="boxes that are away", every_s=box_offline.EVERY_S, work=self._box_offline.check),
            Chore(name="link requests", every_s=60, work=self._links.tidy),
            Chore(name="old commands", every_s=hour_s, work=self._retain_commands),
            Chore(name="sign-ins", every_s=hour_s, work=self._people.identity.sweep),
            Chore(name="telemetry retention", every_s=600, work=self._retain_telemetry, limit_s=600),
            Chore(name="thinning", every_s=EVERY_S, work=self._thinning.round, limit_s=2 * BUDGET_S),
        )

    async def _retain_commands(self) -> None:
        await self._ledger.retain(self._clock.now())

    async def _retain_telemetry(self) -> None:
        with self._retention.timed("age"):
            deleted = await self._store.retain(self._clock.now())
        self._retention.count(deleted, reason="age")

    # -- the API

    def application(self) -> web.Application:
        """The relay's API."""
        people = self._people
        return build_application(
            self.routes(),
            verifier=people.identity,
            authorizer=people.authorizer,
            clock=self._clock,
            host=HostInfo(kind="relay", version=VERSION, name="Mowdeck relay", features=("register", "link")),
            trusted_proxies=self._settings.trusted_proxies,
            ready_checks={
                "people": people.authorizer.ping,
                "telemetry": self._check_store,
                "broker": self._check_broker,
            },
            registry=self._metrics,
            metrics_token=self._settings.metrics_token,
            on_shutdown=[self._hub.close],
        )

    def routes(self) -> list[Route]:
        """Every route but the host's own."""
        parts = RouteParts(
            people=self._people,
            store=self._store,
            clock=self._clock,
            hub=self._hub,
            rights=self._rights,
            sites=self._sites,
            groups=self._groups,
            mowers=self._mowers,
            catalog=self._catalog,
            desk=self._desk,
            drives=self._drives,
            links=self._links,
            registry=self.registry,
            on_entered=self._registrar.publish_entered,
        )
        return relay_routes(parts)

    async def _check_store(self) -> None:
        """One look-up by key: anybody may ask for readiness, as often as they like."""
        await self._store.watermark(EdgeId("none"), StreamId("none"))

    async def _on_broker_connected(self) -> None:
        """What the broker retained may be lost, and boxes that were back first said hello to nobody."""
        await self._registrar.on_broker_connected()
        await self._ingest.call_boxes()

    async def _check_broker(self) -> None:
        if not self._gateway.is_connected:
            raise UnavailableError("no connection to the broker")

    # -- who hears of what

    def _subscribe(self) -> None:
        def sign_out(ended: frozenset[str] | None) -> None:
            self._hub.sign_out(lambda who: ended is None or who.session_id in ended)

        def changed(subjects: frozenset[str] | None) -> None:
            self._hub.grants_changed(None if subjects is None else {UserId(one) for one in subjects})

        for notifier, listener in ((self._people.grants_changed, changed), (self._people.sessions_ended, sign_out)):
            notifier.subscribe(listener)
            notifier.subscribe(self._cancellations.recheck)
        self._store.records.subscribe(self._hub.publish_records)

    def _announce_result(self, account_id: AccountId, result: CommandResult) -> None:
        self._drive_host.note_result(result)
        self._hub.publish_result(account_id, result)

    async def _publish_event(
        self, _edge_id: EdgeId, account_id: AccountId, mower_id: MowerId, event: MowerEvent
    ) -> None:
        self._hub.publish_event(account_id, mower_id, event)

    def _forget_edge(self, edge_id: EdgeId) -> None:
        self._ingest.forget(edge_id)
