"""The box's composition root: every part is made here and handed what it needs."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Sequence
from contextlib import AsyncExitStack
from importlib.metadata import version
from typing import Any

import aiohttp
import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry

from core.domain.clock import Clock, SystemClock
from core.domain.commands import CommandResult
from core.domain.errors import MowdeckError
from core.domain.events import MowerEvent
from core.domain.ids import AccountId, EdgeId, EntryId, MowerId, UserId, make_id
from core.domain.mower import MowerState
from core.mqtt.session import BrokerAddress
from core.storage.data_folder import open_data_folder
from core.storage.row_metrics import RowMetrics
from core.sync.linking import LinkGrant
from core.sync.messages import Registrations
from core.telemetry.rows import RecordRow
from core.web.application import build_application
from core.web.host_routes import HostInfo
from core.web.ports import LiveState
from core.web.realtime.hub import RealtimeHub
from core.web.serving import announced, bind, serve, url_of
from edge_agent.alerting import make_alerting
from edge_agent.announcement import Announced, Announcement
from edge_agent.box_report import BoxReport
from edge_agent.clock.keeper import ClockKeeper
from edge_agent.clock.kernel import read_boot_id, read_kernel_quality
from edge_agent.commanding import make_commanding
from edge_agent.handover.handover_desk import HandoverDesk
from edge_agent.household.link_views import LinkBoard
from edge_agent.household.mower_keeper import MowerKeeper
from edge_agent.household.registrations import FleetRegistrations
from edge_agent.household.roster import Roster
from edge_agent.linking.link_desk import LinkDesk
from edge_agent.linking.link_store import LinkStore, StoredLink
from edge_agent.people import People, open_people
from edge_agent.plugins import Plugins, open_plugins
from edge_agent.recorder.night_thinning import make_night_thinning
from edge_agent.recorder.recorder import Recorder
from edge_agent.recorder.storage_care import StorageCare
from edge_agent.routes import RouteParts, edge_routes
from edge_agent.runtime.drive_desk import take_drive_message
from edge_agent.runtime.intake import Intake
from edge_agent.runtime.live import LiveStates
from edge_agent.runtime.supervisor import Supervisor
from edge_agent.runtime.ticket import Source
from edge_agent.settings import EdgeSettings
from edge_agent.telemetry import Telemetry, open_telemetry
from edge_agent.uplink.facts import BoxFacts
from edge_agent.uplink.relay_line import RelayLine
from edge_agent.uplink.uplink import Uplink

log = structlog.get_logger(__name__)

VERSION = version("mowdeck")


async def run(settings: EdgeSettings, ending: asyncio.Event) -> None:
    """Runs the box until `ending` is set. MowdeckError when it cannot start."""
    async with AsyncExitStack() as stack:
        stack.enter_context(open_data_folder(settings.data_dir, "box"))
        sock = bind(settings.listen_host, settings.listen_port, section="edge")
        stack.callback(sock.close)
        wall = SystemClock()
        people = await stack.enter_async_context(open_people(settings, wall))
        telemetry = await stack.enter_async_context(open_telemetry(settings, wall))
        plugins = await stack.enter_async_context(open_plugins(settings, wall))
        box = _Box(settings, wall, people, plugins, telemetry)
        async with asyncio.TaskGroup() as group:
            tasks = box.start(group, sock.getsockname()[1])
            async with serve(box.application(people), sock):
                with announced(settings.address_path, {"url": url_of(sock)}):
                    log.info("the box is up", url=url_of(sock), version=VERSION)
                    await ending.wait()
                    log.info("the box is ending")
            await box.wind_down()
            for task in reversed(tasks):
                task.cancel()


class _Box:
    """The parts of one running box; only `run` uses it."""

    def __init__(
        self, settings: EdgeSettings, wall: Clock, people: People, plugins: Plugins, telemetry: Telemetry
    ) -> None:
        self.settings = settings
        self.people = people
        self.plugins = plugins
        self.store, self.gardens = telemetry.store, telemetry.gardens
        self.metrics = CollectorRegistry()
        self.clock = ClockKeeper(
            wall, read_quality=read_kernel_quality, trust="always" if settings.trust_clock else "kernel"
        )
        self.boot_id = read_boot_id(otherwise=lambda: make_id(wall.now()))
        self.links = LinkStore(settings.data_dir)
        self.identity = self.links.identity()
        self.hub = RealtimeHub(clock=self.clock)
        self.live = LiveStates(account_id=people.account.require)
        self.recorder = Recorder(
            store=self.store,
            clock=self.clock,
            boot_id=self.boot_id,
            account_id=people.account.require,
            on_written=RowMetrics(self.metrics).note_written,
            on_commit=lambda: self.line.on_growth(),  # noqa: PLW0108  (the line is made later)
        )
        on_change = lambda: self.line.on_inventory()  # noqa: E731, PLW0108  (the line is made later)
        self.care = StorageCare(self.settings, self.store, self.clock, self.metrics, on_change)
        self.intake = Intake(
            clock=self.clock,
            state_sinks=(self.live.put, self.recorder.put, self._show_state, self._lift_state),
            event_sinks=(self._show_event, self._lift_event),
        )
        self.supervisor = Supervisor(
            intake=self.intake,
            clock=self.clock,
            rng=random.Random(secrets.randbits(64)),
            on_change=lambda status: self.keeper.note_door(status),  # noqa: PLW0108  (the keeper is made later)
        )
        self.roster = Roster(plugins.registry, plugins.entries, people.account, LinkBoard(self.supervisor))
        commanding = make_commanding(
            ledger=self.store.command_ledger,
            clock=self.clock,
            live=self.live,
            supervisor=self.supervisor,
            account_of=self._account_of,
            edge_id=lambda: EdgeId(self.identity.announced_id),
            capabilities=self.roster.capabilities,
            areas=self.roster.areas,
            authorizer=people.authorizer,
            on_result=self._on_result,
        )
        self.commander, self.desk, self.drives = commanding.commander, commanding.desk, commanding.drives
        self._make_line()
        self._make_household()
        self._make_report(wall)
        self.account_changed = asyncio.Event()
        self._subscribe(people)

    def _make_line(self) -> None:
        self.link_desk = LinkDesk(
            self.links,
            name=self.settings.box_name,
            version=VERSION,
            clock=self.clock,
            open_session=aiohttp.ClientSession,
            before_link=self.store.restart_stream,
            on_change=self._on_link,
        )
        current = self.link_desk.link
        self.line = RelayLine(self._make_uplink, None if current is None else current.grant)

    def _make_household(self) -> None:
        plugins = self.plugins
        self.keeper = MowerKeeper(
            entries=plugins.entries,
            registry=plugins.registry,
            supervisor=self.supervisor,
            intake=self.intake,
            live=self.live,
            commander=self.commander,
            store=self.store,
            account=self.people.account,
            on_inventory=self.line.on_inventory,
        )
        self.fleet = FleetRegistrations(
            registry=plugins.registry,
            entries=plugins.entries,
            loader=plugins.loader,
            keeper=self.keeper,
            clock=self.clock,
        )

    def _make_handover(self) -> HandoverDesk:
        plugins, bluetooth = self.plugins, self.plugins.bluetooth
        return HandoverDesk(
            entries=plugins.entries,
            registry=plugins.registry,
            loader=plugins.loader,
            clock=self.clock,
            is_clock_right=lambda: self.clock.is_trusted,
            has_bond=(lambda _: False) if bluetooth is None else bluetooth.has_bond,
            box_name=self.settings.box_name,
        )

    def _make_report(self, wall: Clock) -> None:
        self.alerting = make_alerting(
            settings=self.settings,
            book=self.store.records,
            clock=self.clock,
            people=self.people,
            plugins=self.plugins,
            supervisor=self.supervisor,
            roster=self.roster,
            line=self.line,
            event_sinks=(self._show_event, self._lift_event),
        )
        self.live.subscribe(self.alerting.watch.put)
        self.report = BoxReport(
            settings=self.settings,
            version=VERSION,
            boot_id=self.boot_id,
            started_at=wall.now(),
            clock=self.clock,
            recorder=self.recorder,
            care=self.care,
            live=self.live,
            supervisor=self.supervisor,
            commander=self.commander,
            plugins=self.plugins,
            link_desk=self.link_desk,
            line=self.line,
        )

    # -- life

    def start(self, group: asyncio.TaskGroup, port: int) -> list[asyncio.Task[Any]]:
        """Every task of the box, in order; they are ended in the opposite one."""
        parts = {
            "recorder": self.recorder.run(),
            "intake": self.intake.run(),
            "commander": self.commander.run(),
            "supervisor": self.supervisor.run(),
            "mower keeper": self.keeper.run(),
            "storage care": self.care.run(),
            "thinning": make_night_thinning(
                self.settings, self.store.thinner, self.clock, self.metrics, self.alerting.watch.mowers_with_theft
            ).run(),
            **self.alerting.lives(),
            "account": self.people.follow_account(self.account_changed),
            "sweep": self.people.sweep_forever(),
            "link desk": self.link_desk.run(),
            "relay line": self.line.run(),
        }
        parts |= self.plugins.lives(uses_zeroconf=self.settings.announce)
        tasks: list[asyncio.Task[Any]] = [group.create_task(part, name=name) for name, part in parts.items()]
        if self.settings.is_announced:
            announcement = Announcement(
                Announced(
                    announced_id=self.identity.announced_id,
                    name=self.settings.box_name,
                    version=VERSION,
                    port=port,
                    tls=False,
                )
            )
            tasks.append(group.create_task(announcement.run(), name="announcement"))
        self.plugins.entries.start()
        return tasks

    async def wind_down(self) -> None:
        """Ends the links first, while recorder and line can still take what they have to say. All entries at once:
        together they have the time that a stubborn one takes."""
        async with asyncio.TaskGroup() as group:
            for record in self.plugins.entries.records():
                group.create_task(self._unload(record.entry_id), name=f"unload {record.entry_id}")
        await self.recorder.flush()

    async def _unload(self, entry_id: EntryId) -> None:
        try:
            await self.plugins.entries.unload(entry_id)
        except MowdeckError as err:
            log.warning("an entry could not be unloaded", entry_id=entry_id, detail=err.detail)

    # -- who hears of what

    def _subscribe(self, people: People) -> None:
        def sign_out(ended: frozenset[str] | None) -> None:
            self.hub.sign_out(lambda who: ended is None or who.session_id in ended)

        def changed(subjects: frozenset[str] | None) -> None:
            self.account_changed.set()
            self.hub.grants_changed(None if subjects is None else {UserId(one) for one in subjects})

        people.grants_changed.subscribe(changed)
        people.sessions_ended.subscribe(sign_out)
        self.store.records.subscribe(self._on_records)

    def _show_state(self, mower_id: MowerId, state: MowerState) -> None:
        account_id = self.people.account.account_id
        if account_id is not None:
            self.hub.publish_state(LiveState(mower_id=mower_id, account_id=account_id, state=state))

    def _lift_state(self, mower_id: MowerId, state: MowerState) -> None:
        self.line.put_state(mower_id, state)

    def _show_event(self, mower_id: MowerId, event: MowerEvent) -> None:
        account_id = self.people.account.account_id
        if account_id is not None:
            self.hub.publish_event(account_id, mower_id, event)

    def _lift_event(self, mower_id: MowerId, event: MowerEvent) -> None:
        self.line.put_event(mower_id, event)

    def _on_records(self, account_id: AccountId, rows: Sequence[RecordRow]) -> None:
        self.line.on_growth()
        self.hub.publish_records(account_id, rows)

    def _on_result(self, result: CommandResult) -> None:
        self.line.put_result(result)
        self.line.on_growth()
        account_id = self.people.account.account_id
        if account_id is not None:
            self.hub.publish_result(account_id, result)

    # -- the relay

    def _account_of(self, mower_id: MowerId, source: Source) -> AccountId | None:
        if not self.roster.is_known(mower_id):
            return None
        if source == "local":
            return self.people.account.account_id
        link = self.link_desk.link
        return None if link is None else link.grant.account_id

    def _on_link(self, link: StoredLink | None) -> None:
        self.line.change(None if link is None else link.grant)

    def _make_uplink(self, link: LinkGrant) -> Uplink:
        broker = link.broker
        return Uplink(
            link,
            broker=BrokerAddress(host=broker.host, port=broker.port, tls=broker.tls, ca_pem=broker.ca_pem),
            store=self.store,
            clock=self.clock,
            boot_id=self.boot_id,
            random=random.Random(secrets.randbits(64)).random,
            facts=lambda: BoxFacts(
                name=self.settings.box_name,
                version=VERSION,
                mowers=self.roster.inventory(),
                failed_registrations=(*self.roster.failed_registrations(), *self.fleet.refused()),
                notices=self.care.problems(),
            ),
            submit=lambda envelope, source: self.commander.submit(envelope, source=source),
            drive=lambda message: take_drive_message(self.commander.seats, message),
            cancel=self.commander.cancel,
            states=self.live.all,
            account_id=self.people.account.require,
            on_registrations=self._on_registrations,
            diagnostics=self.report.diagnostics,
        )

    async def _on_registrations(self, registrations: Registrations) -> None:
        if not registrations.is_linked:
            await self.link_desk.end(by_relay=True)
            return
        await self.fleet.apply(registrations)
        await self.gardens.take(registrations, self.store.records, self.people.account.require)
        self.line.on_inventory()

    # -- the API

    def application(self, people: People) -> web.Application:
        """The local API."""
        routes = edge_routes(
            RouteParts(
                people=people,
                plugins=self.plugins,
                store=self.store,
                hub=self.hub,
                live=self.live,
                roster=self.roster,
                keeper=self.keeper,
                command_desk=self.desk,
                drives=self.drives,
                link_desk=self.link_desk,
                handover=self._make_handover(),
                report=self.report,
                clock=self.clock,
            )
        )
        host = HostInfo(kind="box", version=VERSION, name=self.settings.box_name, features=("flows", "link"))
        return build_application(
            routes,
            verifier=people.identity,
            authorizer=people.authorizer,
            clock=self.clock,
            host=host,
            ready_checks={"people": people.authorizer.ping, "commands": self.commander.wait_ready},
            registry=self.metrics,
            metrics_token=self.settings.metrics_token,
            on_shutdown=[self.hub.close],
        )
