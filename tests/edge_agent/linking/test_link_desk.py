"""The device flow of the box against a relay that a test plays."""

from __future__ import annotations

import asyncio
import stat
from collections import deque

import aiohttp
import msgspec
import pytest
from aiohttp import web

from core.domain.errors import ConflictError, InvalidInputError, StorageError, UnavailableError
from core.sync.linking import BrokerAddress, LinkEnd, LinkGrant, LinkOffer, LinkPending, LinkPoll, LinkRequest
from edge_agent.linking.link_desk import LinkDesk
from edge_agent.linking.link_store import LinkStore
from edge_agent.linking.relay_client import check_relay_url
from tests.fakes.clock import ManualClock

GRANT = LinkGrant(
    edge_id="edge1",
    account_id="acc1",
    broker=BrokerAddress(host="127.0.0.1", port=1883, tls=False),
    credential="s3cret-credential",
    relay_keys=({"kty": "OKP", "crv": "Ed25519", "kid": "k", "x": "A" * 43},),
    relay_url="http://127.0.0.1",
)


class PlayedRelay:
    """Answers polls from a script; keeps what the box said."""

    def __init__(self) -> None:
        self.polls = deque()
        self.asked: list[LinkRequest] = []
        self.ended: list[LinkEnd] = []
        self.conflict = False

    def application(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/api/v1/edges/link", self.ask)
        app.router.add_post("/api/v1/edges/link/token", self.poll)
        app.router.add_delete("/api/v1/edges/link", self.end)
        return app

    async def ask(self, request):
        self.asked.append(msgspec.json.decode(await request.read(), type=LinkRequest))
        if self.conflict:
            return web.json_response({"title": "Conflict", "detail": "linked elsewhere"}, status=409)
        offer = LinkOffer(
            device_code="device-secret",
            user_code="BCDF-GHJK",
            verification_uri="http://relay/link",
            verification_uri_complete="http://relay/link?code=BCDF-GHJK",
            expires_in=600,
            interval=5,
        )
        return web.Response(body=msgspec.json.encode(offer))

    async def poll(self, request):
        assert msgspec.json.decode(await request.read(), type=LinkPoll).device_code == "device-secret"
        answer = self.polls.popleft() if self.polls else LinkPending(error="authorization_pending", interval=5)
        if isinstance(answer, int):
            return web.Response(status=answer, text="<html>")
        return web.Response(body=msgspec.json.encode(answer), status=200 if isinstance(answer, LinkGrant) else 400)

    async def end(self, request):
        self.ended.append(msgspec.json.decode(await request.read(), type=LinkEnd))
        return web.Response(status=204)


class Box:
    """A desk with a clock that every wait moves on."""

    def __init__(self, directory) -> None:
        self.clock = ManualClock()
        self.waits: list[float] = []
        self.changes = []
        self.streams = 0
        self.store = LinkStore(directory)
        self.desk = LinkDesk(
            self.store,
            name="Shed",
            version="1",
            clock=self.clock,
            open_session=aiohttp.ClientSession,
            before_link=self.begin_stream,
            on_change=self.changes.append,
            sleep=self.sleep,
        )

    async def begin_stream(self) -> None:
        self.streams += 1

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.clock.advance(seconds)
        await asyncio.sleep(0)

    async def until(self, status: str):
        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            polling = group.create_task(self.desk.run(), name="desk")
            while self.desk.view().status != status:
                await asyncio.sleep(0.001)
            polling.cancel()
        return self.desk.view()


@pytest.fixture
async def relay(aiohttp_server):
    played = PlayedRelay()
    server = await aiohttp_server(played.application())
    played.url = str(server.make_url("")).rstrip("/")
    return played


async def test_a_confirmed_code_links_the_box_for_good(relay, tmp_path):
    box = Box(tmp_path)
    view = await box.desk.start(relay.url)
    assert (view.status, view.user_code) == ("waiting", "BCDF-GHJK")
    relay.polls.extend(
        [
            LinkPending(error="authorization_pending", interval=5),
            502,
            LinkPending(error="slow_down", interval=10),
            GRANT,
        ]
    )
    view = await box.until("linked")
    assert box.waits == [5, 5, 5, 10]
    assert view.edge_id == "edge1"
    assert [c.grant for c in box.changes] == [GRANT]
    assert "s3cret" not in repr(box.changes[0])
    assert box.streams == 1
    assert stat.S_IMODE((tmp_path / "link.json").stat().st_mode) == 0o600
    again = Box(tmp_path)
    assert again.desk.view().status == "linked"
    assert again.store.identity() == box.store.identity()
    with pytest.raises(ConflictError, match="linked to"):
        await again.desk.start(relay.url)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [("expired_token", "not confirmed in time"), ("access_denied", "refused on the relay")],
)
async def test_a_code_that_comes_to_nothing_says_why(relay, tmp_path, answer, problem):
    box = Box(tmp_path)
    await box.desk.start(relay.url)
    relay.polls.append(LinkPending(error=answer, interval=5))
    view = await box.until("unlinked")
    assert problem in view.problem
    assert box.changes == []


async def test_polling_ends_with_the_code(relay, tmp_path):
    box = Box(tmp_path)
    await box.desk.start(relay.url)
    view = await box.until("unlinked")
    assert "not confirmed in time" in view.problem
    assert sum(box.waits) >= 600


async def test_ending_the_link_tells_the_relay_and_forgets_the_credential(relay, tmp_path):
    box = Box(tmp_path)
    await box.desk.start(relay.url)
    relay.polls.append(msgspec.structs.replace(GRANT, relay_url=relay.url))
    await box.until("linked")
    await box.desk.end()
    assert [e.credential for e in relay.ended] == ["s3cret-credential"]
    assert not (tmp_path / "link.json").exists()
    assert box.changes[-1] is None


async def test_the_link_ends_locally_even_when_the_relay_is_gone(relay, tmp_path):
    box = Box(tmp_path)
    await box.desk.start(relay.url)
    relay.polls.append(msgspec.structs.replace(GRANT, relay_url="http://127.0.0.1:1"))
    await box.until("linked")
    await box.desk.end()
    assert not (tmp_path / "link.json").exists()
    assert "could not be told" in box.desk.view().problem


async def test_the_relays_refusal_is_told(relay, tmp_path):
    relay.conflict = True
    with pytest.raises(ConflictError, match="linked elsewhere"):
        await Box(tmp_path).desk.start(relay.url)


async def test_something_else_behind_the_address(aiohttp_server, tmp_path):
    server = await aiohttp_server(web.Application())
    with pytest.raises(UnavailableError) as caught:
        await Box(tmp_path).desk.start(str(server.make_url("")))
    assert "does not look like a Mowdeck relay" in caught.value.advice


@pytest.mark.parametrize(
    "url", ["https://relay.example/", "http://localhost:1", "http://127.0.0.1:8", "http://[::1]:8"]
)
def test_safe_addresses(url):
    assert check_relay_url(url) == url.rstrip("/")


@pytest.mark.parametrize(
    "url", ["http://relay.example", "http://192.168.0.2", "ftp://x", "", "relay.example", "http://"]
)
def test_the_credential_never_travels_in_the_clear(url):
    with pytest.raises(InvalidInputError, match="https"):
        check_relay_url(url)


def test_a_damaged_file_is_not_overwritten(tmp_path):
    (tmp_path / "link.json").write_text("{half")
    assert LinkStore(tmp_path).link() is None
    assert (tmp_path / "link.json.corrupt-0").read_text() == "{half"


def test_a_directory_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot write"):
        LinkStore(tmp_path / "absent").identity()
