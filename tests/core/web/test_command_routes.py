"""Commands: the right first, then limits, then the desk."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from core.domain.access import Grant
from core.domain.commands import KINDS
from core.domain.errors import NotPublishedError
from core.web.command_routes import COMMANDS_BURST
from core.web.route import mower_ref
from tests.core.web.world import OWNER, STRANGER, VIEWER, World, problem
from tests.fakes.clock import START

START_MOW = {"command": {"kind": "start_mow", "area_ids": ["front"]}}
STOP = {"command": {"kind": "emergency_stop"}}
BODIES: dict[str, dict[str, Any]] = {
    "set_blade_height": {"height_mm": 40},
    "set_speed": {"speed_mps": 0.4},
    "mow_spot": {"lat": 48.0, "lon": 11.0, "radius_m": 2},
    "set_schedule": {"windows": []},
}


def expires(world: World) -> timedelta:
    return world.desk.rows[-1][1].expires_at - START


async def test_a_command_is_accepted_and_can_be_followed(world: World) -> None:
    response = await world.post("/fleet/mowers/front/commands", START_MOW)
    assert response.status == 202
    accepted = await response.json()
    assert accepted == {
        "command_id": "c0000",
        "expires_at": "2026-06-01T08:00:30Z",
        "status": "pending",
        "status_url": "/api/v1/fleet/commands/c0000",
    }
    assert response.headers["Location"] == accepted["status_url"]
    shown = await (await world.client.get(accepted["status_url"], headers=_bearer(world))).json()
    assert shown["command"] == {"kind": "start_mow", "area_ids": ["front"], "duration_s": None}
    assert shown["issued_by"]["subject"] == "owner"
    assert world.desk.correlation_ids == [response.headers["X-Correlation-ID"]]


def _bearer(world: World) -> dict[str, str]:
    return {"Authorization": f"Bearer {world.token(OWNER)}"}


@pytest.mark.parametrize("kind", KINDS)
async def test_who_may_what(world: World, kind: str) -> None:
    body = {"command": {"kind": kind, **BODIES.get(kind, {})}}
    as_stranger = await world.post("/fleet/mowers/front/commands", body, STRANGER)
    assert as_stranger.status == 404
    as_viewer = await world.post("/fleet/mowers/front/commands", body, VIEWER)
    assert as_viewer.status == (202 if kind == "emergency_stop" else 403)
    as_owner = await world.post("/fleet/mowers/front/commands", body)
    assert as_owner.status == 202
    written = 2 if kind == "emergency_stop" else 1
    assert len(world.desk.rows) == written, "a refused command leaves no row"


DRIVE = {"command": {"kind": "manual_drive"}}


async def test_driving_needs_the_right_to_drive(world: World) -> None:
    world.authorizer.allow(VIEWER, mower_ref("front"), Grant.CONTROL)
    assert (await world.post("/fleet/mowers/front/commands", DRIVE, VIEWER)).status == 403


async def test_a_mower_that_somebody_drives_is_taken(world: World) -> None:
    world.drive_host.open("front", VIEWER)
    found = await problem(await world.post("/fleet/mowers/front/commands", DRIVE))
    assert (found.code, found.detail) == ("conflict", f"{VIEWER.name} is driving this mower")
    assert world.desk.rows == [], "nothing was written"
    world.drive_host.open("front", OWNER)
    assert (await world.post("/fleet/mowers/front/commands", DRIVE)).status == 202, "one may begin again"


@pytest.mark.parametrize(("asked", "given"), [(None, 30), (1, 1), (300, 300), (12.5, 12.5)])
async def test_the_time_to_live(world: World, asked: float | None, given: float) -> None:
    body = {**START_MOW, **({} if asked is None else {"time_to_live_s": asked})}
    assert (await world.post("/fleet/mowers/front/commands", body)).status == 202
    assert expires(world) == timedelta(seconds=given)


@pytest.mark.parametrize("asked", [0, -1, 0.5, 300.1, 1e12, 1e308])
async def test_a_time_to_live_out_of_bounds_is_refused(world: World, asked: float) -> None:
    found = await problem(await world.post("/fleet/mowers/front/commands", {**START_MOW, "time_to_live_s": asked}))
    assert [m.field for m in found.mistakes] == ["time_to_live_s"]
    assert world.desk.rows == []


@pytest.mark.parametrize("asked", [0, 5, 3600])
async def test_a_stop_is_never_refused_over_its_time_to_live(world: World, asked: float) -> None:
    assert (await world.post("/fleet/mowers/front/commands", {**STOP, "time_to_live_s": asked})).status == 202
    assert expires(world) == timedelta(seconds=10)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"command": {"kind": "fly"}}, "command"),
        ({"command": {}}, "command"),
        ({"command": {"kind": "set_speed"}}, "command.speed_mps"),
        ({"command": {"kind": "set_speed", "speed_mps": "fast"}}, "command.speed_mps"),
        ({"command": {"kind": "pause_mow", "force": True}}, "command.force"),
        ({**START_MOW, "account_id": "acc-b"}, "account_id"),
        ({}, "command"),
    ],
)
async def test_wrong_bodies_name_the_field(world: World, body: Any, field: str) -> None:
    found = await problem(await world.post("/fleet/mowers/front/commands", body))
    assert found.status == 422
    assert field in {m.field for m in found.mistakes} or {m.field for m in found.mistakes} == {field + ".kind"}
    assert world.desk.rows == []


async def test_too_many_commands_are_refused_but_never_a_stop(world: World) -> None:
    for _ in range(int(COMMANDS_BURST)):
        assert (await world.post("/fleet/mowers/front/commands", START_MOW)).status == 202
    response = await world.post("/fleet/mowers/front/commands", START_MOW)
    assert response.status == 429
    assert int(response.headers["Retry-After"]) >= 1
    for _ in range(int(COMMANDS_BURST) + 5):
        assert (await world.post("/fleet/mowers/front/commands", STOP)).status == 202
    assert (await world.post("/fleet/mowers/other/commands", START_MOW, STRANGER)).status == 202, "each for itself"
    world.clock.advance(1)
    assert (await world.post("/fleet/mowers/front/commands", START_MOW)).status == 202


async def test_a_command_that_could_not_be_sent_is_503(world: World) -> None:
    world.desk.error = NotPublishedError("broker away")
    found = await problem(await world.post("/fleet/mowers/front/commands", START_MOW))
    assert (found.status, found.code) == (503, "not-published")


async def test_an_outage_of_the_authorizer_sends_nothing(world: World) -> None:
    world.authorizer.is_down = True
    assert (await world.post("/fleet/mowers/front/commands", START_MOW)).status == 503
    assert world.desk.rows == []


async def test_a_mower_that_is_gone_is_404_although_the_right_is_left(world: World) -> None:
    world.authorizer.allow_role(OWNER, "owner", mower_ref("gone"))
    assert (await world.post("/fleet/mowers/gone/commands", START_MOW)).status == 404
    assert world.desk.rows == []


async def test_commands_are_listed_newest_first_page_by_page(world: World) -> None:
    for _ in range(5):
        await world.post("/fleet/mowers/front/commands", STOP)
    await world.post("/fleet/mowers/back/commands", STOP)
    seen, before = [], None
    while True:
        params = {"limit": "2", **({} if before is None else {"before": before})}
        page = await (await world.get("/fleet/mowers/front/commands", VIEWER, params=params)).json()
        seen.append([c["command_id"] for c in page["items"]])
        before = page["next_before"]
        if before is None:
            break
    assert seen == [["c0004", "c0003"], ["c0002", "c0001"], ["c0000"]]


@pytest.mark.parametrize("params", [{"limit": "0"}, {"limit": "201"}, {"before": "no id!"}, {"after": "c1"}])
async def test_wrong_pages_are_refused(world: World, params: dict[str, str]) -> None:
    assert (await world.get("/fleet/mowers/front/commands", params=params)).status == 422


async def test_a_command_is_shown_to_who_sees_its_mower_and_to_nobody_else(world: World) -> None:
    await world.post("/fleet/mowers/front/commands", STOP)
    await world.post("/fleet/mowers/back/commands", STOP)
    assert (await world.get("/fleet/commands/c0000", VIEWER)).status == 200
    hidden = [
        await problem(await world.get("/fleet/commands/c0001", VIEWER)),
        await problem(await world.get("/fleet/commands/c0000", STRANGER)),
        await problem(await world.get("/fleet/commands/c9999", STRANGER)),
    ]
    assert {(p.status, p.detail) for p in hidden} == {(404, "no such command")}
