"""Every route of the relay as nobody, and as the owner of another account: no byte of the victim, and no change."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from tests.cloud_relay.fake_box import connected_box
from tests.cloud_relay.relay_parts import item
from tests.cloud_relay.running_relay import running_relay
from tests.contract.route_walk import RouteWalk

M1 = "mower-of-anna"


class Client:
    """What the walk needs of a test client, over the relay's real socket."""

    def __init__(self, relay):
        self._relay = relay

    @asynccontextmanager
    async def request(self, method, path, **options):
        async with self._relay.session.request(method, self._relay.url + path, **options) as answer:
            yield answer


async def furnish(relay, token):
    """Everything that an account can have; the ids by path parameter."""
    grant = await relay.link(token, "fingerprint-of-annas-box")
    me = (await relay.call(token, "GET", "/identity/me"))[1]
    account = me["account"]["account_id"] if "account" in me else me["account_id"]
    site = (await relay.call(token, "POST", "/fleet/sites", {"name": "Annas park"}))[1]["site_id"]
    group = (await relay.call(token, "POST", "/fleet/groups", {"name": "Annas group"}))[1]["group_id"]
    status, helper = await relay.call(
        token,
        "POST",
        f"/identity/accounts/{account}/users",
        {
            "username": "annas-helper",
            "password": "a long enough password",
            "assignments": [{"role": "viewer", "level": {"type": "account", "id": account}}],
        },
    )
    assert status == 201, helper
    async with connected_box(grant) as box:
        await box.say_hello(item(M1))
        await relay.until(token, f"/fleet/mowers/{M1}", lambda m: m["is_edge_online"])
        _, command = await relay.call(token, "POST", f"/fleet/mowers/{M1}/commands", {"command": {"kind": "pause_mow"}})
        await box.command(command["command_id"])
    _, given = await relay.call(token, "GET", f"/identity/accounts/{account}/role-assignments")
    return {
        "account_id": account,
        "site_id": site,
        "group_id": group,
        "edge_id": grant.edge_id,
        "mower_id": M1,
        "command_id": command["command_id"],
        "user_id": helper["user_id"],
        "assignment_id": given["items"][0]["assignment_id"],
    }


def bodies_of(ids):
    mower = {"name": "x", "edge_id": ids["edge_id"], "domain": "simulator", "site_id": ids["site_id"]}
    on_account = {"type": "account", "id": ids["account_id"]}
    command = {"command": {"kind": "emergency_stop"}}
    return {
        "POST /fleet/groups": {"name": "x", "site_id": ids["site_id"]},
        "POST /fleet/mowers": {**mower, "group_ids": [ids["group_id"]]},
        "PATCH /fleet/mowers/{mower_id}": {"name": "x"},
        "PUT /fleet/mowers/{mower_id}/groups": {"group_ids": []},
        "POST /alerts/{alert_id}/acknowledge": {},
        "PATCH /fleet/sites/{site_id}": {"name": "x"},
        "PATCH /fleet/groups/{group_id}": {"name": "x"},
        "PATCH /fleet/edges/{edge_id}": {"name": "x"},
        "POST /edges/link/{user_code}/confirm": {"site_id": ids["site_id"]},
        "POST /fleet/mowers/{mower_id}/commands": command,
        "POST /fleet/sites/{site_id}/commands": command,
        "POST /fleet/groups/{group_id}/commands": command,
        "POST /identity/accounts/{account_id}/users": {
            "username": "berts-spy",
            "password": "a long enough password",
            "assignments": [{"role": "owner", "level": on_account}],
        },
        "POST /identity/accounts/{account_id}/role-assignments": {
            "user_id": ids["user_id"],
            "role": "owner",
            "level": on_account,
        },
        "POST /identity/accounts/{account_id}/tokens": {
            "name": "x",
            "role": "viewer",
            "level": {"type": "mower", "id": ids["mower_id"]},
            "expires_at": "2027-06-01T00:00:00Z",
        },
    }


async def everything(relay, token, ids):
    """All that the victim can read of its own."""
    paths = [
        "/fleet/sites?include_default=true",
        "/fleet/groups",
        "/fleet/mowers",
        f"/fleet/mowers/{ids['mower_id']}/commands",
        f"/identity/accounts/{ids['account_id']}/users",
    ]
    found = {path: await relay.call(token, "GET", path) for path in paths}
    assert all(status == 200 for status, _ in found.values()), found
    return found


@pytest.fixture
async def relay(tmp_path):
    async with running_relay(tmp_path) as running:
        yield running


async def test_every_route_as_nobody_and_as_a_stranger(relay):
    anna = await relay.sign_up("anna")
    bert = await relay.sign_up("bert")
    ids = await furnish(relay, anna)
    before = await everything(relay, anna, ids)
    walk = RouteWalk(client=Client(relay), routes=relay.relay.routes(), values=ids, bodies=bodies_of(ids))
    assert walk.find_unguarded() == []
    assert await walk.find_open_to_nobody() == []
    foreign = set(ids.values())
    assert await walk.find_open_to_stranger(bert, foreign_ids=foreign) == []
    assert await walk.find_smuggled(bert, ids["account_id"], foreign_ids=foreign) == []
    assert await everything(relay, anna, ids) == before
    assert (await relay.call(anna, "GET", f"/fleet/edges/{ids['edge_id']}"))[0] == 200


async def test_the_socket_denies_a_strangers_mower(relay):
    anna, bert = await relay.sign_up("anna"), await relay.sign_up("bert")
    await furnish(relay, anna)
    async with relay.session.ws_connect(f"{relay.url}/api/v1/realtime/ws") as socket:
        await socket.send_json({"type": "auth", "token": bert})
        assert (await socket.receive_json(timeout=10))["type"] == "ready"
        await socket.send_json({"type": "subscribe", "mower_ids": [M1, "unknown"]})
        answer = await socket.receive_json(timeout=10)
        assert (answer["mower_ids"], sorted(answer["denied"])) == ([], sorted([M1, "unknown"]))
