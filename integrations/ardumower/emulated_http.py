"""The emulated mower on the network: a `SunrayBrain` behind a small web server, with the faults of one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from aiohttp import web

from core.domain.clock import SystemClock
from integrations.ardumower.responder import SunrayBrain

_SILENCE_S = 30.0


class HttpMower:
    """Serves a brain as the firmware does: an empty body to what it does not understand."""

    def __init__(self, brain: SunrayBrain) -> None:
        self.brain = brain
        self.url = ""
        self.requests = 0
        self.drop_on: str | None = None
        """Cuts the connection after obeying a request that begins like this."""
        self.is_gone = False
        """Takes no connection."""
        self.resets_answers = 0
        """So many of the next answers break off in the middle."""
        self.status = 200
        self.body: bytes | None = None
        """Answered instead of what the mower says."""
        self._released = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self._server: asyncio.Server | None = None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests += 1
        line = (await request.read()).strip(b"\r\n")
        if self.body is not None or self.status != 200:
            return web.Response(status=self.status, body=self.body or b"", headers={"Location": self.url})
        count = len(self.brain.heard)
        reply = self.brain.hear(line, SystemClock().monotonic())
        if self.drop_on is not None and any(body.startswith(self.drop_on) for body in self.brain.heard[count:]):
            _cut(request)
            return web.Response()
        if self.brain.faults.is_silent:
            with suppress(TimeoutError):
                async with asyncio.timeout(_SILENCE_S):
                    await self._released.wait()
        if self.brain.faults.reply_delay_s > 0:
            await asyncio.sleep(self.brain.faults.reply_delay_s)
        if self.resets_answers > 0 and reply:
            self.resets_answers -= 1
            return await _half(request, reply)
        return web.Response(body=reply or b"", content_type="text/html")

    def release(self) -> None:
        """Requests that were not answered end now."""
        self._released.set()

    async def listen(self) -> None:
        """At a free port."""
        application = web.Application()
        application.router.add_post("/", self.handle)
        runner = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=0.1)
        await runner.setup()
        self._runner = runner
        self._server = await asyncio.get_running_loop().create_server(self._greet, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/"

    def _greet(self) -> asyncio.BaseProtocol:
        """Somebody connects."""
        if self.is_gone or self._runner is None or self._runner.server is None:
            return _Gone()
        return self._runner.server()

    async def close(self) -> None:
        """The mower is gone."""
        self.is_gone = True
        self.release()
        if self._server is not None:
            self._server.close()
        if self._runner is not None:
            await self._runner.cleanup()


class _Gone(asyncio.Protocol):
    """Resets the connection before a word is said. (A listener that is closed and opened again would lose connections
    that are just being accepted, on older Pythons.)"""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            transport.abort()


async def _half(request: web.Request, reply: bytes) -> web.StreamResponse:
    """The answer breaks off."""
    response = web.StreamResponse(headers={"Content-Length": str(len(reply))})
    await response.prepare(request)
    await response.write(reply[: len(reply) // 2])
    _cut(request)
    return response


def _cut(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


@asynccontextmanager
async def serve(brain: SunrayBrain) -> AsyncIterator[HttpMower]:
    """The mower at `url` until the block ends."""
    mower = HttpMower(brain)
    try:
        await mower.listen()
        yield mower
    finally:
        await mower.close()
