"""The table of the box's API, from parts that the composition root has made."""

from __future__ import annotations

from dataclasses import dataclass

from core.domain.clock import Clock
from core.domain.ids import AccountId, MowerId
from core.storage.sqlite_store import SqliteTelemetryStore
from core.web.access_routes import access_routes
from core.web.alert_routes import alert_routes
from core.web.command_routes import command_routes
from core.web.drive_desk import DrivingDesk
from core.web.drive_routes import drive_routes
from core.web.health_routes import health_routes
from core.web.identity_routes import identity_routes
from core.web.mower_routes import mower_routes
from core.web.ports import LiveStates
from core.web.realtime.hub import RealtimeHub
from core.web.realtime.socket import RealtimeSocket
from core.web.realtime.viewer import ViewerParts
from core.web.route import Route
from core.web.session_routes import session_routes
from core.web.telemetry_routes import telemetry_routes
from edge_agent.api.bluetooth_routes import bluetooth_routes
from edge_agent.api.box_routes import box_routes
from edge_agent.api.config_routes import config_routes
from edge_agent.api.handover_routes import handover_routes
from edge_agent.api.mower_routes import household_routes
from edge_agent.api.proxy_routes import proxy_routes
from edge_agent.box_report import BoxReport
from edge_agent.handover.handover_desk import HandoverDesk
from edge_agent.household.mower_keeper import MowerKeeper
from edge_agent.household.roster import Roster
from edge_agent.linking.link_desk import LinkDesk
from edge_agent.people import People
from edge_agent.plugins import Plugins
from edge_agent.runtime.command_desk import LocalCommandDesk


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteParts:
    """What the routes use."""

    people: People
    plugins: Plugins
    store: SqliteTelemetryStore
    hub: RealtimeHub
    live: LiveStates
    roster: Roster
    keeper: MowerKeeper
    command_desk: LocalCommandDesk
    drives: DrivingDesk
    link_desk: LinkDesk
    handover: HandoverDesk
    report: BoxReport
    clock: Clock


def edge_routes(parts: RouteParts) -> list[Route]:
    """All of them."""
    people, plugins, clock = parts.people, parts.plugins, parts.clock
    viewer = ViewerParts(
        hub=parts.hub,
        verifier=people.identity,
        authorizer=people.authorizer,
        live_states=parts.live,
        drive_desk=parts.drives,
        clock=clock,
    )
    return [
        *identity_routes(people.identity, people.authorizer),
        *access_routes(people.identity),
        *mower_routes(parts.roster, people.authorizer),
        *household_routes(parts.keeper),
        *command_routes(parts.command_desk, parts.roster, people.authorizer, clock, drives=parts.drives),
        *drive_routes(parts.drives),
        *telemetry_routes(parts.store, people.authorizer, clock),
        *health_routes(parts.store.records, clock, on_entered=_know_already),
        *alert_routes(parts.store.records, parts.store, people.authorizer, clock, on_entered=_know_already),
        *session_routes(parts.store, parts.store.records),
        RealtimeSocket(viewer).route(),
        *config_routes(plugins.entries, plugins.flows, plugins.loader),
        *handover_routes(parts.handover, plugins.entries.view),
        *bluetooth_routes(plugins.bluetooth, plugins.domains_of, plugins.says_pairable, clock),
        *proxy_routes(plugins.proxies, plugins.offers.offers),
        *box_routes(parts.link_desk, parts.report.status, parts.report.diagnostics),
    ]


async def _know_already(_account_id: AccountId, _mower_id: MowerId) -> None:
    """What is entered here is in the journal."""
