"""The whole box, a proxy, and an emulated mower that only the proxy can reach: added, paired, driven, after a restart."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from edge_agent.virtual_radio.air import VirtualAir
from edge_agent.virtual_radio.emulated_proxy import EmulatedProxy
from integrations.husqvarna_ble.emulator import make_emulated_peer
from tests.edge_agent.test_bluetooth import answer, offer
from tests.edge_agent.whole_box import Person, running_box, settings_for, until

ADDRESS = "C0:00:00:00:00:01"
PIN = "4711"
KEY = "bW93ZGVjayBwcm94eSBrZXkgb2YgMzIgYnl0ZXMgISE="
PROXIES = "/box/bluetooth/proxies"


@pytest.fixture
async def proxy() -> AsyncIterator[EmulatedProxy]:
    async with VirtualAir(supervision_s=1.0) as air:
        await air.add_peer(make_emulated_peer(ADDRESS, {"pin": PIN, "time_scale": "30"}))
        async with EmulatedProxy(await air.add_adapter("shed"), key=KEY) as running:
            yield running


async def seen(person: Person, state: str) -> dict[str, Any]:
    async def look() -> dict[str, Any] | None:
        return next((one for one in (await person.ask("GET", PROXIES))["items"] if one["state"] == state), None)

    return dict(await until(look))


async def test_a_mower_is_paired_and_driven_through_a_proxy(proxy: EmulatedProxy, tmp_path: Path) -> None:
    settings = settings_for(tmp_path / "box", bluetooth=("proxies",))
    async with running_box(settings) as box:
        person = await box.person().register()
        added = await person.ask("POST", PROXIES, at(proxy), status=201)
        assert (added["state"], added["is_encrypted"]) == ("connecting", True)
        up = await seen(person, "connected")
        assert (up["name"], up["firmware"], up["source"]) == ("shed", "2026.9.1", "proxy-a0b765000001")

        flow = await offer(person)
        assert (await answer(person, flow["flow_id"]))["step_id"] == "pair"
        assert (await answer(person, flow["flow_id"]))["step_id"] == "pin"
        assert (await answer(person, flow["flow_id"], pin=PIN))["type"] == "create_entry"
        mower = await person.mower("305")
        started = await person.command(mower["mower_id"], "start_mow")
        assert started["status"] == "executed"
        stopped = await person.command(mower["mower_id"], "emergency_stop")
        assert stopped["status"] == "executed"

        radio = await person.ask("GET", "/box/bluetooth")
        (adapter,) = radio["adapters"]
        assert (adapter["title"], adapter["can_connect"], adapter["slots"]) == ("shed", True, 3)
        assert {near["source"] for near in radio["nearby"]} == {"shed"}
        text = str([await person.ask("GET", "/box/diagnostics"), await person.ask("GET", PROXIES), radio])
        assert KEY not in text

        viewer = await person.make_member("otto", "viewer")
        await viewer.ask("GET", PROXIES, status=403)
        await viewer.ask("POST", PROXIES, at(proxy), status=403)
        await viewer.ask("DELETE", f"{PROXIES}/{added['proxy_id']}", status=403)

    async with running_box(settings) as box:  # proxy, key and bond are there again, without a person
        person = await box.person().sign_in()
        await seen(person, "connected")
        again = await person.mower("305")
        restarted = await person.command(again["mower_id"], "start_mow")
        assert restarted["status"] == "executed"
        await person.ask("DELETE", f"{PROXIES}/{added['proxy_id']}", status=204)
        assert (await person.ask("GET", PROXIES))["items"] == []
        await person.ask("DELETE", f"{PROXIES}/{added['proxy_id']}", status=404)


async def test_mistakes_are_named_and_the_key_is_not(proxy: EmulatedProxy, tmp_path: Path) -> None:
    async with running_box(settings_for(tmp_path / "box", bluetooth=("proxies",))) as box:
        person = await box.person().register()
        wrong = await person.ask("POST", PROXIES, {**at(proxy), "encryption_key": "c2VjcmV0"}, status=422)
        assert wrong["code"] == "invalid-input"
        assert "c2VjcmV0" not in str(wrong)
        await person.ask("POST", PROXIES, at(proxy), status=201)
        twice = await person.ask("POST", PROXIES, at(proxy), status=409)
        assert twice["code"] == "conflict"


async def test_a_box_with_bluetooth_switched_off_says_so(proxy: EmulatedProxy, tmp_path: Path) -> None:
    async with running_box(settings_for(tmp_path / "box", bluetooth=())) as box:
        person = await box.person().register()
        refused = await person.ask("POST", PROXIES, at(proxy), status=502)
        assert refused["code"] == "bluetooth-adapter-off"


def at(proxy: EmulatedProxy) -> dict[str, Any]:
    return {"host": "127.0.0.1", "port": proxy.port, "encryption_key": KEY}
