"""Identity over HTTP: a real application, database and keys; honest people, and the owner of another account."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
import pytest
from aiohttp.test_utils import TestClient, TestServer

from core.domain.limits import ACCESS_TOKEN_TTL
from core.web.access_routes import access_routes
from core.web.application import build_application
from core.web.host_routes import HostInfo
from core.web.identity_routes import identity_routes
from core.web.route import Public, Route
from core.web.route_table import full_path
from tests.core.identity.house import PASSWORD, House, open_house

ROOT = "/api/v1/identity"
FIRST = "first password 1"
NEXT = "second password 2"


@dataclass
class Reply:
    status: int
    body: Any
    headers: Any


class Site:
    """A host with identity, and a client without a browser."""

    def __init__(self, house: House, client: TestClient[Any, Any], routes: list[Route]) -> None:
        self.house = house
        self.client = client
        self.routes = routes

    async def call(self, method: str, path: str, token: str | None = None, body: Any = None, **more: Any) -> Reply:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        path = path if path.startswith(("/api", "/.well")) else ROOT + path
        response = await self.client.request(method, path, json=body, headers=headers, **more)
        text = await response.text()
        return Reply(response.status, await response.json(content_type=None) if text else None, response.headers)

    async def owner(self, name: str) -> Person:
        body = {"username": name, "password": PASSWORD, "account_name": f"{name}'s"}
        reply = await self.call("POST", "/register", body=body)
        assert reply.status == 201, reply
        return await self.sign_in(name)

    async def sign_in(self, name: str, password: str = PASSWORD) -> Person:
        reply = await self.call("POST", "/session", body={"username": name, "password": password})
        assert reply.status == 201, reply
        return Person(self, reply.body)

    async def member(self, owner: Person, name: str, role: str | None) -> Person:
        """A person of the owner's account who has signed in and changed the password."""
        level = {"type": "account", "id": owner.account}
        given = [] if role is None else [{"role": role, "level": level}]
        body = {"username": name, "password": FIRST, "assignments": given}
        assert (await owner.call("POST", f"{owner.base}/users", body)).status == 201
        person = await self.sign_in(name, FIRST)
        reply = await person.call("POST", "/me/password", {"current_password": FIRST, "new_password": NEXT})
        assert reply.status == 204
        return person


@dataclass
class Person:
    site: Site
    pair: dict[str, Any]

    @property
    def account(self) -> str:
        return str(self.pair["account_id"])

    @property
    def base(self) -> str:
        return f"/accounts/{self.account}"

    async def call(self, method: str, path: str, body: Any = None, **more: Any) -> Reply:
        return await self.site.call(method, path, self.pair["access_token"], body, **more)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with open_house(tmp_path) as house:
        routes = [*identity_routes(house.service, house.authorizer), *access_routes(house.service)]
        app = build_application(
            routes,
            verifier=house.service,
            authorizer=house.authorizer,
            clock=house.clock,
            host=HostInfo(kind="relay", version="1", name="test"),
        )
        client: TestClient[Any, Any] = TestClient(TestServer(app))
        await client.start_server()
        yield Site(house, client, routes)
        await client.close()


async def test_from_registering_to_signing_out(site: Site) -> None:
    assert (await site.call("GET", "/register")).body == {"is_open": True}
    ann = await site.owner("ann")
    me = (await ann.call("GET", "/me")).body
    assert (me["name"], me["kind"], me["account"]["name"]) == ("ann", "user", "ann's")
    assert [a["account_id"] for a in me["accounts"]] == [ann.account]
    assert "can_manage_users" in me["relations"]
    assert me["assignments"][0]["role"] == "owner"
    reply = await site.call("POST", "/session/refresh", body={"refresh_token": ann.pair["refresh_token"]})
    assert reply.status == 200
    assert reply.headers["Cache-Control"] == "no-store"
    ann.pair = reply.body
    assert (await ann.call("DELETE", "/session")).status == 204
    assert (await ann.call("GET", "/me")).status == 401
    assert (
        await site.call("POST", "/session/refresh", body={"refresh_token": ann.pair["refresh_token"]})
    ).status == 401


async def test_an_expired_access_token_is_refused(site: Site) -> None:
    ann = await site.owner("ann")
    site.house.clock.advance(ACCESS_TOKEN_TTL.total_seconds())
    reply = await ann.call("GET", "/me")
    assert (reply.status, reply.body["code"]) == (401, "unauthenticated")


async def test_a_wrong_password_and_an_unknown_user_look_the_same(site: Site) -> None:
    await site.owner("ann")
    replies = [
        await site.call("POST", "/session", body={"username": name, "password": "wrong password!"})
        for name in ("ann", "nobody")
    ]
    for reply in replies:
        del reply.body["correlation_id"]
    assert replies[0].status == replies[1].status == 401
    assert replies[0].body == replies[1].body


async def test_guessing_is_answered_with_a_wait(site: Site) -> None:
    await site.owner("ann")
    for _ in range(10):
        reply = await site.call("POST", "/session", body={"username": "ann", "password": "wrong password!"})
    assert reply.status == 429
    assert int(reply.headers["Retry-After"]) >= 1


async def test_a_megabyte_of_password_is_no_problem(site: Site) -> None:
    for path, more, status in (("/session", {}, 401), ("/register", {"account_name": "x"}, 422)):
        body = {"username": "ann", "password": "x" * 1_000_000, **more}
        assert (await site.call("POST", path, body=body)).status == status


async def test_published_keys_verify_our_tokens(site: Site) -> None:
    ann = await site.owner("ann")
    keys = (await site.call("GET", "/.well-known/jwks.json")).body
    (key,) = jwt.PyJWKSet.from_dict(keys).keys
    options: Any = {"verify_exp": False, "verify_iat": False}
    claims = jwt.decode(ann.pair["access_token"], key, algorithms=["EdDSA"], options=options)
    assert set(claims) >= {"sub", "acc", "kind", "name", "sid", "exp", "iat", "jti", "iss"}


async def test_until_the_password_is_changed_nothing_else_goes(site: Site) -> None:
    ann = await site.owner("ann")
    level = {"type": "account", "id": ann.account}
    body = {"username": "olga", "password": FIRST, "assignments": [{"role": "owner", "level": level}]}
    assert (await ann.call("POST", f"{ann.base}/users", body)).status == 201
    olga = await site.sign_in("olga", FIRST)
    assert olga.pair["must_change_password"]
    for method, path, given in (
        ("GET", "/sessions", None),
        ("DELETE", "/sessions", None),
        ("POST", "/me/switch", {"account_id": ann.account}),
        ("GET", f"{ann.base}/users", None),
        ("GET", f"{ann.base}/roles", None),
        ("GET", f"{ann.base}/role-assignments", None),
        ("POST", f"{ann.base}/tokens", {"name": "x", "role": "viewer", "level": level}),
    ):
        assert (await olga.call(method, path, given)).status == 403, path
    me = (await olga.call("GET", "/me")).body
    assert me["must_change_password"]
    assert me["relations"] == []
    changed = await olga.call("POST", "/me/password", {"current_password": FIRST, "new_password": NEXT})
    assert changed.status == 204
    assert (await olga.call("GET", f"{ann.base}/users")).status == 200


async def test_administering_people_and_roles(site: Site) -> None:
    ann = await site.owner("ann")
    olga = await site.member(ann, "olga", None)
    olga_id = olga.pair["user_id"]
    roles = (await ann.call("GET", f"{ann.base}/roles")).body["items"]
    assert [r["role"] for r in roles if r["needs_end"]] == ["installer"]
    level = {"type": "account", "id": ann.account}
    given = await ann.call(
        "POST", f"{ann.base}/role-assignments", {"user_id": olga_id, "role": "viewer", "level": level}
    )
    assert given.status == 201
    assert "can_emergency_stop" in (await olga.call("GET", "/me")).body["relations"]
    listed = await ann.call("GET", f"{ann.base}/role-assignments", params={"user_id": olga_id})
    assert listed.body["items"] == [given.body]
    path = f"{ann.base}/role-assignments/{given.body['assignment_id']}"
    assert (await ann.call("DELETE", path)).status == 204
    assert (await ann.call("DELETE", path)).status == 404
    assert (await olga.call("GET", "/me")).body["relations"] == []
    changed = await ann.call("PATCH", f"{ann.base}/users/{olga_id}", {"is_disabled": True})
    assert changed.body["is_disabled"]
    assert (await olga.call("GET", "/me")).status == 401
    assert (await ann.call("DELETE", f"{ann.base}/users/{olga_id}")).status == 204
    assert [u["username"] for u in (await ann.call("GET", f"{ann.base}/users")).body["items"]] == ["ann"]
    reply = await ann.call("DELETE", f"{ann.base}/users/{ann.pair['user_id']}")
    assert (reply.status, reply.body["code"]) == (409, "conflict")


async def test_times_of_a_role_need_an_offset_and_an_installer_an_end(site: Site) -> None:
    ann = await site.owner("ann")
    level = {"type": "account", "id": ann.account}
    body = {"user_id": ann.pair["user_id"], "role": "installer", "level": level}
    for ends in ({}, {"ends_at": "2026-07-01T00:00:00"}, {"ends_at": "2020-01-01T00:00:00Z"}, {"ends_at": "soon"}):
        reply = await ann.call("POST", f"{ann.base}/role-assignments", {**body, **ends})
        assert reply.status == 422, ends
        assert "ends_at" in reply.body["mistakes"][0]["field"]
    good = {**body, "ends_at": "2026-07-01T02:00:00+02:00"}
    assert (await ann.call("POST", f"{ann.base}/role-assignments", good)).body["ends_at"] == "2026-07-01T00:00:00Z"


async def test_a_service_token_from_making_to_revoking(site: Site) -> None:
    ann = await site.owner("ann")
    level = {"type": "account", "id": ann.account}
    made = await ann.call("POST", f"{ann.base}/tokens", {"name": "ha", "role": "viewer", "level": level})
    assert made.status == 201
    token = made.body["token"]
    me = (await site.call("GET", "/me", token)).body
    assert (me["kind"], me["name"], me["relations"]) == ("service", "ha", ["can_view", "can_emergency_stop"])
    for method, path in (("DELETE", "/session"), ("GET", "/sessions"), ("GET", f"{ann.base}/users")):
        assert (await site.call(method, path, token)).status == 403, path
    (listed,) = (await ann.call("GET", f"{ann.base}/tokens")).body["items"]
    assert "token" not in listed
    assert listed["last_used_at"] is not None
    assert (await ann.call("DELETE", f"{ann.base}/tokens/{listed['token_id']}")).status == 204
    assert (await site.call("GET", "/me", token)).status == 401


async def test_a_reset_link_over_http(site: Site) -> None:
    ann = await site.owner("ann")
    olga = await site.member(ann, "olga", "viewer")
    link = await ann.call("POST", f"{ann.base}/users/{olga.pair['user_id']}/reset")
    assert link.status == 201
    assert link.headers["Cache-Control"] == "no-store"
    body = {"token": link.body["token"], "new_password": "third password 3"}
    assert (await site.call("POST", "/reset", body=body)).status == 204
    assert (await site.call("POST", "/reset", body=body)).status == 404
    assert (await olga.call("GET", "/me")).status == 401
    await site.sign_in("olga", "third password 3")


async def test_devices_are_listed_and_signed_out(site: Site) -> None:
    phone = await site.owner("ann")
    laptop = await site.sign_in("ann")
    items = (await laptop.call("GET", "/sessions")).body["items"]
    assert {s["session_id"]: s["is_current"] for s in items} == {
        phone.pair["session_id"]: False,
        laptop.pair["session_id"]: True,
    }
    assert (await laptop.call("DELETE", f"/sessions/{phone.pair['session_id']}")).status == 204
    assert (await phone.call("GET", "/me")).status == 401
    tablet = await site.sign_in("ann")
    assert (await laptop.call("DELETE", "/sessions")).status == 204
    assert (await tablet.call("GET", "/me")).status == 401
    assert (await laptop.call("GET", "/me")).status == 200


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/register", {"username": "eve", "password": PASSWORD, "account_name": "x", "account_id": "mine"}),
        ("POST", "/session", {"username": "ann", "password": PASSWORD, "account_id": "other"}),
        ("POST", "{base}/users", {"username": "eve", "password": FIRST, "account_id": "other"}),
        ("PATCH", "{base}/users/{user}", {"account_id": "other"}),
        ("PATCH", "{base}/users/{user}", {"must_change_password": False}),
        ("POST", "{base}/tokens", {"name": "x", "role": "viewer", "level": {}, "account_id": "other"}),
    ],
)
async def test_an_account_smuggled_in_a_body_is_refused(site: Site, method: str, path: str, body: Any) -> None:
    ann = await site.owner("ann")
    path = path.format(base=ann.base, user=ann.pair["user_id"])
    assert (await ann.call(method, path, body)).status == 422
    if method != "POST":
        assert (await ann.call(method, path, {}, params={"account_id": "other"})).status == 422


async def test_every_route_of_an_account_is_not_found_for_everybody_of_another(site: Site) -> None:
    """Walks the table: with ids that exist, with bodies that would be right, as the owner and as a viewer of
    another account; and nothing has changed afterwards."""
    ann = await site.owner("ann")
    olga = await site.member(ann, "olga", "viewer")
    bob = await site.owner("bob")
    eve = await site.member(bob, "eve", "viewer")
    level = {"type": "account", "id": ann.account}
    made = await ann.call("POST", f"{ann.base}/tokens", {"name": "ha", "role": "viewer", "level": level})
    before = [(await ann.call("GET", f"{ann.base}/{what}")).body for what in ("users", "role-assignments", "tokens")]
    ids = {
        "account_id": ann.account,
        "user_id": olga.pair["user_id"],
        "assignment_id": before[1]["items"][-1]["assignment_id"],
        "token_id": made.body["token_id"],
    }
    bodies: dict[str, Any] = {
        "POST /users": {"username": "x-ray", "password": FIRST, "assignments": [{"role": "owner", "level": level}]},
        "PATCH /users/{user_id}": {"is_disabled": True},
        "POST /role-assignments": {"user_id": bob.pair["user_id"], "role": "owner", "level": level},
        "POST /tokens": {"name": "x", "role": "viewer", "level": level},
    }
    walked = 0
    for route in site.routes:
        if "{account_id}" not in route.path:
            continue
        body = bodies.get(f"{route.method} {route.path.partition('{account_id}')[2]}")
        assert (body is None) == (route.body is None), f"the test lacks a body for {route.path}"
        for stranger in (bob, eve):
            reply = await stranger.call(route.method, full_path(route).format(**ids), body)
            assert (reply.status, reply.body["code"]) == (404, "not-found"), route
            walked += 1
    assert walked == 2 * 12
    after = [(await ann.call("GET", f"{ann.base}/{what}")).body for what in ("users", "role-assignments", "tokens")]
    assert after == before


async def test_ids_of_another_account_below_the_own_one_are_not_found(site: Site) -> None:
    ann, bob = await site.owner("ann"), await site.owner("bob")
    level = {"type": "account", "id": ann.account}
    made = await ann.call("POST", f"{ann.base}/tokens", {"name": "ha", "role": "viewer", "level": level})
    assignment = (await ann.call("GET", f"{ann.base}/role-assignments")).body["items"][0]
    for method, path, body in (
        ("PATCH", f"/users/{ann.pair['user_id']}", {"is_disabled": True}),
        ("DELETE", f"/users/{ann.pair['user_id']}", None),
        ("POST", f"/users/{ann.pair['user_id']}/reset", None),
        ("DELETE", f"/role-assignments/{assignment['assignment_id']}", None),
        ("DELETE", f"/tokens/{made.body['token_id']}", None),
        ("POST", "/role-assignments", {"user_id": bob.pair["user_id"], "role": "owner", "level": level}),
        ("POST", "/tokens", {"name": "x", "role": "viewer", "level": level}),
        (
            "POST",
            "/users",
            {"username": "x-ray", "password": FIRST, "assignments": [{"role": "viewer", "level": level}]},
        ),
    ):
        reply = await bob.call(method, bob.base + path, body)
        assert reply.status == 404, (path, reply)
    assert (await bob.call("DELETE", f"/sessions/{ann.pair['session_id']}")).status == 404
    assert (await bob.call("POST", "/me/switch", {"account_id": ann.account})).status == 404
    assert (await ann.call("GET", "/me")).status == 200


async def test_every_guarded_route_needs_a_token(site: Site) -> None:
    ids = dict.fromkeys(("account_id", "user_id", "assignment_id", "token_id", "session_id"), "x")
    for route in site.routes:
        if isinstance(route.guard, Public):
            continue
        for token in (None, "nonsense", "mdk_nonsense", "a.b.c"):
            reply = await site.call(route.method, full_path(route).format(**ids), token, {} if route.body else None)
            assert reply.status == 401, route


async def test_members_without_the_right_are_told_so(site: Site) -> None:
    ann = await site.owner("ann")
    vic = await site.member(ann, "vic", "viewer")
    level = {"type": "account", "id": ann.account}
    for method, path, body in (
        ("GET", "/users", None),
        ("POST", "/users", {"username": "x-ray", "password": FIRST}),
        ("DELETE", f"/users/{ann.pair['user_id']}", None),
        ("POST", "/role-assignments", {"user_id": vic.pair["user_id"], "role": "owner", "level": level}),
        ("POST", "/tokens", {"name": "x", "role": "viewer", "level": level}),
    ):
        assert (await vic.call(method, vic.base + path, body)).status == 403, path
    assert (await vic.call("GET", f"{vic.base}/role-assignments")).body == {"items": []}
    assert (await vic.call("GET", f"{vic.base}/tokens")).body == {"items": []}
    assert (await vic.call("GET", f"{vic.base}/roles")).status == 200


async def test_the_openapi_document_names_every_route(site: Site) -> None:
    document = (await site.call("GET", "/api/v1/openapi.json")).body
    for route in site.routes:
        assert route.method.lower() in document["paths"][full_path(route)], route.path
