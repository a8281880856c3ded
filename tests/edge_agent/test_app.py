"""The whole box in one process, over its API: what a household does with it."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestServer
from openapi_spec_validator import OpenAPIV31SpecValidator, validate

from core.domain.errors import DatabaseNewerError, SettingsError, StorageError
from edge_agent.app import run
from tests.edge_agent.linking.test_link_desk import PlayedRelay
from tests.edge_agent.whole_box import Person, running_box, settings_for, until
from tests.fakes.misbehaving_folder import install_misbehaving

pytestmark = pytest.mark.timeout(60)


# -- the first start


async def test_it_is_registered_once(tmp_path: Path):
    async with running_box(settings_for(tmp_path)) as box:
        anna = box.person()
        assert (await anna.ask("GET", "/identity/register"))["is_open"] is True
        assert (await anna.ask("GET", "/host"))["name"] == "Shed"
        await anna.register()
        assert (await anna.ask("GET", "/identity/register"))["is_open"] is False
        body = {"username": "eve", "password": "a lawn is a slow pond", "account_name": "Mine"}
        refused = await box.person().ask("POST", "/identity/register", body, status=403)
        assert refused["code"] == "forbidden"
        assert (await anna.ask("GET", "/fleet/mowers"))["items"] == []
        status = await anna.ask("GET", "/box/status")
        assert (status["link"]["status"], status["uplink"], status["problems"]) == ("unlinked", None, [])


async def test_a_flow_with_a_form_error_first_then_a_mower(tmp_path: Path):
    async with running_box(settings_for(tmp_path)) as box:
        anna = await box.person().register()
        flow = await anna.ask("POST", "/config/flows", {"domain": "simulator"}, status=201)
        path = f"/config/flows/{flow['flow_id']}"
        values = {"name": "Shaun", "seed": 7, "time_scale": 200.0}
        wrong = await anna.ask("POST", path, {"user_input": {**values, "time_zone": "Lawn/Middle"}})
        assert wrong["result"]["errors"] == {"time_zone": "unknown_time_zone"}
        assert await anna.entries() == []
        done = await anna.ask("POST", path, {"user_input": values})
        assert done["result"]["type"] == "create_entry"
        mower = await anna.mower("Shaun")
        assert (mower["domain"], mower["setup_error"]) == ("simulator", None)
        assert mower["capabilities"]["start_mow"] is not None


# -- commands


async def test_a_mow_is_started_stopped_and_ended_over_api_and_socket(tmp_path: Path):
    async with running_box(settings_for(tmp_path)) as box:
        anna = await box.person().register()
        mower_id = (await anna.add_simulator())["mower_id"]
        async with box.http.ws_connect(f"{box.url}/api/v1/realtime/ws") as socket:
            await socket.send_json({"type": "auth", "token": anna.token})
            await see(socket, lambda m: m["type"] == "ready")
            await socket.send_json({"type": "subscribe", "mower_ids": [mower_id]})
            started = await anna.command(mower_id, "start_mow", area_ids=["front"])
            assert started["status"] == "executed", started
            await see(socket, lambda m: m["type"] == "command_result" and m["status"] == "executed")
            await see(socket, lambda m: m["type"] == "state" and m["state"]["activity"] == "mowing")
            stopped = await anna.command(mower_id, "emergency_stop")
            assert stopped["status"] == "executed", stopped
            await see(socket, lambda m: m["type"] == "state" and m["state"]["blades_on"] is False)
            home = await anna.command(mower_id, "return_to_dock")
            assert home["status"] == "executed", home
            await see(socket, lambda m: m["type"] == "state" and m["state"]["activity"] in {"docked", "charging"})
        kinds = [c["command"]["kind"] for c in (await anna.ask("GET", f"/fleet/mowers/{mower_id}/commands"))["items"]]
        assert kinds == ["return_to_dock", "emergency_stop", "start_mow"]


async def see(socket: aiohttp.ClientWebSocketResponse, is_it: Any) -> dict[str, Any]:
    async with asyncio.timeout(20):
        while True:
            message = await socket.receive_json()
            if is_it(message):
                return dict(message)


# -- a restart


async def test_a_restart_keeps_everything_and_moves_nothing(tmp_path: Path):
    settings = settings_for(tmp_path)
    async with running_box(settings) as box:
        anna = await box.person().register()
        mower = await anna.add_simulator()
        mower_id = mower["mower_id"]
        assert (await anna.command(mower_id, "start_mow"))["status"] == "executed"
        await anna.see_state(mower_id, lambda s: s["activity"] == "mowing")
        commands = await anna.ask("GET", f"/fleet/mowers/{mower_id}/commands")
    with contextlib.closing(sqlite3.connect(settings.telemetry_path)) as rows, rows:
        before = rows.execute("SELECT count(*) FROM mower_history").fetchone()[0]
    rows.close()
    assert before > 0
    async with running_box(settings) as box:
        again = Person(box.http, box.url)
        again.token = anna.token  # signed in across the restart
        assert (await again.ask("GET", "/identity/me"))["name"] == "anna"
        found = await again.mower("Shaun")
        assert {**found, "setup_error": None} == mower
        for _ in range(20):  # a simulated hour: time enough to drive off
            state = await again.state(mower_id)
            assert state is not None
            assert state["activity"] not in {"mowing", "leaving"}
            assert not state["blades_on"]
            await asyncio.sleep(0.02)
        assert await again.ask("GET", f"/fleet/mowers/{mower_id}/commands") == commands
        history = await again.ask("GET", f"/telemetry/mowers/{mower_id}/history?step=raw")
        assert len(history["rows"]) >= before
        assert "mowing" in {row["activity"] for row in history["rows"]}


# -- the surface


async def test_the_openapi_document_is_valid_and_complete(tmp_path: Path):
    async with running_box(settings_for(tmp_path)) as box:
        document = await box.person().ask("GET", "/openapi.json")
    validate(document, cls=OpenAPIV31SpecValidator)
    assert {"/api/v1/box/status", "/api/v1/config/flows", "/api/v1/fleet/mowers/{mower_id}"} <= document["paths"].keys()


async def test_every_route_wants_a_token_or_says_why_not(tmp_path: Path):
    async with running_box(settings_for(tmp_path)) as box:
        anna = await box.person().register()
        document = await anna.ask("GET", "/openapi.json")
        walked = 0
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                guard = operation["x-mowdeck-guard"]
                if guard["kind"] == "public":
                    assert len(guard["reason"]) > 10, path
                    continue
                url = box.url + path.replace("{", "").replace("}", "")
                for headers in ({}, {"Authorization": "Bearer wrong"}):
                    async with box.http.request(method, url, json={}, headers=headers) as answer:
                        assert answer.status == 401, f"{method} {path}: {answer.status}"
                walked += 1
        assert walked > 30


async def test_a_viewer_reads_and_stops_and_nothing_else(tmp_path: Path):
    async with running_box(settings_for(tmp_path)) as box:
        anna = await box.person().register()
        mower_id = (await anna.add_simulator())["mower_id"]
        (entry,) = await anna.entries()
        vera = await anna.make_member("vera", "viewer")
        document = await anna.ask("GET", "/openapi.json")
        ids = {"mower_id": mower_id, "entry_id": entry["entry_id"], "account_id": anna.account_id}
        forbidden = 0
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                guard = operation["x-mowdeck-guard"]
                if guard.get("relation") in {None, "can_view", "can_emergency_stop"}:
                    continue
                concrete = path
                for name, value in ids.items():
                    concrete = concrete.replace(f"{{{name}}}", value)
                concrete = concrete.replace("{", "").replace("}", "").removeprefix("/api/v1")
                answer = await vera.ask(
                    method.upper(), concrete, {} if method in {"post", "patch"} else None, status=403
                )
                assert answer["code"] == "forbidden"
                forbidden += 1
        assert forbidden >= 12
        refused = {"command": {"kind": "start_mow"}}
        await vera.ask("POST", f"/fleet/mowers/{mower_id}/commands", refused, status=403)
        assert (await anna.command(mower_id, "start_mow"))["status"] == "executed"
        assert (await vera.command(mower_id, "emergency_stop"))["status"] == "executed"
        stopped = await vera.see_state(mower_id, lambda s: s["activity"] == "paused")
        assert not stopped["blades_on"]


async def test_the_code_that_gives_the_box_away_is_for_those_who_manage_it(tmp_path: Path):
    async with running_box(settings_for(tmp_path)) as box, TestServer(PlayedRelay().application()) as relay:
        anna = await box.person().register()
        vera = await anna.make_member("vera", "viewer")
        asked = await anna.ask("POST", "/box/link", {"relay_url": str(relay.make_url("")).rstrip("/")})
        assert (await anna.ask("GET", "/box/link"))["user_code"] == asked["user_code"] == "BCDF-GHJK"
        for who in (anna, vera):
            status = await who.ask("GET", "/box/status")
            assert status["link"]["status"] == "waiting"
            assert "BCDF-GHJK" not in str(status)
        await vera.ask("GET", "/box/link", status=403)
        await anna.ask("DELETE", "/box/link", status=204)
        assert (await anna.ask("GET", "/box/link"))["status"] == "unlinked"


# -- forgetting


async def test_an_entry_is_removed_then_its_mower_forgotten_with_all_rows(tmp_path: Path):
    settings = settings_for(tmp_path)
    async with running_box(settings) as box:
        anna = await box.person().register()
        mower_id = (await anna.add_simulator())["mower_id"]
        await anna.command(mower_id, "start_mow")
        await anna.see_state(mower_id, lambda s: s["activity"] == "mowing")
        busy = await anna.ask("DELETE", f"/fleet/mowers/{mower_id}", status=409)
        assert busy["hint"] == "Remove the integration's entry first."
        (entry,) = await anna.entries()
        await anna.ask("DELETE", f"/config/entries/{entry['entry_id']}", status=204)
        (left,) = (await anna.ask("GET", "/fleet/mowers"))["items"]
        assert left["mower_id"] == mower_id
        await anna.ask("GET", f"/telemetry/mowers/{mower_id}/state")
        await anna.ask("DELETE", f"/fleet/mowers/{mower_id}", status=204)
        assert (await anna.ask("GET", "/fleet/mowers"))["items"] == []
        assert (await anna.ask("GET", "/telemetry/states"))["items"] == []
        await anna.ask("GET", f"/telemetry/mowers/{mower_id}/state", status=404)
    rows = sqlite3.connect(settings.telemetry_path)
    tables = ("mower_directory", "mowers", "mower_latest", "mower_history", "mower_positions", "command_timeline")
    counts = {table: rows.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}
    rows.close()
    assert counts == dict.fromkeys(tables, 0)
    assert mower_id not in (tmp_path / "mowers.json").read_text()


# -- bad neighbours

FAULTS = {
    "create:raise": "error",
    "create:exit": "error",
    "mowers:rubbish": "error",
    "mowers:auth_failed": "auth_failed",
    "mowers:not_ready": "retry",
    "open:raise": "loaded",
    "open:hang": "loaded",
    "run:raise": "loaded",
    "run:return": "loaded",
    "run:flood_states": "loaded",
    "run:flood_events": "loaded",
    "run:garbage_state": "loaded",
    "run:far_future": "loaded",
    "run:odd": "loaded",
    "run:leak_exit": "loaded",
    "close:raise": "loaded",
}
"""Fault -> where its entry settles. All of them live in one box, next to a mower that works."""


async def test_misbehaving_neighbours_disturb_nobody(tmp_path: Path):
    install_misbehaving(tmp_path / "integrations")
    async with running_box(settings_for(tmp_path)) as box:
        anna = await box.person().register()
        good = (await anna.add_simulator())["mower_id"]
        faults = {await anna.add("misbehaving", serial=fault, fault=fault): fault for fault in FAULTS}

        async def settled() -> bool:
            states = {e["entry_id"]: e["state"] for e in await anna.entries()}
            return all(states[entry_id] == FAULTS[fault] for entry_id, fault in faults.items())

        await until(settled)
        assert (await anna.command(good, "start_mow"))["status"] == "executed"
        assert (await anna.command(good, "emergency_stop"))["status"] == "executed"
        status = await anna.ask("GET", "/box/status")
        phases = {door["mower_id"]: door["phase"] for door in status["mowers"]}
        assert phases.pop(good) == "online"
        assert "parked" in phases.values()
        for entry_id in faults:
            await anna.ask("DELETE", f"/config/entries/{entry_id}", status=204)
        assert [e["domain"] for e in await anna.entries()] == ["simulator"]
        assert (await anna.command(good, "return_to_dock"))["status"] == "executed"


async def test_commands_to_misbehaving_mowers_fail_and_only_those(tmp_path: Path):
    install_misbehaving(tmp_path / "integrations")
    async with running_box(settings_for(tmp_path)) as box:
        anna = await box.person().register()
        good = (await anna.add_simulator())["mower_id"]
        faults = ("send-raise", "send-rubbish", "send-refuse", "send-odd")
        for fault in faults:
            await anna.add("misbehaving", serial=fault, fault=fault.replace("-", ":"))

        async def online() -> dict[str, str]:
            mowers = (await anna.ask("GET", "/fleet/mowers"))["items"]
            bad = {
                m["mower_id"]: m["serial"] for m in mowers if any(m["capabilities"].values()) and m["mower_id"] != good
            }
            return bad if len(bad) == len(faults) else {}

        async with asyncio.TaskGroup() as group:
            sent = {
                serial: group.create_task(anna.command(mower_id, "start_mow"))
                for mower_id, serial in (await until(online)).items()
            }
            fine = group.create_task(anna.command(good, "start_mow"))
        assert {serial: task.result()["status"] for serial, task in sent.items()} == dict.fromkeys(faults, "failed")
        assert fine.result()["status"] == "executed"


# -- what keeps it from starting


async def failure(settings: Any) -> BaseException:
    with pytest.raises(Exception) as caught:
        async with asyncio.timeout(20):
            await run(settings, asyncio.Event())
    return caught.value


async def test_a_busy_port_is_named(tmp_path: Path):
    async with running_box(settings_for(tmp_path / "one")) as box:
        port = int(box.url.rsplit(":", 1)[1])
        err = await failure(settings_for(tmp_path / "two", listen_port=port))
        assert isinstance(err, SettingsError)
        (mistake,) = err.mistakes
        assert mistake.field == "MOWDECK_EDGE_LISTEN_PORT"
        assert str(port) in mistake.reason


async def test_two_boxes_never_share_a_folder(tmp_path: Path):
    async with running_box(settings_for(tmp_path)):
        err = await failure(settings_for(tmp_path))
        assert isinstance(err, StorageError)
        assert "another box" in err.detail


async def test_a_newer_database_is_left_alone(tmp_path: Path):
    settings = settings_for(tmp_path)
    async with running_box(settings):
        pass
    with contextlib.closing(sqlite3.connect(tmp_path / "people.sqlite3")) as people, people:
        people.execute("UPDATE schema_version SET version = 99")
    people.close()
    assert isinstance(await failure(settings), DatabaseNewerError)
    with contextlib.closing(sqlite3.connect(tmp_path / "people.sqlite3")) as people, people:
        assert people.execute("SELECT version FROM schema_version").fetchone() == (99,)
    people.close()


async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    err = await failure(settings_for(tmp_path / "file" / "data"))
    assert isinstance(err, StorageError)
    assert "file" in err.detail


async def test_a_damaged_file_of_entries_is_moved_aside_and_named(tmp_path: Path):
    settings = settings_for(tmp_path)
    (tmp_path / "entries.json").write_text("{broken")
    async with running_box(settings) as box:
        anna = await box.person().register()
        (problem,) = (await anna.ask("GET", "/box/status"))["problems"]
        assert "entries.json" in problem
    (aside,) = tmp_path.glob("entries.json?*")  # noqa: ASYNC240  (a test may wait for its disk)
    assert aside.read_text() == "{broken"
