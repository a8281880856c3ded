"""The acceptance scenario: two owners, an operator and a viewer, a box, a mow, with real processes and a real broker."""

from __future__ import annotations

import aiohttp
import pytest

from tests.flow.external_broker import external_mosquitto
from tests.flow.person import until
from tests.flow.stage import Stage, link, register_mower

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
FOREIGN_SECONDS = 12.0


@pytest.fixture(params=["embedded", "external"])
def stage(request, tmp_path):
    if request.param == "embedded":
        with Stage(tmp_path) as stage:
            yield stage
    else:
        with external_mosquitto(tmp_path) as settings, Stage(tmp_path, settings) as stage:
            yield stage


async def test_the_whole_path(stage, tmp_path):
    owner = stage.person("owner-a").register("Garden A")
    box = stage.box("Shed")
    household = stage.person("anna", box.url).register("Home")
    edge_id = link(box, household, owner)
    operator, viewer = owner.make_member("operator", "operator"), owner.make_member("viewer", "viewer")
    mower_id = register_mower(owner, edge_id, "Shaun")

    await operator_mows(operator, mower_id)
    blades_are_the_same_on_both_sides(operator, household, mower_id)
    stranger = stage.person("owner-b").register("Garden B")
    await foreigner_sees_nothing(stranger, operator, mower_id)
    await viewer_may_only_stop(viewer, operator, mower_id)
    await nobody_is_let_in(stage.relay.url, mower_id)
    the_link_ends(owner, household, edge_id)


async def operator_mows(operator, mower_id) -> None:
    async with operator.socket() as socket:
        await socket.say(type="subscribe", mower_ids=[mower_id])
        subscribed = await socket.see(lambda m: m["type"] == "subscribed")
        assert (subscribed["mower_ids"], subscribed["denied"]) == ([mower_id], [])
        await socket.see_state("docked", "charging")
        issued = operator.command(mower_id, "start_mow", area_ids=["front"])
        assert issued.status_code == 202
        command = issued.json()
        assert issued.headers["Location"].endswith(command["command_id"])
        await socket.see_result(command["command_id"], "executed", timeout_s=20)
        mowing = await socket.see_state("mowing", timeout_s=20)
        assert mowing["state"]["current_area"] == "front"
        assert operator.get(f"/fleet/commands/{command['command_id']}")["status"] == "executed"
        docked = operator.command(mower_id, "return_to_dock").json()
        await socket.see_result(docked["command_id"], "executed", timeout_s=20)
        await socket.see_state("docked", "charging", timeout_s=40)
    assert operator.get(f"/telemetry/mowers/{mower_id}/history", step="raw")["rows"]
    assert operator.get(f"/telemetry/mowers/{mower_id}/positions")["positions"]


def blades_are_the_same_on_both_sides(operator, household, mower_id) -> None:
    def blades(person):
        return person.get(f"/telemetry/mowers/{mower_id}/health")["blades"]

    path = f"/fleet/mowers/{mower_id}/blades"
    assert operator.ask("PUT", f"{path}/interval", {"interval_h": 77}).status_code == 200
    until(lambda: blades(household), lambda found: found["interval_h"] == 77)
    household.post(f"{path}/changed", {"note": "entered on the box"})
    until(lambda: blades(operator), lambda found: found["note"] == "entered on the box")
    operator.post(f"{path}/changed", {"note": "entered on the relay"})
    until(lambda: blades(household), lambda found: found["note"] == "entered on the relay")


FOREIGN_ROUTES = [
    ("GET", "/telemetry/mowers/{m}/health", None),
    ("GET", "/telemetry/mowers/{m}/health/days", None),
    ("GET", "/mowers/{m}/alerts", None),
    ("POST", "/fleet/mowers/{m}/blades/changed", {}),
    ("GET", "/fleet/mowers/{m}", None),
    ("PATCH", "/fleet/mowers/{m}", {"name": "mine now"}),
    ("DELETE", "/fleet/mowers/{m}", None),
    ("PUT", "/fleet/mowers/{m}/groups", {"group_ids": []}),
    ("GET", "/fleet/mowers/{m}/commands", None),
    ("POST", "/fleet/mowers/{m}/commands", {"command": {"kind": "start_mow"}}),
    ("POST", "/fleet/mowers/{m}/commands", {"command": {"kind": "emergency_stop"}}),
    ("GET", "/telemetry/mowers/{m}/state", None),
    ("GET", "/telemetry/mowers/{m}/history", None),
    ("GET", "/telemetry/mowers/{m}/positions", None),
    ("GET", "/telemetry/mowers/{m}/timeline", None),
]


async def foreigner_sees_nothing(stranger, operator, mower_id) -> None:
    for method, path, body in FOREIGN_ROUTES:
        answer = stranger.ask(method, path.format(m=mower_id), body)
        assert (answer.status_code, answer.json()["code"]) == (404, "not-found"), path
    assert stranger.get("/fleet/mowers")["items"] == []
    assert stranger.get("/telemetry/states")["items"] == []
    async with stranger.socket() as socket:
        await socket.say(type="subscribe", mower_ids=[mower_id])
        subscribed = await socket.see(lambda m: m["type"] == "subscribed")
        assert (subscribed["mower_ids"], subscribed["denied"]) == ([], [mower_id])
        operator.command(mower_id, "start_mow")
        assert await socket.listen(FOREIGN_SECONDS) == []


async def viewer_may_only_stop(viewer, operator, mower_id) -> None:
    operator.await_state(mower_id, "mowing", "leaving")
    refused = viewer.command(mower_id, "start_mow")
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    async with viewer.socket() as socket:
        await socket.say(type="subscribe", mower_ids=[mower_id])
        stopped = viewer.command(mower_id, "emergency_stop")
        assert stopped.status_code == 202
        await socket.see_result(stopped.json()["command_id"], "executed", timeout_s=20)
        await socket.see(
            lambda m: m["type"] == "state" and m["state"]["activity"] == "paused" and not m["state"]["blades_on"]
        )
    kinds = [c["command"]["kind"] for c in viewer.get(f"/fleet/mowers/{mower_id}/commands")["items"]]
    assert kinds == ["emergency_stop", "start_mow", "return_to_dock", "start_mow"]  # the refused one left no row


async def nobody_is_let_in(url, mower_id) -> None:
    async with aiohttp.ClientSession() as session:
        for method, path, body in FOREIGN_ROUTES:
            async with session.request(method, f"{url}/api/v1{path.format(m=mower_id)}", json=body) as answer:
                assert answer.status == 401, path
        async with session.ws_connect(f"{url}/api/v1/realtime/ws") as silent:
            await silent.receive(timeout=10)
            assert silent.close_code == 4401


def the_link_ends(owner, household, edge_id) -> None:
    assert owner.ask("DELETE", f"/fleet/edges/{edge_id}").status_code == 204
    from tests.flow.person import until

    until(lambda: household.get("/box/link"), lambda v: v["status"] == "unlinked")
    assert household.get("/fleet/mowers")["items"]  # the box goes on locally
