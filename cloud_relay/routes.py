"""The relay's table of routes: what each part brings, in one list."""

from __future__ import annotations

from dataclasses import dataclass

from cloud_relay.commands.service import CommandService
from cloud_relay.edges.links import Links
from cloud_relay.edges.registry import EdgeRegistry
from cloud_relay.edges.routes import EdgeRoutes
from cloud_relay.fleet.catalog import FleetCatalog
from cloud_relay.fleet.groups import Groups
from cloud_relay.fleet.mower_routes import MowerChangeRoutes
from cloud_relay.fleet.mowers import Mowers
from cloud_relay.fleet.rights import Rights
from cloud_relay.fleet.site_routes import GroupRoutes, SiteRoutes
from cloud_relay.fleet.sites import Sites
from cloud_relay.live_states import StoredStates
from cloud_relay.pages.routes import page_routes
from core.access.people import People
from core.domain.clock import Clock
from core.storage.sqlite_store import SqliteTelemetryStore
from core.web.access_routes import access_routes
from core.web.alert_routes import alert_routes
from core.web.command_routes import command_routes
from core.web.drive_desk import DrivingDesk
from core.web.drive_routes import drive_routes
from core.web.health_routes import OnEntered, health_routes
from core.web.identity_routes import identity_routes
from core.web.mower_routes import mower_routes
from core.web.realtime.hub import RealtimeHub
from core.web.realtime.socket import RealtimeSocket
from core.web.realtime.viewer import ViewerParts
from core.web.route import Route
from core.web.session_routes import session_routes
from core.web.telemetry_routes import telemetry_routes


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteParts:
    """What the handlers work with."""

    people: People
    store: SqliteTelemetryStore
    clock: Clock
    hub: RealtimeHub
    rights: Rights
    sites: Sites
    groups: Groups
    mowers: Mowers
    catalog: FleetCatalog
    desk: CommandService
    drives: DrivingDesk
    links: Links
    registry: EdgeRegistry
    on_entered: OnEntered


def relay_routes(parts: RouteParts) -> list[Route]:
    """Every route but the host's own."""
    people, rights, authorizer = parts.people, parts.rights, parts.people.authorizer
    viewers = ViewerParts(
        hub=parts.hub,
        verifier=people.identity,
        authorizer=authorizer,
        live_states=StoredStates(parts.store),
        drive_desk=parts.drives,
        clock=parts.clock,
    )
    return [
        *page_routes(),
        *identity_routes(people.identity, authorizer),
        *access_routes(people.identity),
        *SiteRoutes(sites=parts.sites, rights=rights).routes(),
        *GroupRoutes(groups=parts.groups, rights=rights).routes(),
        *mower_routes(parts.catalog, authorizer),
        *MowerChangeRoutes(mowers=parts.mowers, catalog=parts.catalog, rights=rights).routes(),
        *command_routes(parts.desk, parts.catalog, authorizer, parts.clock, drives=parts.drives),
        *drive_routes(parts.drives),
        *telemetry_routes(parts.store, authorizer, parts.clock),
        *health_routes(parts.store.records, parts.clock, on_entered=parts.on_entered),
        *alert_routes(parts.store.records, parts.store, authorizer, parts.clock, on_entered=parts.on_entered),
        *session_routes(parts.store, parts.store.records),
        *EdgeRoutes(links=parts.links, registry=parts.registry, rights=rights).routes(),
        RealtimeSocket(viewers).route(),
    ]
