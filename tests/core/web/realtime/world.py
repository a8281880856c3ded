"""A real server with the realtime route, and real clients."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType, web
from aiohttp.test_utils import TestServer

from core.domain.access import Grant
from core.domain.ids import AccountId, MowerId
from core.domain.mower import Activity, MowerState
from core.identity.principal import Principal
from core.web.application import build_application
from core.web.host_routes import HostInfo
from core.web.ports import LiveState
from core.web.realtime.hub import RealtimeHub
from core.web.realtime.socket import RealtimeSocket
from core.web.realtime.viewer import ViewerParts
from core.web.route import mower_ref
from tests.fakes.authorizer import FakeAuthorizer
from tests.fakes.clock import ManualClock
from tests.fakes.tokens import FakeVerifier, make_principal
from tests.fakes.waiting import ManualWait

ANNA = make_principal("anna")
MOWER = MowerId("mower-a")
FOREIGN = MowerId("mower-b")


class StoredStates:
    """A LiveStates whose rows a test writes; `gate` holds the answer back."""

    def __init__(self) -> None:
        self.rows: dict[MowerId, LiveState] = {}
        self.gate: asyncio.Event | None = None
        self.asked = asyncio.Event()

    async def last(self, account_id: AccountId, mower_ids: Sequence[MowerId]) -> Sequence[LiveState]:
        found = [self.rows[m] for m in mower_ids if m in self.rows and self.rows[m].account_id == account_id]
        self.asked.set()
        if self.gate is not None:
            await self.gate.wait()
        return found


@dataclass
class Peer:
    """A client that speaks the protocol."""

    socket: ClientWebSocketResponse[Any]
    backlog: list[dict[str, Any]] = field(default_factory=list)

    async def say(self, **message: Any) -> None:
        await self.socket.send_str(json.dumps(message))

    async def hear(self, kind: str | None = None) -> dict[str, Any]:
        """The next message, or the next of a kind (others are put into `backlog`)."""
        while True:
            message = await self.socket.receive(timeout=5)
            assert message.type is WSMsgType.TEXT, (message, self.socket.close_code)
            decoded: dict[str, Any] = json.loads(message.data)
            if kind is None or decoded["type"] == kind:
                return decoded
            self.backlog.append(decoded)

    async def sign_in(self, token: str) -> dict[str, Any]:
        await self.say(type="auth", token=token)
        return await self.hear("ready")

    async def subscribe(self, *mower_ids: str) -> dict[str, Any]:
        await self.say(type="subscribe", mower_ids=mower_ids)
        return await self.hear("subscribed")

    async def settle(self) -> None:
        """Everything sent before has been handled."""
        await self.say(type="ping", request_id="settle")
        while (await self.hear("pong")).get("request_id") != "settle":
            pass

    async def closed(self) -> int:
        """Reads on to the close and returns its code."""
        while True:
            message = await self.socket.receive(timeout=5)
            if message.type in {WSMsgType.CLOSE, WSMsgType.CLOSED, WSMsgType.CLOSING, WSMsgType.ERROR}:
                assert self.socket.close_code is not None
                return self.socket.close_code
            if message.type is WSMsgType.TEXT:
                self.backlog.append(json.loads(message.data))


@dataclass
class Realtime:
    """The server of a test and everything behind it."""

    hub: RealtimeHub
    clock: ManualClock
    wait: ManualWait
    verifier: FakeVerifier
    authorizer: FakeAuthorizer
    stored: StoredStates
    server: TestServer[Any]
    session: ClientSession

    @property
    def url(self) -> str:
        return str(self.server.make_url("/api/v1/realtime/ws"))

    async def connect(self, **more: Any) -> Peer:
        return Peer(await self.session.ws_connect(self.url, autoping=True, **more))

    async def sign_in(self, who: Principal = ANNA) -> Peer:
        peer = await self.connect()
        await peer.sign_in(self.verifier.issue(who))
        return peer

    async def watching(self, who: Principal = ANNA, *mower_ids: str) -> Peer:
        """Signed in and subscribed, with the right to."""
        for mower_id in mower_ids or (MOWER,):
            self.authorizer.allow(who, mower_ref(mower_id), Grant.VIEW)
        peer = await self.sign_in(who)
        await peer.subscribe(*(mower_ids or (MOWER,)))
        return peer

    def live(self, mower_id: MowerId = MOWER, account_id: str = ANNA.account_id, **state: Any) -> LiveState:
        made = MowerState(observed_at=state.pop("observed_at", self.clock.now()), **state)
        return LiveState(mower_id=mower_id, account_id=AccountId(account_id), state=made)

    def publish(self, mower_id: MowerId = MOWER, account_id: str = ANNA.account_id, **state: Any) -> None:
        self.hub.publish_state(self.live(mower_id, account_id, **{"activity": Activity.MOWING, **state}))


@contextlib.asynccontextmanager
async def serving(**given: Any) -> AsyncIterator[Realtime]:
    """A running server; `hub`, `parts` and `socket` are arguments for those."""
    clock, verifier, authorizer = ManualClock(), FakeVerifier(), FakeAuthorizer()
    hub = RealtimeHub(clock=clock, **given.get("hub", {}))
    wait, stored = ManualWait(clock), StoredStates()
    parts = ViewerParts(
        hub=hub,
        verifier=verifier,
        authorizer=authorizer,
        live_states=stored,
        clock=clock,
        wait=wait,
        **{"drive_desk": None, **given.get("parts", {})},
    )
    app: web.Application = build_application(
        [RealtimeSocket(parts, **given.get("socket", {})).route()],
        verifier=verifier,
        authorizer=authorizer,
        clock=clock,
        host=HostInfo(kind="relay", version="1", name="test"),
        on_shutdown=[hub.close],
    )
    server: TestServer[Any] = TestServer(app)
    await server.start_server()
    try:
        async with ClientSession() as session:
            yield Realtime(hub, clock, wait, verifier, authorizer, stored, server, session)
    finally:
        await server.close()
