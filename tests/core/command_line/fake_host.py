"""A host in a thread of its own, for commands that block: a real socket, and answers that a test writes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aiohttp import web

from core.command_line.host_client import HostClient
from core.command_line.settings import ClientSettings
from tests.fakes.mosquitto import free_port

Talk = Callable[[web.WebSocketResponse, int], Awaitable[None]]
"""What happens on the realtime socket after `auth`; gets the socket and which connection it is (from 1)."""
MOWERS = [
    {"mower_id": "01abc", "name": "Shaun", "setup_error": None},
    {"mower_id": "01abd", "name": "Timmy", "setup_error": None},
]


def problem(code: str, detail: str = "", **more: Any) -> dict[str, Any]:
    """An RFC 9457 body."""
    return {"type": f"urn:mowdeck:problem:{code}", "title": code, "code": code, "detail": detail, **more}


class FakeHost:
    """`answers` by `METHOD /path`: (status, body), or a function of the request's body that gives one; `requests` is
    everything asked for. Tokens are `access-1`, `access-2`, ...; only those in `valid` are taken."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[tuple[str, Any]] = []
        self.answers: dict[str, Any] = {
            "GET /fleet/mowers": (200, {"items": MOWERS}),
            "GET /telemetry/states": (200, {"items": []}),
        }
        self.valid: set[str] = set()
        self.issued = 0
        self.lifetime = timedelta(minutes=10)
        self.is_ended = False
        """No refresh token is taken any more."""
        self.talk: Talk | None = None
        self.connections = 0

    # -- tokens

    def tokens(self) -> dict[str, Any]:
        """A new pair; it alone holds from now on."""
        self.issued += 1
        self.valid = {f"access-{self.issued}"}
        return {
            "access_token": f"access-{self.issued}",
            "expires_at": (datetime.now(UTC) + self.lifetime).isoformat(),
            "refresh_token": f"refresh-{self.issued}",
        }

    def client(self, home: Path, *, token: str | None = None) -> HostClient:
        return HostClient(ClientSettings(host=self.url, config_dir=home, token=token, password=None), self.url)

    def sign_in(self, home: Path) -> None:
        """As if somebody had signed in at this host before."""
        with self.client(home) as client:
            client.keep(self.tokens(), "anna", is_last=True)

    def asked(self, what: str) -> list[Any]:
        """Bodies of the requests of this kind."""
        return [body for name, body in self.requests if name == what]

    # -- the server

    async def handle(self, request: web.Request) -> web.StreamResponse:
        name = f"{request.method} {request.path.removeprefix('/api/v1')}"
        if name == "GET /realtime/ws":
            return await self._socket(request)
        body = await request.json() if request.can_read_body else None
        self.requests.append((name, body))
        if name == "POST /identity/session/refresh":
            if self.is_ended or body["refresh_token"] != f"refresh-{self.issued}":
                return _json(401, problem("unauthenticated", "the session has ended"))
            return _json(200, self.tokens())
        if name in {"POST /identity/session", "POST /identity/register"}:
            status, answer = self.answers.get(name, (201, None))
            return _json(status, answer or self.tokens())
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if token not in self.valid:
            return _json(401, problem("unauthenticated", "the token does not hold"))
        found = self.answers.get(name, (404, problem("not-found", "no such path")))
        status, answer = found(body) if callable(found) else found
        if status == 0:  # takes the request and says nothing
            if request.transport is not None:
                request.transport.abort()
            return web.Response()
        return _json(status, answer)

    async def _socket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.connections += 1
        if not await self.authenticate(socket):
            return socket
        if self.talk is not None:
            await self.talk(socket, self.connections)
        await socket.close()
        return socket

    async def authenticate(self, socket: web.WebSocketResponse, lifetime: timedelta = timedelta(minutes=10)) -> bool:
        """Takes one `auth`; 4401 for a token that does not hold."""
        message = await socket.receive_json()
        self.requests.append((f"ws {message['type']}", message))
        if message["token"] not in self.valid:
            await socket.close(code=4401)
            return False
        now = datetime.now(UTC)
        ready = {"type": "ready", "server_time": now.isoformat(), "token_expires_at": (now + lifetime).isoformat()}
        await socket.send_json(ready)
        return True


def _json(status: int, body: Any) -> web.Response:
    if body is None:
        return web.Response(status=status)
    if isinstance(body, str):
        return web.Response(status=status, text=body, content_type="text/html")
    return web.json_response(body, status=status)


@contextmanager
def fake_host(url: str | None = None) -> Iterator[FakeHost]:
    """A running host, at the address of an earlier one when that is given; its thread has ended afterwards."""
    port = free_port() if url is None else int(url.rsplit(":", 1)[1])
    host = FakeHost(f"http://127.0.0.1:{port}")
    started, loop = threading.Event(), asyncio.new_event_loop()
    ending = asyncio.Event()

    async def serve() -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", host.handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        started.set()
        await ending.wait()
        await runner.cleanup()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), name="fake host")
    thread.start()
    assert started.wait(10)
    try:
        yield host
    finally:
        loop.call_soon_threadsafe(ending.set)
        thread.join(10)
        loop.close()
