"""The fleet over HTTP: who gets what, in which shape, with which status."""

from __future__ import annotations

import pytest

from cloud_relay.edges.routes import EdgeRoutes
from cloud_relay.fleet.hierarchy import group_ref, mower_ref, site_ref
from cloud_relay.fleet.mower_routes import MowerChangeRoutes
from cloud_relay.fleet.site_routes import GroupRoutes, SiteRoutes
from core.domain.access import Grant
from core.domain.errors import UnauthenticatedError
from core.web.application import build_application
from core.web.host_routes import HostInfo

VIEWER = frozenset({Grant.VIEW})
KEEPER = frozenset({Grant.VIEW, Grant.MANAGE})


class Tokens:
    """Principals by token."""

    def __init__(self):
        self.known = {}

    async def verify(self, token):
        try:
            return self.known[token]
        except KeyError:
            raise UnauthenticatedError("unknown token") from None


@pytest.fixture
async def tokens(parts):
    made = Tokens()
    made.known["owner"] = await parts.person("acc-a")
    made.known["viewer"] = await parts.person("acc-a", VIEWER)
    made.known["stranger"] = await parts.person("acc-b")
    return made


@pytest.fixture
async def call(parts, tokens, aiohttp_client):
    routes = (
        *SiteRoutes(sites=parts.sites, rights=parts.rights).routes(),
        *GroupRoutes(groups=parts.groups, rights=parts.rights).routes(),
        *MowerChangeRoutes(mowers=parts.mowers, catalog=parts.catalog, rights=parts.rights).routes(),
        *EdgeRoutes(links=parts.links, registry=parts.registry, rights=parts.rights).routes(),
    )
    app = build_application(
        routes,
        verifier=tokens,
        authorizer=parts.authorizer,
        clock=parts.clock,
        host=HostInfo(kind="relay", version="0", name="relay"),
    )
    client = await aiohttp_client(app)

    async def send(who, method, path, body=None):
        headers = {"Authorization": f"Bearer {who}"} if who else {}
        async with client.request(method, f"/api/v1{path}", json=body, headers=headers) as answer:
            return answer.status, (await answer.json() if answer.status != 204 else None)

    return send


async def linked(call, token="owner", fingerprint="fingerprint-of-box-1"):
    _, offer = await call(None, "POST", "/edges/link", {"name": "Shed", "version": "1", "fingerprint": fingerprint})
    status, edge = await call(token, "POST", f"/edges/link/{offer['user_code']}/confirm", {})
    assert status == 201
    status, grant = await call(None, "POST", "/edges/link/token", {"device_code": offer["device_code"]})
    assert status == 200
    assert grant["edge_id"] == edge["edge_id"]
    return grant


async def test_default_site_is_hidden_unless_asked_for(call):
    await linked(call)
    assert await call("owner", "GET", "/fleet/sites") == (200, {"items": []})
    _, shown = await call("owner", "GET", "/fleet/sites?include_default=true")
    assert [s["is_default"] for s in shown["items"]] == [True]
    site_id = shown["items"][0]["site_id"]
    assert (await call("owner", "PATCH", f"/fleet/sites/{site_id}", {"name": "x"}))[0] == 409
    assert (await call("owner", "DELETE", f"/fleet/sites/{site_id}"))[0] == 409
    assert (await call("stranger", "GET", "/fleet/sites?include_default=true"))[1] == {"items": []}


async def test_sites(call):
    status, site = await call("owner", "POST", "/fleet/sites", {"name": "Park", "time_zone": "Europe/Berlin"})
    assert status == 201
    path = f"/fleet/sites/{site['site_id']}"
    assert (await call("viewer", "GET", path))[1] == site
    assert (await call("viewer", "PATCH", path, {"name": "x"}))[0] == 403
    assert (await call("viewer", "POST", "/fleet/sites", {"name": "x"}))[0] == 403
    assert (await call("stranger", "GET", path))[0] == 404
    assert (await call("stranger", "DELETE", path))[0] == 404
    assert (await call("owner", "PATCH", path, {"name": "  "}))[0] == 422
    assert (await call("owner", "PATCH", path, {"account_id": "acc-b"}))[0] == 422
    assert (await call("owner", "DELETE", path))[0] == 204
    assert (await call("owner", "GET", path))[0] == 404


async def test_groups_follow_the_rights_of_their_parent(parts, call, tokens):
    park = (await call("owner", "POST", "/fleet/sites", {"name": "Park"}))[1]["site_id"]
    tokens.known["keeper"] = await parts.person("acc-a", KEEPER, site_ref(park))
    status, group = await call("keeper", "POST", "/fleet/groups", {"name": "g", "site_id": park})
    assert status == 201
    assert (await call("keeper", "POST", "/fleet/groups", {"name": "over all"}))[0] == 403
    assert (await call("viewer", "POST", "/fleet/groups", {"name": "g", "site_id": park}))[0] == 403
    assert (await call("stranger", "POST", "/fleet/groups", {"name": "g", "site_id": park}))[0] == 404
    path = f"/fleet/groups/{group['group_id']}"
    assert (await call("viewer", "GET", path))[0] == 200
    assert (await call("stranger", "PATCH", path, {"name": "x"}))[0] == 404
    assert (await call("stranger", "GET", "/fleet/groups"))[1] == {"items": []}
    tokens.known["of group"] = await parts.person("acc-a", KEEPER, group_ref(group["group_id"]))
    assert (await call("of group", "DELETE", path))[0] == 403  # what it is below is not theirs
    assert (await call("keeper", "DELETE", path))[0] == 204


async def test_registering_a_mower_asks_for_site_box_and_groups(parts, call, tokens):
    box = await linked(call)
    park = (await call("owner", "POST", "/fleet/sites", {"name": "Park"}))[1]["site_id"]
    group = (await call("owner", "POST", "/fleet/groups", {"name": "all"}))[1]["group_id"]
    tokens.known["keeper"] = await parts.person("acc-a", KEEPER, site_ref(park))
    body = {"name": "m", "edge_id": box["edge_id"], "domain": "simulator"}
    assert (await call("viewer", "POST", "/fleet/mowers", body))[0] == 403
    assert (await call("stranger", "POST", "/fleet/mowers", body))[0] == 404
    assert (await call("keeper", "POST", "/fleet/mowers", {**body, "site_id": park}))[0] == 404  # not their box
    wrong = {**body, "connection": {"password": "p"}}
    status, problem = await call("owner", "POST", "/fleet/mowers", wrong)
    assert status == 422
    assert problem["mistakes"][0]["field"] == "connection.password"
    assert (await call("owner", "POST", "/fleet/mowers", {**body, "domain": "../x"}))[0] == 422
    assert (await call("owner", "POST", "/fleet/mowers", {**body, "group_ids": ["nope"]}))[0] == 404
    status, mower = await call("owner", "POST", "/fleet/mowers", {**body, "group_ids": [group]})
    assert status == 201
    assert mower["group_ids"] == [group]
    path = f"/fleet/mowers/{mower['mower_id']}"
    tokens.known["installer"] = await parts.person("acc-a", KEEPER, mower_ref(mower["mower_id"]))
    assert (await call("installer", "PATCH", path, {"name": "new"}))[0] == 200
    assert (await call("installer", "PATCH", path, {"site_id": park}))[0] == 404
    assert (await call("installer", "DELETE", path))[0] == 403  # the site is not theirs
    assert (await call("viewer", "DELETE", path))[0] == 403
    assert (await call("stranger", "DELETE", path))[0] == 404
    assert (await call("stranger", "PUT", f"{path}/groups", {"group_ids": []}))[0] == 404
    assert (await call("owner", "PUT", f"{path}/groups", {"group_ids": []}))[1]["group_ids"] == []
    assert (await call("owner", "PATCH", path, {"site_id": park}))[1]["site_id"] == park
    assert (await call("owner", "DELETE", path))[0] == 204
    assert (await call("owner", "PATCH", path, {"name": "x"}))[0] == 404


async def test_leaving_a_group_needs_rights_on_it(parts, call, tokens):
    box = await linked(call)
    park = (await call("owner", "POST", "/fleet/sites", {"name": "Park"}))[1]["site_id"]
    group = (await call("owner", "POST", "/fleet/groups", {"name": "all"}))[1]["group_id"]
    body = {"name": "m", "edge_id": box["edge_id"], "domain": "simulator", "site_id": park, "group_ids": [group]}
    mower = (await call("owner", "POST", "/fleet/mowers", body))[1]["mower_id"]
    tokens.known["keeper"] = await parts.person("acc-a", KEEPER, site_ref(park))
    assert (await call("keeper", "PUT", f"/fleet/mowers/{mower}/groups", {"group_ids": []}))[0] == 403
    other = (await call("owner", "POST", "/fleet/groups", {"name": "other"}))[1]["group_id"]
    assert (await call("keeper", "PUT", f"/fleet/mowers/{mower}/groups", {"group_ids": [group, other]}))[0] == 404
    assert (await call("keeper", "PUT", f"/fleet/mowers/{mower}/groups", {"group_ids": [group]}))[0] == 200


async def test_linking_over_http(call):
    _, offer = await call(
        None, "POST", "/edges/link", {"name": "Shed", "version": "1", "fingerprint": "fingerprint-of-box-1"}
    )
    status, pending = await call(None, "POST", "/edges/link/token", {"device_code": offer["device_code"]})
    assert (status, pending["error"]) == (400, "authorization_pending")
    status, pending = await call(None, "POST", "/edges/link/token", {"device_code": offer["device_code"]})
    assert (status, pending) == (400, {"error": "slow_down", "interval": 10})
    code = offer["user_code"]
    assert (await call(None, "GET", f"/edges/link/{code}"))[0] == 401
    assert (await call("viewer", "GET", f"/edges/link/{code}"))[0] == 403
    assert (await call("viewer", "POST", f"/edges/link/{code}/confirm", {}))[0] == 403
    assert (await call("viewer", "POST", f"/edges/link/{code}/deny"))[0] == 403
    status, seen = await call("owner", "GET", f"/edges/link/{code.lower()}")
    assert (status, seen["name"], seen["remote"]) == (200, "Shed", "127.0.0.1")
    assert (await call("owner", "GET", "/edges/link/XXXX-XXXX"))[0] == 404
    assert (await call("owner", "POST", f"/edges/link/{code}/deny"))[0] == 204


async def test_boxes_and_the_end_from_either_side(call):
    box = await linked(call)
    path = f"/fleet/edges/{box['edge_id']}"
    assert [e["edge_id"] for e in (await call("owner", "GET", "/fleet/edges"))[1]["items"]] == [box["edge_id"]]
    assert (await call("stranger", "GET", "/fleet/edges"))[1] == {"items": []}
    assert (await call("viewer", "GET", "/fleet/edges"))[0] == 403
    assert (await call("viewer", "GET", path))[0] == 403
    assert (await call("stranger", "GET", path))[0] == 404
    assert (await call("owner", "PATCH", path, {"name": "Barn"}))[1]["name"] == "Barn"
    park = (await call("owner", "POST", "/fleet/sites", {"name": "Park"}))[1]["site_id"]
    theirs = (await call("stranger", "POST", "/fleet/sites", {"name": "Theirs"}))[1]["site_id"]
    assert (await call("owner", "PATCH", path, {"site_id": theirs}))[0] == 404
    assert (await call("owner", "PATCH", path, {"site_id": park}))[1]["site_id"] == park
    assert (await call("owner", "DELETE", f"/fleet/sites/{park}"))[0] == 409
    assert (await call("stranger", "DELETE", path))[0] == 404
    assert (await call("owner", "DELETE", path))[0] == 204
    assert (await call("owner", "GET", path))[0] == 404
    again = await linked(call)
    end = {"edge_id": again["edge_id"], "credential": "wrong"}
    assert (await call(None, "DELETE", "/edges/link", end))[0] == 401
    assert (await call(None, "DELETE", "/edges/link", {**end, "credential": again["credential"]}))[0] == 204
    assert (await call("owner", "GET", "/fleet/edges"))[1] == {"items": []}


async def test_a_box_out_of_sight_is_told_in_the_words_of_one_that_is_not_there(parts, call, tokens):
    edge_id = (await linked(call))["edge_id"]
    _, garden = await call("owner", "POST", "/fleet/sites", {"name": "Garden"})
    tokens.known["gardener"] = await parts.person("acc-a", KEEPER, site_ref(garden["site_id"]))

    async def told(method, path, body=None):
        status, problem = await call("gardener", method, path, body)
        return status, problem["detail"]

    mower = {"name": "m", "domain": "simulator"}
    for method in ("GET", "DELETE"):
        assert await told(method, f"/fleet/edges/{edge_id}") == await told(method, "/fleet/edges/none")
    here, there = ({**mower, "edge_id": one} for one in (edge_id, "none"))
    assert await told("POST", "/fleet/mowers", here) == await told("POST", "/fleet/mowers", there)
