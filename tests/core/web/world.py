"""The shared routes over fakes and a real store, with one household and one stranger."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from aiohttp.test_utils import TestClient, TestServer

from core.domain.access import ObjectRef, ObjectType
from core.domain.ids import AccountId, MowerId
from core.identity.principal import Principal
from core.storage.sqlite_store import SqliteTelemetryStore
from core.storage.telemetry_store import DirectoryEntry
from core.web.alert_routes import alert_routes
from core.web.application import build_application
from core.web.command_routes import command_routes
from core.web.drive_desk import DrivingDesk
from core.web.drive_routes import drive_routes
from core.web.health_routes import health_routes
from core.web.host_routes import HostInfo
from core.web.mower_routes import mower_routes
from core.web.problems import Problem
from core.web.realtime.hub import RealtimeHub
from core.web.realtime.socket import RealtimeSocket
from core.web.realtime.viewer import ViewerParts
from core.web.route import Route, mower_ref
from core.web.session_routes import session_routes
from core.web.telemetry_routes import telemetry_routes
from tests.fakes.authorizer import FakeAuthorizer
from tests.fakes.catalog import FakeCatalog, FakeDesk
from tests.fakes.clock import ManualClock
from tests.fakes.drive_host import FakeDriveHost
from tests.fakes.tokens import FakeVerifier, make_principal

OWNER = make_principal("owner")
VIEWER = make_principal("viewer")
STRANGER = make_principal("stranger", "acc-b")


@dataclass
class World:
    """The server of a test and everything behind it. `front` and `back` are the owner's; `other` the stranger's."""

    client: TestClient[Any, Any]
    routes: tuple[Route, ...]
    clock: ManualClock
    verifier: FakeVerifier
    authorizer: FakeAuthorizer
    catalog: FakeCatalog
    desk: FakeDesk
    drive_host: FakeDriveHost
    store: SqliteTelemetryStore
    entered: list[tuple[AccountId, MowerId]]
    """What the box of a mower has to be told."""

    def token(self, who: Principal) -> str:
        return self.verifier.issue(who)

    async def get(self, path: str, who: Principal = OWNER, **more: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.token(who)}"}
        return await self.client.get(f"/api/v1{path}", headers=headers, **more)

    async def delete(self, path: str, who: Principal = OWNER) -> Any:
        headers = {"Authorization": f"Bearer {self.token(who)}"}
        return await self.client.delete(f"/api/v1{path}", headers=headers)

    async def put(self, path: str, body: Any, who: Principal = OWNER) -> Any:
        headers = {"Authorization": f"Bearer {self.token(who)}"}
        return await self.client.put(f"/api/v1{path}", json=body, headers=headers)

    async def post(self, path: str, body: Any, who: Principal = OWNER) -> Any:
        headers = {"Authorization": f"Bearer {self.token(who)}"}
        return await self.client.post(f"/api/v1{path}", json=body, headers=headers)


async def problem(response: Any) -> Problem:
    """The problem in an answer."""
    assert response.content_type == "application/problem+json"
    return msgspec.json.decode(await response.read(), type=Problem)


@contextlib.asynccontextmanager
async def serving(directory: Path) -> AsyncIterator[World]:
    """A running server."""
    clock, verifier, authorizer, catalog = ManualClock(), FakeVerifier(), FakeAuthorizer(), FakeCatalog()
    desk = FakeDesk(clock)
    drive_host = FakeDriveHost(clock)
    drives = DrivingDesk(host=drive_host, authorizer=authorizer, clock=clock)
    store = SqliteTelemetryStore(directory / "telemetry.db", clock=clock, is_journal=False)
    await store.open()
    owned = {"front": OWNER, "back": OWNER, "other": STRANGER}
    for mower_id, who in owned.items():
        view = catalog.add(who.account_id, mower_id, name=mower_id.title())
        entry = DirectoryEntry(mower_id=view.mower_id, account_id=who.account_id, edge_id=None, name=view.name)
        await store.put_directory([entry])
        authorizer.allow_role(who, "owner", mower_ref(mower_id))
    for who in (OWNER, STRANGER):
        authorizer.allow_role(who, "owner", ObjectRef(type=ObjectType.ACCOUNT, id=who.account_id))
    authorizer.allow_role(VIEWER, "viewer", mower_ref("front"))
    hub = RealtimeHub(clock=clock)
    entered: list[tuple[AccountId, MowerId]] = []

    async def note_entered(account_id: AccountId, mower_id: MowerId) -> None:
        entered.append((account_id, mower_id))

    parts = ViewerParts(
        hub=hub, verifier=verifier, authorizer=authorizer, live_states=None, drive_desk=drives, clock=clock
    )
    routes = (
        *mower_routes(catalog, authorizer),
        *command_routes(desk, catalog, authorizer, clock, drives=drives),
        *drive_routes(drives),
        *telemetry_routes(store, authorizer, clock),
        *health_routes(store.records, clock, on_entered=note_entered),
        *alert_routes(store.records, store, authorizer, clock, on_entered=note_entered),
        *session_routes(store, store.records),
        RealtimeSocket(parts).route(),
    )
    app = build_application(
        routes,
        verifier=verifier,
        authorizer=authorizer,
        clock=clock,
        host=HostInfo(kind="relay", version="1", name="test"),
        on_shutdown=[hub.close],
    )
    client: TestClient[Any, Any] = TestClient(TestServer(app))
    await client.start_server()
    try:
        yield World(client, routes, clock, verifier, authorizer, catalog, desk, drive_host, store, entered)
    finally:
        await client.close()
        await store.close()
