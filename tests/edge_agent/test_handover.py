"""Two whole boxes, one emulated Bluetooth mower, and `mowdeck handover` between them: from the van to the home."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from edge_agent.virtual_radio.air import VirtualAir
from edge_agent.virtual_radio.radio_server import RadioServer
from edge_agent.virtual_radio.radio_spec import RadioSpec
from integrations.husqvarna_ble.emulator import make_emulated_peer
from tests.edge_agent.whole_box import Person, running_box, settings_for, until

ADDRESS = "C0:00:00:00:00:01"
PIN = "4711"


@pytest.fixture
async def radio(tmp_path: Path) -> AsyncIterator[str]:
    spec = RadioSpec(path=str(tmp_path / "radio"))
    async with VirtualAir(supervision_s=1.0) as air, RadioServer(air.link, spec):
        await air.add_peer(make_emulated_peer(ADDRESS, {"pin": PIN, "time_scale": "30"}))
        yield f"virtual:unix:{spec.path}"


async def run(person: Person, *words: str, stdin: str = "", status: int = 0) -> str:
    """What the command (a process of its own) says to somebody signed in at that person's box."""
    own = {"MOWDECK_CLIENT_HOST": person.url, "MOWDECK_CLIENT_TOKEN": person.token, "COLUMNS": "200", "NO_COLOR": "1"}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "core.command_line",
        *words,
        env={**os.environ, **own},
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
    )
    said, complaints = await process.communicate(stdin.encode())
    assert process.returncode == status, (said, complaints)
    return said.decode()


async def ask(person: Person, *words: str, status: int = 0) -> Any:
    return json.loads(await run(person, *words, "--json", status=status))


async def pair(person: Person, tmp_path: Path) -> None:
    """`mowdeck pair`, once the box hears the mower or asks for it."""

    async def look() -> Any:
        return (await person.ask("GET", "/config/flows"))["items"]

    await until(look)
    pin = tmp_path / "pin"
    pin.write_text(PIN)
    await run(person, "pair", ADDRESS, "--pin-file", str(pin), stdin="y\ny\ny\n")


async def test_from_the_van_to_the_home(radio: str, tmp_path: Path) -> None:
    file = tmp_path / "garden.mowdeck"
    home_settings = settings_for(tmp_path / "home", bluetooth=(radio,), name="Home")
    async with running_box(home_settings) as box:
        key = await ask(await box.person().register(), "handover", "key")

    async with running_box(settings_for(tmp_path / "van", bluetooth=(radio,), name="Van")) as box:
        van = await box.person().register("ina")
        await pair(van, tmp_path)
        mower = await van.mower("305")
        refused = await ask(van, "handover", "export", str(file), "--all", "--to", "hello", status=2)
        assert refused["error"]["mistakes"][0]["field"] == "recipient"
        made = await ask(van, "handover", "export", str(file), "--all", "--to", key["public_key"], "--remove")
        assert made["recipient"] == key["fingerprint"]
        assert file.stat().st_mode & 0o777 == 0o600
        assert PIN not in file.read_text()
        assert await van.entries() == []
        foreign = await ask(van, "handover", "import", str(file), status=1)
        assert "is for another box" in foreign["error"]["detail"]

    async with running_box(home_settings) as box:
        home = await box.person().sign_in()
        shown = await run(home, "handover", "import", str(file), stdin="y\n")
        assert "has to be paired here" in shown
        assert "No mower moves" in shown

        async def waiting() -> Any:
            return next((e for e in await home.entries() if e["state"] == "auth_failed"), None)

        entry = await until(waiting)
        assert (entry["reason_code"], entry["source"], entry["tries"]) == ("needs-pairing", "import", 0)
        assert PIN not in str(await home.ask("GET", "/box/diagnostics"))
        await pair(home, tmp_path)
        arrived = await home.mower("305")
        assert arrived["name"] == mower["name"]
        state = await home.state(arrived["mower_id"])
        assert state is not None
        assert state["activity"] in {"docked", "charging"}  # nothing has moved it
        assert [e["entry_id"] for e in await home.entries()] == [entry["entry_id"]]

    async with running_box(home_settings) as box:
        again = await ask(await box.person().sign_in(), "handover", "import", str(file), status=1)
        assert (again["error"]["code"], "was imported here at" in again["error"]["detail"]) == ("conflict", True)


async def test_only_the_owner_hands_over(tmp_path: Path) -> None:
    """Who may manage mowers for a while must not be able to take their secrets away, sealed for a key of their own."""
    async with running_box(settings_for(tmp_path / "box", bluetooth=())) as box:
        owner = await box.person().register()
        manager = await owner.make_member("mia", "manager")
        entry_id = await owner.add("simulator", name="Shaun", seed=7, time_scale=200.0)
        key = (await owner.ask("GET", "/box/handover/key"))["public_key"]
        body = {"entry_ids": [entry_id], "recipient": key}
        for method, path, given in (
            ("GET", "/box/handover/key", None),
            ("POST", "/box/handover/exports", body),
            ("POST", "/box/handover/checks", {"bundle": "x"}),
            ("POST", "/box/handover/imports", {"bundle": "x"}),
        ):
            await manager.ask(method, path, given, status=403)
        made = await owner.ask("POST", "/box/handover/exports", body, status=201)
        own = await owner.ask("POST", "/box/handover/imports", {"bundle": made["bundle"]}, status=409)
        assert "already" in own["detail"]
        await owner.ask("POST", "/box/handover/exports", {**body, "days": 0}, status=422)
        await owner.ask("POST", "/box/handover/exports", {**body, "entry_ids": []}, status=422)
