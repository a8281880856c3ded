"""The route table at work, over a real server and client."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec
import pytest
import structlog
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from core.domain.access import Grant, ObjectRef, ObjectType, Relation
from core.domain.errors import ConflictError, RateLimitedError
from core.web.application import build_application
from core.web.host_routes import HostInfo
from core.web.problems import Problem
from core.web.route import Answer, Decided, OnAccount, OnObject, Public, Request, Route, SignedIn, mower_ref
from tests.fakes.authorizer import FakeAuthorizer
from tests.fakes.clock import ManualClock
from tests.fakes.tokens import FakeVerifier, make_principal

HOST = HostInfo(kind="box", version="1.2.3", name="Shed")
ANNA = make_principal("anna")
Start = Callable[..., Awaitable[TestClient[Any, Any]]]


class Words(msgspec.Struct, kw_only=True):
    name: str
    size_mm: int = 0
    tags: list[str] = []


class Filter(msgspec.Struct, kw_only=True):
    since: datetime | None = None
    limit: int = 10
    kind: tuple[str, ...] = ()


async def echo(request: Request) -> dict[str, Any]:
    return {
        "subject": request.principal.subject if request.principal else None,
        "body": request.body,
        "query": request.query,
        "path": request.path,
        "remote": request.remote,
    }


def route(method: Any = "GET", path: str = "/things", guard: Any = None, handler: Any = echo, **more: Any) -> Route:
    more = {"summary": "A thing", "tag": "things", **more}
    guard = guard or SignedIn(reason="test")
    return Route(method=method, path=path, guard=guard, handler=handler, **more)


@pytest.fixture
async def start(verifier: FakeVerifier, authorizer: FakeAuthorizer, clock: ManualClock) -> Any:
    clients: list[TestClient[Any, Any]] = []

    async def run(routes: Sequence[Route], **more: Any) -> TestClient[Any, Any]:
        app = build_application(routes, verifier=verifier, authorizer=authorizer, clock=clock, **{"host": HOST, **more})
        client: TestClient[Any, Any] = TestClient(TestServer(app))
        await client.start_server()
        clients.append(client)
        return client

    yield run
    for client in clients:
        await client.close()


@pytest.fixture
def anna(verifier: FakeVerifier) -> dict[str, str]:
    return {"Authorization": f"Bearer {verifier.issue(ANNA)}"}


async def problem(response: Any) -> Problem:
    assert response.content_type == "application/problem+json"
    found = msgspec.json.decode(await response.read(), type=Problem)
    assert found.status == response.status
    assert found.type == f"urn:mowdeck:problem:{found.code}"
    assert found.correlation_id == response.headers["X-Correlation-ID"]
    return found


# -- tokens and guards


async def test_a_token_in_the_header_is_taken(start: Start, anna: dict[str, str]) -> None:
    client = await start([route()])
    response = await client.get("/api/v1/things", headers=anna)
    assert response.status == 200
    assert (await response.json())["subject"] == "anna"


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Basic abc", "Bearer wrong", "Bearer " + "x" * 9000])
async def test_without_a_good_token_it_is_401(start: Start, header: str | None) -> None:
    client = await start([route()])
    headers = {} if header is None else {"Authorization": header}
    response = await client.get("/api/v1/things", headers=headers)
    assert response.status in {400, 401} if header and len(header) > 8190 else response.status == 401
    if response.status == 401:
        assert response.headers["WWW-Authenticate"] == "Bearer"
        assert (await problem(response)).code == "unauthenticated"


async def test_a_token_in_the_query_is_not_taken(start: Start, verifier: FakeVerifier) -> None:
    client = await start([route()])
    token = verifier.issue(ANNA)
    for name in ("access_token", "token", "authorization"):
        assert (await client.get("/api/v1/things", params={name: token})).status == 401


async def test_an_object_one_cannot_view_is_404_and_one_that_one_may_only_view_403(
    start: Start, anna: dict[str, str], authorizer: FakeAuthorizer
) -> None:
    guard = OnObject(relation=Relation.CAN_CONTROL, type=ObjectType.MOWER, parameter="mower_id")
    client = await start([route(path="/m/{mower_id}", guard=guard)])
    authorizer.allow(ANNA, mower_ref("seen"), Grant.VIEW)
    authorizer.allow(ANNA, mower_ref("mine"), Grant.VIEW, Grant.CONTROL)
    authorizer.allow(ANNA, mower_ref("blind"), Grant.CONTROL)
    answers = {name: await client.get(f"/api/v1/m/{name}", headers=anna) for name in ("mine", "seen", "blind", "other")}
    assert {name: answer.status for name, answer in answers.items()} == {
        "mine": 200,
        "seen": 403,
        "blind": 404,
        "other": 404,
    }
    assert (await problem(answers["other"])).code == "not-found"


async def test_an_id_that_cannot_be_one_is_404_before_anybody_is_asked(
    start: Start, anna: dict[str, str], authorizer: FakeAuthorizer
) -> None:
    guard = OnObject(relation=Relation.CAN_VIEW, type=ObjectType.MOWER, parameter="mower_id")
    client = await start([route(path="/m/{mower_id}", guard=guard), route(path="/e/{edge_id}")])
    for path in ("/api/v1/m/a%00b", "/api/v1/m/" + "x" * 65, "/api/v1/e/..%2F..", "/api/v1/e/%F0%9F%90%91"):
        assert (await client.get(path, headers=anna)).status == 404
    assert authorizer.asked == []


async def test_a_right_on_the_account_is_403_without(
    start: Start, anna: dict[str, str], authorizer: FakeAuthorizer
) -> None:
    client = await start([route(guard=OnAccount(relation=Relation.CAN_MANAGE_USERS))])
    assert (await client.get("/api/v1/things", headers=anna)).status == 403
    authorizer.allow(ANNA, ObjectRef(type=ObjectType.ACCOUNT, id=ANNA.account_id), Grant.USERS)
    assert (await client.get("/api/v1/things", headers=anna)).status == 200


async def test_an_authorizer_out_of_reach_lets_nobody_in(
    start: Start, anna: dict[str, str], authorizer: FakeAuthorizer
) -> None:
    client = await start([route(guard=OnAccount(relation=Relation.CAN_VIEW))])
    authorizer.is_down = True
    response = await client.get("/api/v1/things", headers=anna)
    assert response.status == 503
    assert (await problem(response)).retryable


async def test_who_must_change_the_password_reaches_identity_only(start: Start, verifier: FakeVerifier) -> None:
    token = verifier.issue(make_principal("new", must_change_password=True))
    guards = [
        route(path="/identity/me", tag="identity"),
        route(path="/identity/users", tag="identity", guard=Decided(relations=(), reason="test")),
        route(path="/other"),
    ]
    client = await start(guards)
    headers = {"Authorization": f"Bearer {token}"}
    statuses = [(await client.get(f"/api/v1{r.path}", headers=headers)).status for r in guards]
    assert statuses == [200, 403, 403]
    found = await problem(await client.get("/api/v1/other", headers=headers))
    assert found.code == "forbidden"
    assert "password" in found.hint.lower()


async def test_the_guard_comes_before_query_and_body(start: Start, anna: dict[str, str]) -> None:
    guard = OnObject(relation=Relation.CAN_VIEW, type=ObjectType.MOWER, parameter="mower_id")
    client = await start([route("POST", "/m/{mower_id}", guard=guard, body=Words)])
    response = await client.post("/api/v1/m/foreign?nonsense=1", headers=anna, data=b"{broken")
    assert response.status == 404


# -- bodies


@pytest.fixture
def posting() -> Route:
    return route("POST", guard=Public(reason="test"), body=Words, status=201)


async def test_a_body_is_decoded_and_the_answer_has_the_routes_status(start: Start, posting: Route) -> None:
    client = await start([posting])
    response = await client.post("/api/v1/things", json={"name": "a", "size_mm": 3})
    assert response.status == 201
    assert (await response.json())["body"] == {"name": "a", "size_mm": 3, "tags": []}


async def test_every_wrong_field_of_a_body_is_named(start: Start, posting: Route) -> None:
    client = await start([posting])
    response = await client.post("/api/v1/things", json={"size_mm": "3", "tags": ["a", 1]})
    assert response.status == 422
    found = await problem(response)
    assert {m.field for m in found.mistakes} == {"name", "size_mm", "tags.1"}


@pytest.mark.parametrize(
    ("data", "content_type", "status", "code"),
    [
        (b"{", "application/json", 400, "malformed-request"),
        (b'{"name": "\xff"}', "application/json", 400, "malformed-request"),
        (b"[" * 100_000, "application/json", 400, "malformed-request"),
        (b"", "application/json", 400, "malformed-request"),
        (b"[]", "application/json", 422, "invalid-input"),
        (b"null", "application/json", 422, "invalid-input"),
        (b"name=a", "application/x-www-form-urlencoded", 415, "unsupported-media-type"),
        (b'{"name": "a"}', "text/plain", 415, "unsupported-media-type"),
        (b" " * (1024 * 1024 + 1), "application/json", 413, "payload-too-large"),
    ],
)
async def test_a_body_that_is_none(
    start: Start, posting: Route, data: bytes, content_type: str, status: int, code: str
) -> None:
    client = await start([posting])
    response = await client.post("/api/v1/things", data=io.BytesIO(data), headers={"Content-Type": content_type})
    assert response.status == status
    assert (await problem(response)).code == code


async def test_a_body_that_may_be_absent(start: Start) -> None:
    client = await start([route("POST", guard=Public(reason="test"), body=Words | None)])
    assert (await (await client.post("/api/v1/things")).json())["body"] is None


# -- queries


@pytest.fixture
def listing() -> Route:
    return route(guard=Public(reason="test"), query=Filter)


async def test_a_query_is_typed_and_repeated_keys_are_lists(start: Start, listing: Route) -> None:
    client = await start([listing])
    response = await client.get("/api/v1/things?since=2026-06-01T10:00:00%2B02:00&limit=5&kind=a&kind=b")
    assert (await response.json())["query"] == {"since": "2026-06-01T08:00:00Z", "limit": 5, "kind": ["a", "b"]}
    response = await client.get("/api/v1/things?kind=a")
    assert (await response.json())["query"] == {"since": None, "limit": 10, "kind": ["a"]}


async def test_every_mistake_of_a_query_is_named(start: Start, listing: Route) -> None:
    client = await start([listing])
    response = await client.get("/api/v1/things?since=2026-06-01T10:00:00&limit=x&account_id=other")
    assert response.status == 422
    found = await problem(response)
    assert {m.field for m in found.mistakes} == {"since", "limit", "account_id"}
    response = await client.get("/api/v1/things?limit=1&limit=2")
    assert [m.field for m in (await problem(response)).mistakes] == ["limit"]


async def test_a_plus_that_was_not_encoded_is_explained(start: Start, listing: Route) -> None:
    client = await start([listing])
    response = await client.get("/api/v1/things?since=2026-06-01T10:00:00+02:00")
    assert response.status == 422


async def test_a_route_without_a_query_takes_none(start: Start) -> None:
    client = await start([route(guard=Public(reason="test"))])
    assert (await client.get("/api/v1/things?account_id=other")).status == 422


# -- answers, headers, errors


async def test_answers_are_never_cached_sniffed_or_framed(start: Start) -> None:
    client = await start([route(guard=Public(reason="test"))])
    for path in ("/api/v1/things", "/api/v1/none", "/api/v1/host"):
        headers = (await client.get(path)).headers
        assert headers["Cache-Control"] == "no-store"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]


async def test_an_answer_can_carry_headers_and_other_content(start: Start) -> None:
    async def png(_: Request) -> Answer:
        return Answer(value=b"\x89PNG", content_type="image/png", headers={"Cache-Control": "max-age=60"})

    async def gone(_: Request) -> Answer:
        return Answer(status=204)

    public = Public(reason="test")
    client = await start([route(guard=public, handler=png), route("DELETE", guard=public, handler=gone)])
    response = await client.get("/api/v1/things")
    assert (response.content_type, await response.read()) == ("image/png", b"\x89PNG")
    assert response.headers["Cache-Control"] == "max-age=60"
    response = await client.delete("/api/v1/things")
    assert (response.status, await response.read()) == (204, b"")


async def test_head_answers_like_get_without_a_body(start: Start) -> None:
    client = await start([route(guard=Public(reason="test"))])
    response = await client.head("/api/v1/things")
    assert response.status == 200
    assert int(response.headers["Content-Length"]) > 0


async def test_unknown_paths_and_methods_are_problems(start: Start) -> None:
    client = await start([route()])
    response = await client.get("/nowhere")
    assert response.status == 404
    assert (await problem(response)).code == "not-found"
    response = await client.post("/api/v1/things")
    assert response.status == 405
    assert (await problem(response)).code == "method-not-allowed"
    assert set(response.headers["Allow"].split(",")) == {"GET", "HEAD"}


async def test_errors_of_handlers_are_problems(start: Start) -> None:
    async def busy(_: Request) -> None:
        raise RateLimitedError(retry_after_s=2.5)

    async def conflict(_: Request) -> None:
        raise ConflictError("in use", hint="free it")

    public = Public(reason="test")
    client = await start([route(guard=public, handler=busy), route("POST", guard=public, handler=conflict)])
    response = await client.get("/api/v1/things")
    assert (response.status, response.headers["Retry-After"]) == (429, "3")
    assert (await problem(response)).retry_after_s == 2.5
    found = await problem(await client.post("/api/v1/things"))
    assert (found.status, found.detail, found.hint, found.retryable) == (409, "in use", "free it", False)


async def test_a_bug_is_a_500_that_says_nothing_and_is_logged_with_its_correlation_id(start: Start) -> None:
    async def broken(_: Request) -> None:
        raise RuntimeError("password=hunter2")

    client = await start([route(guard=Public(reason="test"), handler=broken)])
    with structlog.testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as logs:
        response = await client.get("/api/v1/things", headers={"X-Correlation-ID": "trace-1"})
    found = await problem(response)
    assert (found.status, found.code, found.correlation_id) == (500, "internal", "trace-1")
    assert "hunter2" not in await response.text()
    assert [entry["correlation_id"] for entry in logs if entry["event"] == "request broke"] == ["trace-1"]


async def test_a_correlation_id_that_is_not_safe_is_replaced(start: Start) -> None:
    client = await start([route(guard=Public(reason="test"))])
    given = ["ok-1", "bad id", "x" * 65, "<script>"]
    returned = [
        (await client.get("/api/v1/things", headers={"X-Correlation-ID": text})).headers["X-Correlation-ID"]
        for text in given
    ]
    assert returned[0] == "ok-1"
    assert not set(returned[1:]) & set(given)


async def test_the_access_log_holds_neither_tokens_nor_queries(start: Start, anna: dict[str, str]) -> None:
    client = await start([route(path="/m/{mower_id}", query=Filter)])
    with structlog.testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as logs:
        await client.get("/api/v1/m/secret-id?kind=private", headers=anna)
        await client.get("/api/v1/host")
    requests = [entry for entry in logs if entry["event"] == "request"]
    assert requests[0]["route"] == "/api/v1/m/{mower_id}"
    assert requests[0]["subject"] == "anna"
    assert "subject" not in requests[1] or requests[1]["subject"] is None
    for word in (anna["Authorization"].split()[1], "private", "secret-id"):
        assert word not in repr(logs)


async def test_a_handler_that_hangs_is_ended(start: Start) -> None:
    async def hang(_: Request) -> None:
        await asyncio.Event().wait()

    client = await start([route(guard=Public(reason="test"), handler=hang)], handler_deadline_s=0.05)
    response = await client.get("/api/v1/things")
    assert (await problem(response)).code == "unavailable"


# -- who is calling


@pytest.mark.parametrize(
    ("trusted", "forwarded", "expected"),
    [
        ((), "10.0.0.1", "127.0.0.1"),
        (("127.0.0.1",), "10.0.0.1", "10.0.0.1"),
        (("127.0.0.1",), "6.6.6.6, 10.0.0.1", "10.0.0.1"),
        (("127.0.0.0/8", "10.0.0.0/8"), "6.6.6.6, 10.0.0.1", "6.6.6.6"),
        (("127.0.0.1",), "not an address", "127.0.0.1"),
    ],
)
async def test_a_forwarded_address_is_believed_only_from_a_trusted_proxy(
    start: Start, trusted: tuple[str, ...], forwarded: str, expected: str
) -> None:
    client = await start([route(guard=Public(reason="test"))], trusted_proxies=trusted)
    response = await client.get("/api/v1/things", headers={"X-Forwarded-For": forwarded})
    assert (await response.json())["remote"] == expected


async def test_no_other_origin_is_let_in_unless_configured(start: Start) -> None:
    asks = {"Origin": "https://app.example", "Access-Control-Request-Method": "GET"}
    closed = await start([route()])
    assert "Access-Control-Allow-Origin" not in (await closed.get("/api/v1/host", headers=asks)).headers
    opened = await start([route()], cors_origins=("https://app.example",))
    response = await opened.options("/api/v1/things", headers=asks)
    assert (response.status, response.headers["Access-Control-Allow-Origin"]) == (204, "https://app.example")
    response = await opened.get("/api/v1/things", headers=asks)
    assert (response.status, response.headers["Access-Control-Allow-Origin"]) == (401, "https://app.example")
    other = await opened.get("/api/v1/host", headers={"Origin": "https://evil.example"})
    assert "Access-Control-Allow-Origin" not in other.headers


# -- the host's own routes


async def test_what_the_host_is(start: Start) -> None:
    client = await start([])
    assert await (await client.get("/api/v1/host")).json() == {
        "kind": "box",
        "version": "1.2.3",
        "name": "Shed",
        "features": [],
    }
    assert (await (await client.get("/health")).json())["status"] == "ok"


async def test_readiness_names_the_part_that_is_missing_and_not_why(start: Start) -> None:
    parts = {"database": True, "broker": True}

    def check(name: str) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            if not parts[name]:
                raise ConnectionError("secret address")

        return run

    client = await start([], ready_checks={name: check(name) for name in parts})
    assert (await client.get("/health/ready")).status == 200
    parts["broker"] = False
    response = await client.get("/health/ready")
    assert response.status == 503
    assert await response.json() == {"status": "unready", "checks": {"database": True, "broker": False}}


async def test_metrics_count_requests_by_template(start: Start, anna: dict[str, str]) -> None:
    client = await start([route(path="/m/{mower_id}")])
    await client.get("/api/v1/m/some-id", headers=anna)
    await client.get("/api/v1/guessed-path")
    text = await (await client.get("/metrics")).text()
    assert 'route="/api/v1/m/{mower_id}",status="200"' in text
    assert "some-id" not in text
    assert "guessed" not in text


async def test_metrics_are_for_this_machine_or_a_token(start: Start) -> None:
    client = await start([])
    assert (await client.get("/metrics", headers={"X-Forwarded-For": "6.6.6.6"})).status == 404
    client = await start([], metrics_token="scrape-me")
    assert (await client.get("/metrics")).status == 401
    assert (await client.get("/metrics", headers={"Authorization": "Bearer wrong"})).status == 401
    assert (await client.get("/metrics", headers={"Authorization": "Bearer scrape-me"})).status == 200


# -- the table


async def test_a_table_that_contradicts_itself_is_refused(
    verifier: FakeVerifier, authorizer: FakeAuthorizer, clock: ManualClock
) -> None:
    def build(*routes: Route) -> web.Application:
        return build_application(routes, verifier=verifier, authorizer=authorizer, clock=clock, host=HOST)

    with pytest.raises(ValueError, match="two routes"):
        build(route(path="/m/{mower_id}"), route(path="/m/{id}"))
    guard = OnObject(relation=Relation.CAN_VIEW, type=ObjectType.MOWER, parameter="mower_id")
    with pytest.raises(ValueError, match="no parameter"):
        build(route(path="/m/{id}", guard=guard))


async def test_hooks_run_at_start_and_shutdown(start: Start) -> None:
    seen: list[str] = []

    async def up() -> None:
        seen.append("up")

    async def down() -> None:
        seen.append("down")

    client = await start([], on_startup=[up], on_shutdown=[down])
    assert seen == ["up"]
    await client.close()
    assert seen == ["up", "down"]
