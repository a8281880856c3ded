"""The plugin platform over HTTP, as the web app uses it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from core.domain.access import ObjectRef, ObjectType
from core.platform.entry import EntryState
from core.platform.flow import FormResult
from core.web.application import build_application
from core.web.host_routes import HostInfo
from core.web.route import OnAccount
from edge_agent.api.config_routes import MANAGE, config_routes
from tests.core.platform.conftest import running_platform
from tests.fakes.authorizer import FakeAuthorizer
from tests.fakes.clock import ManualClock
from tests.fakes.misbehaving_folder import install_misbehaving
from tests.fakes.tokens import FakeVerifier, make_principal

ANNA, VERA = make_principal("anna"), make_principal("vera")


class Box:
    """A box's API with its platform behind it."""

    def __init__(self, platform: Any, client: TestClient[Any, Any], token: str, viewer: str) -> None:
        self.platform = platform
        self.client = client
        self._token = token
        self.viewer = viewer

    async def ask(
        self, method: str, path: str, body: Any = None, *, status: int = 200, token: str | None = None
    ) -> Any:
        headers = {"Authorization": f"Bearer {token or self._token}"}
        async with self.client.request(method, f"/api/v1/config{path}", json=body, headers=headers) as answer:
            text = await answer.text()
            assert answer.status == status, text
            return await answer.json(content_type=None) if text else None


@pytest.fixture
async def box(tmp_path: Path):
    clock, verifier, authorizer = ManualClock(), FakeVerifier(), FakeAuthorizer()
    (tmp_path / "builtin").mkdir()
    custom = install_misbehaving(tmp_path / "custom")
    (custom / "broken").mkdir()
    (custom / "misbehaving" / "strings.json").write_text('{"config": {"step": {"user": {"title": "Hello"}}}}')
    account = ObjectRef(type=ObjectType.ACCOUNT, id=ANNA.account_id)
    authorizer.allow_role(ANNA, "owner", account)
    authorizer.allow_role(VERA, "operator", account)
    async with running_platform(tmp_path, custom, clock) as platform:
        app = build_application(
            config_routes(platform.entries, platform.flows, platform.loader),
            verifier=verifier,
            authorizer=authorizer,
            clock=clock,
            host=HostInfo(kind="box", version="0.1.0", name="Shed"),
        )
        async with TestClient(TestServer(app)) as client:
            yield Box(platform, client, verifier.issue(ANNA), verifier.issue(VERA))


async def test_every_route_needs_the_right_to_manage(box: Box):
    routes = config_routes(box.platform.entries, box.platform.flows, box.platform.loader)
    assert all(route.guard == MANAGE and isinstance(route.guard, OnAccount) for route in routes)
    for route in routes:
        path = route.path.removeprefix("/config").format(entry_id="x", flow_id="x", domain="x", device="x")
        body = None if route.method in ("GET", "DELETE") else {}
        await box.ask(route.method, path, body, status=403, token=box.viewer)


async def test_ignored_devices_can_be_offered_again(box: Box):
    flow = await box.platform.flows.start("misbehaving", "discovery", {"serial": "C0:01", "name": "Next door"})
    await box.ask("DELETE", f"/flows/{flow.flow_id}?ignore=true", status=204)
    (device,) = (await box.ask("GET", "/ignored"))["items"]
    assert (device["domain"], device["unique_id"], device["title"]) == ("misbehaving", "C0:01", "Next door")
    await box.ask("DELETE", "/ignored/misbehaving/C0%3A01", status=204)
    assert (await box.ask("GET", "/ignored"))["items"] == []
    await box.ask("DELETE", "/ignored/misbehaving/C0%3A01", status=404)
    again = await box.platform.flows.start("misbehaving", "discovery", {"serial": "C0:01"})
    assert isinstance(again.result, FormResult)


async def test_integrations_with_their_problems_and_texts(box: Box):
    broken, good = (await box.ask("GET", "/integrations"))["items"]
    assert (broken["domain"], "manifest.json" in broken["problem"]) == ("broken", True)
    assert good["domain"] == "misbehaving"
    assert good["has_config_flow"] is True
    assert good["texts"]["en"]["config"]["step"]["user"]["title"] == "Hello"


async def test_from_the_first_form_to_a_loaded_entry(box: Box):
    flow = await box.ask("POST", "/flows", {"domain": "misbehaving"}, status=201)
    assert flow["result"]["type"] == "form"
    assert [field["name"] for field in flow["result"]["fields"]] == ["serial", "fault", "pin"]
    path = f"/flows/{flow['flow_id']}"
    assert await box.ask("GET", path) == flow
    assert (await box.ask("GET", "/flows"))["items"] == [flow]
    wrong = await box.ask("POST", path, {"user_input": {"serial": "", "pin": "typed-pin"}})
    assert set(wrong["result"]["errors"]) == {"serial"}
    assert "typed-pin" not in str(wrong)
    done = await box.ask("POST", path, {"user_input": {"serial": "abc", "pin": "typed-pin"}})
    assert done["result"] == {
        "type": "create_entry",
        "title": "Misbehaving abc",
        "entry_id": done["result"]["entry_id"],
    }
    await box.ask("GET", path, status=404)
    await box.platform.settled(done["result"]["entry_id"])
    (entry,) = (await box.ask("GET", "/entries"))["items"]
    assert entry["state"] == "loaded"
    assert [mower["serial"] for mower in entry["mowers"]] == ["abc"]
    assert "typed-pin" not in str(entry)
    assert "data" not in entry


async def test_entries_are_renamed_disabled_reloaded_and_removed(box: Box):
    entry_id = await box.platform.add("mowers:raise")
    path = f"/entries/{entry_id}"
    assert (await box.ask("PATCH", path, {"title": "Front"}))["title"] == "Front"
    await box.ask("PATCH", path, {"title": ""}, status=422)
    await box.ask("PATCH", path, {"data": {"fault": ":"}}, status=422)
    assert (await box.ask("POST", f"{path}/reload"))["state"] == "error"
    assert (await box.ask("PATCH", path, {"is_disabled": True}))["state"] == "not_loaded"
    await box.ask("POST", f"{path}/reload", status=409)
    await box.ask("PATCH", path, {"is_disabled": False})
    await box.platform.until(lambda: box.platform.state(entry_id) is EntryState.ERROR)
    await box.ask("DELETE", path, status=204)
    await box.ask("DELETE", path, status=404)
    assert (await box.ask("GET", "/entries"))["items"] == []


async def test_reauth_needs_its_entry(box: Box):
    entry_id = await box.platform.add()
    await box.ask("POST", "/flows", {"domain": "misbehaving", "source": "reauth"}, status=422)
    await box.ask("POST", "/flows", {"domain": "misbehaving", "entry_id": entry_id}, status=422)
    await box.ask("POST", "/flows", {"domain": "misbehaving", "source": "discovery"}, status=422)
    body = {"domain": "misbehaving", "source": "reauth", "entry_id": entry_id}
    flow = await box.ask("POST", "/flows", body, status=201)
    done = await box.ask("POST", f"/flows/{flow['flow_id']}", {"user_input": {"pin": "1"}})
    assert done["result"]["reason"] == "reauth_successful"


async def test_flows_can_be_given_up_or_ignored(box: Box):
    flow = await box.ask("POST", "/flows", {"domain": "misbehaving"}, status=201)
    await box.ask("DELETE", f"/flows/{flow['flow_id']}?ignore=true", status=409)
    await box.ask("DELETE", f"/flows/{flow['flow_id']}", status=204)
    await box.ask("POST", "/flows", {"domain": "absent"}, status=404)
    found = await box.platform.flows.start("misbehaving", "discovery", {"serial": "s"})
    await box.ask("DELETE", f"/flows/{found.flow_id}?ignore=true", status=204)
    again = await box.platform.flows.start("misbehaving", "discovery", {"serial": "s"})
    assert again.result.reason == "ignored"
