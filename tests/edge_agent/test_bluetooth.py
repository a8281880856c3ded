"""The whole box and an emulated mower on the virtual radio: heard, offered, paired, driven, left alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from edge_agent.virtual_radio.air import VirtualAir
from edge_agent.virtual_radio.peer_host import HostedPeer
from edge_agent.virtual_radio.radio_server import RadioServer
from edge_agent.virtual_radio.radio_spec import RadioSpec
from integrations.husqvarna_ble.emulator import make_emulated_peer
from tests.edge_agent.whole_box import Person, running_box, settings_for, until

ADDRESS = "C0:00:00:00:00:01"
PIN = "4711"


@dataclass(frozen=True, slots=True)
class Radio:
    """A virtual radio with one mower on it. `setting` is how a box names it."""

    setting: str
    mower: HostedPeer


@pytest.fixture
async def radio(tmp_path: Path) -> AsyncIterator[Radio]:
    spec = RadioSpec(path=str(tmp_path / "radio"))
    async with VirtualAir(supervision_s=1.0) as air, RadioServer(air.link, spec):
        mower = await air.add_peer(make_emulated_peer(ADDRESS, {"pin": PIN, "time_scale": "30"}))
        yield Radio(f"virtual:unix:{spec.path}", mower)


async def offer(person: Person) -> dict[str, Any]:
    async def look() -> dict[str, Any] | None:
        found = (await person.ask("GET", "/config/flows"))["items"]
        return found[0] if found and found[0]["result"]["type"] == "form" else None  # else its first step still runs

    return dict(await until(look))


async def answer(person: Person, flow_id: str, **values: Any) -> dict[str, Any]:
    """Gives an answer and waits for the next thing that a person has to do."""
    await person.ask("POST", f"/config/flows/{flow_id}", {"user_input": values})

    async def look() -> dict[str, Any] | None:
        view = await person.ask("GET", f"/config/flows/{flow_id}")
        return view["result"] if view["result"]["type"] != "progress" else None

    return dict(await until(look))


async def test_from_the_first_advertisement_to_a_mow(radio: Radio, tmp_path: Path) -> None:
    async with running_box(settings_for(tmp_path / "box", bluetooth=(radio.setting,))) as box:
        person = await box.person().register()
        flow = await offer(person)
        assert (flow["domain"], flow["source"], flow["result"]["step_id"]) == ("husqvarna_ble", "discovery", "confirm")
        assert await person.entries() == []  # nothing without a person

        found = await person.ask("GET", "/box/bluetooth")
        (near,) = found["nearby"]
        assert (near["address"], near["domains"], near["is_connectable"]) == (ADDRESS, ["husqvarna_ble"], True)
        assert near["is_pairable"] is True  # as the mower says itself

        assert (await answer(person, flow["flow_id"]))["step_id"] == "pair"
        assert (await answer(person, flow["flow_id"]))["step_id"] == "pin"
        refused = await answer(person, flow["flow_id"], pin="1111")
        assert (refused["step_id"], refused["errors"]) == ("pin", {"pin": "wrong_pin"})
        done = await answer(person, flow["flow_id"], pin=PIN)
        assert done["type"] == "create_entry"

        mower = await person.mower("305")
        assert (mower["links"], mower["domain"]) == (["ble"], "husqvarna_ble")
        started = await person.command(mower["mower_id"], "start_mow")
        assert started["status"] == "executed"
        stopped = await person.command(mower["mower_id"], "emergency_stop")
        assert stopped["status"] == "executed"
        diagnostics = await person.ask("GET", "/box/diagnostics")
        assert PIN not in str(diagnostics)

        released = await person.ask("POST", "/box/bluetooth/release", {"minutes": 5})
        assert 290 < released["released_for_s"] <= 300
        taken_back = await person.ask("POST", "/box/bluetooth/release", {"minutes": 0})
        assert taken_back["released_for_s"] == 0

    async with running_box(settings_for(tmp_path / "box", bluetooth=(radio.setting,))) as box:
        person = await box.person().sign_in()
        again = await person.mower("305")  # online: the bond has outlived the box
        assert again["mower_id"] == mower["mower_id"]
        assert (await person.ask("GET", "/config/flows"))["items"] == []

    await radio.mower.forget_bonds()
    async with running_box(settings_for(tmp_path / "box", bluetooth=(radio.setting,))) as box:
        person = await box.person().sign_in()

        async def asked_again() -> dict[str, Any] | None:
            found = (await person.ask("GET", "/config/flows"))["items"]
            return next((view for view in found if view["source"] == "reauth"), None)

        reauth = dict(await until(asked_again))
        assert reauth["domain"] == "husqvarna_ble"
        (entry,) = await person.entries()
        assert (entry["state"], entry["reason_code"]) == ("auth_failed", "auth-failed")
        assert [m["mower_id"] for m in (await person.ask("GET", "/fleet/mowers"))["items"]] == [mower["mower_id"]]


async def test_a_box_without_a_radio_says_so(tmp_path: Path) -> None:
    async with running_box(settings_for(tmp_path / "box", bluetooth=())) as box:
        person = await box.person().register()
        assert await person.ask("GET", "/box/bluetooth") == {"adapters": [], "nearby": [], "released_for_s": 0}
        refused = await person.ask("POST", "/box/bluetooth/release", {"minutes": 5}, status=502)
        assert refused["code"] == "bluetooth-adapter-off"
        viewer = await person.make_member("otto", "viewer")
        await viewer.ask("GET", "/box/bluetooth", status=403)


async def test_a_damaged_list_of_bonds_is_in_the_boxs_status(radio: Radio, tmp_path: Path) -> None:
    folder = tmp_path / "box"
    folder.mkdir()
    (folder / "bonds.json").write_bytes(b"{")
    async with running_box(settings_for(tmp_path / "box", bluetooth=(radio.setting,))) as box:
        person = await box.person().register()
        problems = (await person.ask("GET", "/box/status"))["problems"]
        assert any("bonds.json" in problem and "paired anew" in problem for problem in problems)


async def test_an_ignored_mower_is_offered_again_when_it_is_wanted(radio: Radio, tmp_path: Path) -> None:
    async with running_box(settings_for(tmp_path / "box", bluetooth=(radio.setting,))) as box:
        person = await box.person().register()
        flow = await offer(person)
        await person.ask("DELETE", f"/config/flows/{flow['flow_id']}?ignore=true", status=204)
    async with running_box(settings_for(tmp_path / "box", bluetooth=(radio.setting,))) as box:
        person = await box.person().sign_in()

        async def heard() -> bool:
            return bool((await person.ask("GET", "/box/bluetooth"))["nearby"])

        await until(heard)
        assert (await person.ask("GET", "/config/flows"))["items"] == []
        (device,) = (await person.ask("GET", "/config/ignored"))["items"]
        await person.ask("DELETE", f"/config/ignored/{device['domain']}/{device['unique_id']}", status=204)
        assert (await offer(person))["result"]["step_id"] == "confirm"
