"""Driving by hand over the box's own API, with the simulator: the whole box in one process, real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.edge_agent.whole_box import Person, running_box, settings_for, until

pytestmark = pytest.mark.timeout(60)


@asynccontextmanager
async def socket_of(person: Person) -> AsyncIterator[aiohttp.ClientWebSocketResponse[Any]]:
    async with person.http.ws_connect(f"{person.url}/api/v1/realtime/ws") as socket:
        await socket.send_json({"type": "auth", "token": person.token})
        assert (await socket.receive_json(timeout=10))["type"] == "ready"
        yield socket


async def add_mower(person: Person) -> str:
    """One that lives in real time: in a faster life it leaves manual mode before anybody has touched the stick."""
    await person.add("simulator", name="Shaun", seed=7, time_scale=1.0)
    return str((await person.mower("Shaun"))["mower_id"])


async def push(socket: aiohttp.ClientWebSocketResponse[Any], mower_id: str, sequence: int, linear: float) -> None:
    frame = {"sequence": sequence, "linear": linear, "angular": 0.0, "ttl_ms": 1000}
    await socket.send_str(json.dumps({"type": "drive", "mower_id": mower_id, "frame": frame}))


async def sit_down(person: Person, mower_id: str) -> str:
    """An open session; its id."""
    body = {"command": {"kind": "manual_drive"}}
    issued = await person.ask("POST", f"/fleet/mowers/{mower_id}/commands", body, status=202)

    async def look() -> bool:
        sessions = (await person.ask("GET", f"/fleet/mowers/{mower_id}/drive-sessions"))["items"]
        return [s["session_id"] for s in sessions] == [issued["command_id"]]

    await until(look)
    return str(issued["command_id"])


async def ended(person: Person, session_id: str) -> tuple[str, str | None]:
    async def look() -> dict[str, Any] | None:
        view = await person.ask("GET", f"/fleet/commands/{session_id}")
        return view if view["status"] not in {"pending", "accepted"} else None

    view = dict(await until(look))
    return view["status"], view["reason"]


async def test_a_household_drives_its_mower(tmp_path: Path) -> None:
    async with running_box(settings_for(tmp_path)) as box:
        anna = await box.person().register()
        mower_id = await add_mower(anna)
        ben, vera = await anna.make_member("ben", "operator"), await anna.make_member("vera", "viewer")
        body = {"command": {"kind": "manual_drive"}}
        await vera.ask("POST", f"/fleet/mowers/{mower_id}/commands", body, status=403)
        session_id = await sit_down(anna, mower_id)
        taken = await ben.ask("POST", f"/fleet/mowers/{mower_id}/commands", body, status=409)
        assert taken["detail"] == "anna is driving this mower"
        async with socket_of(anna) as stick, socket_of(ben) as other:
            before = await anna.state(mower_id)
            await push(stick, mower_id, 1, -1.0)

            def has_moved(state: dict[str, Any]) -> bool:
                return before is not None and bool(state["position"] != before["position"])

            await anna.see_state(mower_id, has_moved)
            await push(stick, mower_id, 2, -1.0)
            await push(stick, mower_id, 2, -1.0)
            error = await stick.receive_json(timeout=10)
            assert (error["code"], "not newer" in error["detail"]) == ("invalid_message", True)
            stopped = await anna.see_state(mower_id, lambda s: s["activity"] == "manual" and not s["speed_mps"])
            assert stopped["blades_on"] is not True
            await push(other, mower_id, 3, 1.0)
            assert (await other.receive_json(timeout=10))["code"] == "unauthorized"
            await vera.ask("DELETE", f"/fleet/mowers/{mower_id}/drive-sessions/{session_id}", status=204)
            assert await ended(anna, session_id) == ("executed", "ended by somebody else (vera)")
            await push(stick, mower_id, 4, -1.0)
            assert (await stick.receive_json(timeout=10))["code"] == "unauthorized"
        assert (await anna.command(mower_id, "start_mow"))["status"] == "executed"


async def test_the_socket_closes(tmp_path: Path) -> None:
    async with running_box(settings_for(tmp_path)) as box:
        anna = await box.person().register()
        mower_id = await add_mower(anna)
        session_id = await sit_down(anna, mower_id)
        async with socket_of(anna) as stick:
            for sequence in range(100):
                await push(stick, mower_id, sequence, -1.0)
                if ((await anna.state(mower_id)) or {})["speed_mps"]:
                    break
                await asyncio.sleep(0.1)
        assert await ended(anna, session_id) == ("executed", "the driver's connection ended")
        await anna.see_state(mower_id, lambda s: s["activity"] in {"idle", "paused"} and not s["speed_mps"])


async def test_a_stop_ends_it_and_a_restart_never_goes_on(tmp_path: Path) -> None:
    settings = settings_for(tmp_path)
    async with running_box(settings) as box:
        anna = await box.person().register()
        mower_id = await add_mower(anna)
        session_id = await sit_down(anna, mower_id)
        assert (await anna.command(mower_id, "emergency_stop"))["status"] == "executed"
        assert await ended(anna, session_id) == ("executed", "ended by an emergency stop")
        session_id = await sit_down(anna, mower_id)
    async with running_box(settings) as box:
        anna = await box.person().sign_in("anna")
        status, reason = await ended(anna, session_id)
        assert (status, reason) in {("failed", "interrupted"), ("executed", "the mower is out of reach")}
        await anna.mower("Shaun")
        assert (await anna.ask("GET", f"/fleet/mowers/{mower_id}/drive-sessions"))["items"] == []
        async with socket_of(anna) as stick, asyncio.timeout(10):
            await push(stick, mower_id, 1, -1.0)
            assert (await stick.receive_json())["code"] == "unauthorized"
