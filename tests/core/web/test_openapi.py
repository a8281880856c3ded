"""The document is valid, complete, and says what each route needs."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator, validate

from core.web.application import ROUTES
from core.web.host_routes import HostInfo
from core.web.openapi import document_of
from core.web.route import Public, Route
from core.web.route_table import plain_path
from tests.core.web.world import World


@pytest.fixture
async def document(world: World) -> dict[str, Any]:
    response = await world.client.get("/api/v1/openapi.json")
    assert response.content_type == "application/json"
    return dict(json.loads(await response.text()))


async def test_it_is_a_valid_openapi_document(document: dict[str, Any]) -> None:
    validate(document, cls=OpenAPIV31SpecValidator)


async def test_every_route_is_in_it_with_its_guard(world: World, document: dict[str, Any]) -> None:
    assert world.client.server.app[ROUTES]  # type: ignore[attr-defined]
    for route in world.client.server.app[ROUTES]:  # type: ignore[attr-defined]
        operation = document["paths"][plain_path(route)][route.method.lower()]
        assert operation["summary"] == route.summary
        assert operation["tags"] == [route.tag]
        assert bool(operation["security"]) is not isinstance(route.guard, Public)
        assert "default" in operation["responses"]
        if not isinstance(route.guard, Public):
            assert "401" in operation["responses"]
    ids = [o["operationId"] for path in document["paths"].values() for o in path.values()]
    assert len(ids) == len(set(ids))


async def test_guards_name_relation_and_object(document: dict[str, Any]) -> None:
    paths = document["paths"]
    state = paths["/api/v1/telemetry/mowers/{mower_id}/state"]["get"]
    assert state["x-mowdeck-guard"] == {
        "kind": "object",
        "relation": "can_view",
        "type": "mower",
        "parameter": "mower_id",
    }
    command = paths["/api/v1/fleet/mowers/{mower_id}/commands"]["post"]
    assert command["x-mowdeck-guard"]["relations"] == ["can_control", "can_drive", "can_emergency_stop"]


async def test_bodies_queries_and_answers_are_described(document: dict[str, Any]) -> None:
    command = document["paths"]["/api/v1/fleet/mowers/{mower_id}/commands"]["post"]
    body = command["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"$ref": "#/components/schemas/NewCommand"}
    assert "202" in command["responses"]
    assert {"400", "401", "403", "404", "409", "415", "422", "429", "503"} <= command["responses"].keys()
    kinds = document["components"]["schemas"]["NewCommand"]["properties"]["command"]["discriminator"]["mapping"]
    assert "emergency_stop" in kinds
    history = document["paths"]["/api/v1/telemetry/mowers/{mower_id}/history"]["get"]
    assert [(p["name"], p["in"]) for p in history["parameters"]] == [
        ("mower_id", "path"),
        ("from", "query"),
        ("to", "query"),
        ("step", "query"),
    ]
    assert "too-many-bins" in history["responses"]["422"]["description"]


def test_answers_of_a_foreign_protocol_stand_beside_the_problems():
    class Waiting(msgspec.Struct):
        error: str

    route = Route(
        method="POST",
        path="/poll",
        guard=Public(reason="a test"),
        handler=lambda request: request,
        summary="Poll",
        tag="test",
        body=Waiting,
        answer=Waiting,
        other_answers={400: Waiting, 418: Waiting},
    )
    document = document_of([route], host=HostInfo(kind="relay", version="1", name="x"))
    answers = document["paths"]["/api/v1/poll"]["post"]["responses"]
    assert set(answers["400"]["content"]) == {"application/json", "application/problem+json"}
    assert set(answers["418"]["content"]) == {"application/json"}
