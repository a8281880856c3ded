"""The shared routes as a stranger sees them; and that the walk finds what it is for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from core.domain.ids import MowerId
from core.telemetry.alert import Alert, AlertKind, Severity, row_of
from core.web.application import build_application
from core.web.host_routes import HostInfo
from core.web.route import Public, Request, Route, SignedIn
from tests.contract.route_walk import RouteWalk
from tests.core.web.world import OWNER, STRANGER, World
from tests.fakes.authorizer import FakeAuthorizer
from tests.fakes.clock import START, ManualClock
from tests.fakes.tokens import FakeVerifier

VICTIM = {"mower_id": "front", "command_id": "c0000", "alert_id": "alert-of-front"}
START_MOW = {"command": {"kind": "start_mow"}}
BODIES = {"POST /fleet/mowers/{mower_id}/commands": START_MOW, "POST /alerts/{alert_id}/acknowledge": {}}
FOREIGN = ("front", "back", "c0000", "alert-of-front", "acc-a", "owner")


async def keep_alert(world: World) -> None:
    alert = Alert(
        alert_id="alert-of-front",
        kind=AlertKind.ERROR,
        cause="E1",
        severity=Severity.WARNING,
        since=START,
        opened_at=START,
        updated_at=START,
    )
    await world.store.records.put(OWNER.account_id, [row_of(MowerId("front"), alert)])


async def test_the_shared_routes_give_a_stranger_nothing(world: World) -> None:
    await keep_alert(world)
    assert (await world.post("/fleet/mowers/front/commands", START_MOW)).status == 202
    walk = RouteWalk(client=world.client, routes=world.routes, values=VICTIM, bodies=BODIES)
    assert walk.find_unguarded() == []
    assert await walk.find_open_to_nobody() == []
    token = world.token(STRANGER)
    assert await walk.find_open_to_stranger(token, foreign_ids=FOREIGN) == []
    assert await walk.find_smuggled(token, OWNER.account_id, foreign_ids=FOREIGN) == []
    assert len(world.desk.rows) == 1, "no command of the stranger was taken"


async def test_it_is_the_rights_that_keep_the_stranger_out(world: World) -> None:
    await world.post("/fleet/mowers/front/commands", START_MOW)
    walk = RouteWalk(client=world.client, routes=world.routes, values=VICTIM, bodies=BODIES)
    as_owner = await walk.find_open_to_stranger(world.token(OWNER), foreign_ids=FOREIGN)
    assert len(as_owner) >= 7


# -- the walk itself


async def leak(_: Request) -> Any:
    return {"mower_id": "front"}


@pytest.fixture
async def leaky() -> AsyncIterator[tuple[TestClient[Any, Any], FakeVerifier]]:
    verifier = FakeVerifier()
    app = build_application(
        [
            Route(
                method="GET",
                path=path,
                guard=SignedIn(reason="forgot to ask"),
                handler=leak,
                summary="x",
                tag="x",
            )
            for path in ("/m/{mower_id}", "/all")
        ]
        + [Route(method="GET", path="/open", guard=Public(reason="oh"), handler=leak, summary="x", tag="x")],
        verifier=verifier,
        authorizer=FakeAuthorizer(),
        clock=ManualClock(),
        host=HostInfo(kind="relay", version="1", name="leaky"),
    )
    client: TestClient[Any, Any] = TestClient(TestServer(app))
    await client.start_server()
    yield client, verifier
    await client.close()


async def test_the_walk_finds_leaks_and_guards_that_say_nothing(
    leaky: tuple[TestClient[Any, Any], FakeVerifier],
) -> None:
    client, verifier = leaky

    def route(path: str, guard: Any) -> Route:
        return Route(method="GET", path=path, guard=guard, handler=leak, summary="x", tag="x")

    signed_in = SignedIn(reason="forgot to ask")
    routes = [route("/m/{mower_id}", signed_in), route("/all", signed_in), route("/open", Public(reason="oh"))]
    walk = RouteWalk(client=client, routes=[*routes, route("/none", None)], values=VICTIM)
    assert walk.find_unguarded() == ["GET /open: says no reason", "GET /none: has no guard"]
    walk.routes = routes
    found = await walk.find_open_to_stranger(verifier.issue(STRANGER), foreign_ids=FOREIGN)
    assert found == ["GET /m/{mower_id}: 200 for an object of another account", "GET /all: tells ['front']"]
    walk.routes = [route("/open", signed_in)]
    assert len(await walk.find_open_to_nobody()) == 3
