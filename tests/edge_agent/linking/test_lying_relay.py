"""What a relay (or whatever answers in its place) may say without harm: the desk lives on, and nothing odd is kept."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from core.domain.errors import InvalidInputError, MowdeckError, StorageError, StorageFullError, UnavailableError
from core.sync.linking import BrokerAddress
from edge_agent.linking.link_grant import check_grant
from edge_agent.linking.link_store import LinkStore
from tests.edge_agent.linking.test_link_desk import GRANT, Box

OFFER = {
    "device_code": "device-secret",
    "user_code": "BCDF-GHJK",
    "verification_uri": "https://relay/link",
    "verification_uri_complete": "https://relay/link?code=BCDF-GHJK",
    "expires_in": 600,
    "interval": 5,
}


class LyingRelay:
    """Answers whatever it was given, then that nobody has confirmed."""

    def __init__(self) -> None:
        self.offer: dict[str, Any] = dict(OFFER)
        self.polls: list[web.Response] = []
        self.asked = 0

    def application(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/api/v1/edges/link", self.ask)
        app.router.add_post("/api/v1/edges/link/token", self.poll)
        return app

    async def ask(self, _: web.Request) -> web.Response:
        return web.Response(text=json.dumps(self.offer))

    async def poll(self, _: web.Request) -> web.Response:
        self.asked += 1
        if self.polls:
            return self.polls.pop(0)
        return web.Response(status=400, text='{"error": "authorization_pending", "interval": 5}')


@pytest.fixture
async def relay(aiohttp_server: Any) -> Any:
    played = LyingRelay()
    server = await aiohttp_server(played.application())
    played.url = str(server.make_url("")).rstrip("/")  # type: ignore[attr-defined]
    return played


def granted(**changes: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(msgspec.structs.replace(GRANT, **changes)))


@pytest.mark.parametrize(
    "odd",
    [
        {"interval": 0},
        {"interval": -1},
        {"interval": 10**400},
        {"expires_in": 0},
        {"expires_in": 10**18},
        {"verification_uri_complete": "javascript:alert(1)"},
        {"user_code": "X" * 10_000},
        {"user_code": 'A"<script>'},
    ],
    ids=lambda odd: str(odd)[:40],
)
async def test_an_offer_that_makes_no_sense_is_refused(relay: Any, tmp_path: Path, odd: dict[str, Any]) -> None:
    relay.offer.update(odd)
    box = Box(tmp_path)
    with pytest.raises(UnavailableError):
        await box.desk.start(relay.url)
    assert box.desk.view().status == "unlinked"


@pytest.mark.parametrize(
    "answer",
    [
        lambda: web.Response(status=400, text='{"error": "slow_down", "interval": 1' + "0" * 400 + "}"),
        lambda: web.Response(status=400, text='{"error": "slow_down", "interval": -1000}'),
        lambda: web.Response(status=429, text="{}", headers={"Retry-After": "²"}),
        lambda: web.Response(status=429, text="{}", headers={"Retry-After": "9" * 400}),
        lambda: web.Response(status=200, text="[" * 50_000),
        lambda: web.Response(status=500, text='{"detail": ' + "[" * 50_000),
        lambda: web.Response(status=200, body=b"\xff\xfe{}"),
        lambda: web.Response(status=200, body=b"x" * 10_000_000),
        lambda: web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"}),
    ],
)
async def test_no_answer_to_a_poll_ends_the_desk(relay: Any, tmp_path: Path, answer: Any) -> None:
    relay.polls = [answer(), granted()]
    box = Box(tmp_path)
    await box.desk.start(relay.url)
    assert (await box.until("linked")).edge_id == "edge1"
    assert max(box.waits) <= 300


@pytest.mark.parametrize(
    "changes",
    [
        {"broker": BrokerAddress(host="broker.example", port=1883, tls=False)},
        {"broker": BrokerAddress(host="10.0.0.7", port=1883, tls=False)},
        {"broker": BrokerAddress(host="127.0.0.1", port=0, tls=False)},
        {"broker": BrokerAddress(host="127.0.0.1", port=65_536, tls=False)},
        {"broker": BrokerAddress(host="", port=8883, tls=True)},
        {"broker": BrokerAddress(host="broker.example", port=8883, tls=True, ca_pem="no certificate")},
        {"relay_keys": ()},
        {"relay_keys": ({"kty": "OKP", "crv": "Ed25519", "kid": "k", "x": "short"},)},
        {"edge_id": "a/b"},
        {"edge_id": "+"},
        {"edge_id": ""},
        {"account_id": "a/b"},
        {"credential": ""},
        {"credential": "x" * 2_000},
        {"relay_url": "http://relay.example"},
        {"relay_url": "ftp://127.0.0.1"},
    ],
    ids=lambda changes: str(changes)[:60],
)
async def test_a_grant_that_cannot_be_used_is_not_kept(relay: Any, tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        check_grant(msgspec.structs.replace(GRANT, **changes))
    relay.polls = [granted(**changes)]
    box = Box(tmp_path)
    await box.desk.start(relay.url)
    view = await box.until("unlinked")
    assert "cannot be used" in str(view.problem)
    assert not (tmp_path / "link.json").exists()
    assert box.changes == []


async def test_a_full_disk_while_linking_ends_nothing(relay: Any, tmp_path: Path) -> None:
    relay.polls = [granted(), granted()]
    box = Box(tmp_path)
    failures: list[MowdeckError] = [StorageFullError("no room")]

    async def begin_stream() -> None:
        if failures:
            raise failures.pop()

    box.desk._before_link = begin_stream
    await box.desk.start(relay.url)
    assert (await box.until("linked")).problem is None
    assert relay.asked == 2


async def test_a_defect_while_linking_ends_the_attempt_only(relay: Any, tmp_path: Path) -> None:
    relay.polls = [granted()]
    box = Box(tmp_path)

    async def begin_stream() -> None:
        raise ZeroDivisionError

    box.desk._before_link = begin_stream
    await box.desk.start(relay.url)
    assert "defect" in str((await box.until("unlinked")).problem)


async def test_a_grant_in_many_small_pieces(aiohttp_server: Any, tmp_path: Path) -> None:
    async def ask(_: web.Request) -> web.Response:
        return web.Response(text=json.dumps(OFFER))

    async def poll(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        data = msgspec.json.encode(GRANT)
        for at in range(0, len(data), 100):
            await answer.write(data[at : at + 100])
            await asyncio.sleep(0.001)
        return answer

    app = web.Application()
    app.router.add_post("/api/v1/edges/link", ask)
    app.router.add_post("/api/v1/edges/link/token", poll)
    server = await aiohttp_server(app)
    box = Box(tmp_path)
    await box.desk.start(str(server.make_url("")))
    await box.until("linked")
    assert box.waits == [5]


def test_a_damaged_file_does_not_keep_the_box_from_starting(tmp_path: Path) -> None:
    store = LinkStore(tmp_path)
    first = store.identity()
    (tmp_path / "link.json").write_bytes(b"{")
    (tmp_path / "box.json").write_bytes(b"")
    assert store.link() is None
    assert store.identity() != first
    assert store.identity() == store.identity()
    assert {file.name for file in tmp_path.iterdir()} == {"box.json", "box.json.corrupt-0", "link.json.corrupt-0"}


async def test_the_line_ends_although_the_link_cannot_be_deleted(relay: Any, tmp_path: Path) -> None:
    relay.polls = [granted()]
    box = Box(tmp_path)
    await box.desk.start(relay.url)
    await box.until("linked")

    def refuse() -> None:
        raise StorageError("read-only")

    box.store.drop_link = refuse  # type: ignore[method-assign]
    await box.desk.end(by_relay=True)
    assert box.changes[-1] is None
    assert "read-only" in str(box.desk.view().problem)
