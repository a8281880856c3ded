"""One open connection: a reader, a writer and a watchdog that carry out what the conversation decides."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

import structlog
from aiohttp import WSMsgType, web

from core.access.authorizer import Authorizer
from core.domain import limits
from core.domain.clock import Clock
from core.domain.errors import LimitExceededError
from core.domain.ids import MowerId
from core.identity.principal import Principal
from core.web.ports import DriveDesk, LiveState, LiveStates, TokenVerifier
from core.web.realtime.asking import Ports
from core.web.realtime.hub import RealtimeHub
from core.web.realtime.messages import CloseCode, Error, State, encode
from core.web.realtime.outbox import Frame, Outbox
from core.web.realtime.protocol import (
    Action,
    Check,
    Close,
    Conversation,
    Forward,
    Phase,
    PingPeer,
    Recheck,
    Send,
    SendLast,
    Verify,
)

log = structlog.get_logger(__name__)

LAST_WORDS_S = 1.0
"""For what is still queued before a close."""
DRAIN_POLL_S = 0.05
"""Between two looks at the transport of a viewer that does not read fast enough."""
WRITE_BUFFER_BYTES = 32 * 1024
"""In the process, before the writer waits: what is here is no longer conflated."""
GOODBYE_S = 5.0
"""For the close handshake; then the connection is cut."""

Wait = Callable[[asyncio.Event, float], Awaitable[None]]
"""Returns when the event is set or the seconds have passed."""


async def wait_for(event: asyncio.Event, seconds: float) -> None:
    """The real Wait."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewerParts:
    """What every connection of a host uses."""

    hub: RealtimeHub
    verifier: TokenVerifier
    authorizer: Authorizer
    live_states: LiveStates | None
    drive_desk: DriveDesk | None
    clock: Clock
    wait: Wait = wait_for
    send_deadline_s: float = limits.SEND_DEADLINE_S
    goodbye_s: float = GOODBYE_S


class Viewer:
    """Runs one connection to its end. Used once. `socket` is prepared and made by socket.py."""

    def __init__(
        self,
        socket: web.WebSocketResponse[Any],
        transport: asyncio.Transport,
        parts: ViewerParts,
        conversation: Conversation,
        *,
        remote: str,
    ) -> None:
        self.remote = remote
        self._transport = transport
        self._socket = socket
        self._parts = parts
        self._hub = parts.hub
        self._ports = Ports(
            verifier=parts.verifier,
            authorizer=parts.authorizer,
            live_states=parts.live_states,
            drive_desk=parts.drive_desk,
        )
        self._clock = parts.clock
        self._conversation = conversation
        self._outbox = Outbox()
        self._indexed: frozenset[MowerId] = frozenset()
        self._wake = asyncio.Event()
        self._ending = asyncio.Event()
        self._close: Close | None = None

    @property
    def principal(self) -> Principal | None:
        """Who it is, once that is known."""
        return self._conversation.principal

    async def run(self) -> None:
        """Returns when the connection has ended, its close handshake included."""
        self._hub.enter(self)
        loops = {"reader": self._read, "writer": self._write, "watchdog": self._watch}
        try:
            async with asyncio.TaskGroup() as group:
                name = self._conversation.connection_id
                tasks = [
                    group.create_task(self._guard(loop()), name=f"ws-{role}-{name}") for role, loop in loops.items()
                ]
                await self._ending.wait()
                for task in tasks:
                    task.cancel()
        finally:
            self._hub.leave(self, self._indexed)
            await self._ports.close(self._conversation.connection_id)
        await self._say_goodbye()

    # -- called by the hub; none of these waits

    def push(self, frame: Frame) -> None:
        """Queues a frame; a full queue ends the connection."""
        if not self._outbox.put(frame):
            self.end(CloseCode.SLOW_CONSUMER, "too slow")

    def push_state(self, mower_id: MowerId, frame: Frame) -> None:
        """Replaces the mower's waiting state."""
        self._outbox.put_state(mower_id, frame)

    def recheck(self) -> None:
        """Rights may have changed."""
        self._conversation.want_recheck(self._clock.monotonic())
        self._wake.set()

    def end(self, code: CloseCode, reason: str) -> None:
        """Ends the connection; the first reason stands."""
        self._finish(Close(code, reason))

    def _finish(self, close: Close | None) -> None:
        if not self._ending.is_set():
            self._close = close
            self._conversation.phase = Phase.CLOSED
            self._ending.set()

    # -- the three loops

    async def _guard(self, loop: Coroutine[Any, Any, None]) -> None:
        """A connection's fire door: a bug here ends this connection and no other."""
        try:
            await loop
        except OSError:  # the peer is gone; aiohttp's reset errors are OSErrors too
            self._finish(None)
        except Exception:  # a bug in one connection must not end the others
            log.exception("realtime connection broke", connection_id=self._conversation.connection_id)
            self.end(CloseCode.INTERNAL, "internal")

    async def _read(self) -> None:
        while True:
            message = await self._socket.receive()
            now = self._clock.monotonic()
            self._conversation.heard(now)
            match message.type:
                case WSMsgType.TEXT:
                    await self._act(self._conversation.receive(message.data, now, self._clock.now()))
                case WSMsgType.BINARY:
                    await self._act(self._conversation.receive_binary())
                case WSMsgType.PING:
                    self._outbox.put_pong(message.data)
                case WSMsgType.PONG:
                    pass
                case _:  # closed by the peer, or by aiohttp for a frame that breaks RFC 6455
                    self._finish(None)
                    return
            self._wake.set()

    async def _write(self) -> None:
        while not self._ending.is_set():
            is_ping_due, pong = self._outbox.take_control()
            if is_ping_due:
                await self._send(b"", WSMsgType.PING)
            if pong is not None:
                await self._send(pong, WSMsgType.PONG)
            frame = self._outbox.take()
            if frame is None:
                await self._outbox.ready.wait()
                self._outbox.ready.clear()
            elif self._hub.is_own(self, frame):
                await self._send(frame.data, WSMsgType.TEXT)

    async def _send(self, data: bytes, kind: WSMsgType) -> None:
        await self._socket.send_frame(data, kind)
        if self._is_drained():
            return
        try:
            async with asyncio.timeout(self._parts.send_deadline_s):
                while not self._is_drained():  # noqa: ASYNC110  (transports tell only their own protocol)
                    await asyncio.sleep(DRAIN_POLL_S)
        except TimeoutError:
            self.end(CloseCode.SLOW_CONSUMER, "too slow")

    def _is_drained(self) -> bool:
        """Whether the transport takes more. aiohttp's own drain is not used (`writer_limit`): a cancelled one
        poisons the next, and with it the close."""
        if self._transport.is_closing():
            raise ConnectionResetError("the peer is gone")
        return self._transport.get_write_buffer_size() <= WRITE_BUFFER_BYTES

    async def _watch(self) -> None:
        while not self._ending.is_set():
            self._wake.clear()
            await self._act(self._conversation.tick(self._clock.monotonic(), self._clock.now()))
            due_in_s = self._conversation.due_in(self._clock.monotonic(), self._clock.now())
            await self._parts.wait(self._wake, due_in_s)

    # -- actions

    async def _act(self, actions: Sequence[Action]) -> None:
        self._index()
        for action in actions:
            match action:
                case Send(message=message):
                    self.push(Frame(encode(message)))
                case Close():
                    self._finish(action)
                case Verify(token=token):
                    await self._act(await self._verify(token))
                case Check():
                    await self._act(await self._check(action))
                case Recheck():
                    await self._act(await self._recheck(action))
                case SendLast():
                    await self._send_last(action)
                case Forward():
                    await self._act(await self._forward(action))
                case PingPeer():
                    self._outbox.put_ping()
                case _:
                    assert_never(action)

    def _index(self) -> None:
        """Tells the hub what is followed now; what is not any more does not go out any more."""
        followed = self._conversation.followed
        if followed != self._indexed:
            self._hub.follow(self, self._indexed, followed)
            self._outbox.drop(self._indexed - followed)
            self._indexed = frozenset(followed)

    async def _verify(self, token: str) -> list[Action]:
        who = await self._ports.verify(token)
        if who == "refused":
            return self._conversation.refused()
        if who == "outage":
            return self._conversation.unverified()
        if self._ending.is_set():
            return []
        actions = self._conversation.verified(who, self._clock.monotonic(), self._clock.now())
        if self._conversation.phase is Phase.OPEN:
            try:
                self._hub.admit(self, who)
            except LimitExceededError as err:
                return self._conversation.crowded(err.detail)
        return actions

    async def _check(self, check: Check) -> list[Action]:
        answers = await self._ports.may_view(self.principal, check.mower_ids)
        if answers is None:
            return self._conversation.unchecked(check)
        return self._conversation.checked(check, answers, self._clock.monotonic())

    async def _recheck(self, recheck: Recheck) -> list[Action]:
        answers = await self._ports.may_view(self.principal, recheck.mower_ids)
        if answers is None:
            self._conversation.unrechecked(self._clock.monotonic())
            return []
        return self._conversation.rechecked(recheck, answers)

    async def _send_last(self, action: SendLast) -> None:
        """States published here first; the rest from the host's store, unless one was published meanwhile."""
        who = self.principal
        if who is None:
            return
        known = self._hub.known(who.account_id, action.mower_ids)
        self._push_last(known)
        missing = [m for m in action.mower_ids if m not in {live.mower_id for live in known}]
        stored = await self._ports.stored(who, missing)
        if stored is None:
            told = "the last states could not be read now"
            self.push(Frame(encode(Error(code="internal", detail=told, request_id=action.request_id))))
            return
        overtaken = {live.mower_id for live in self._hub.known(who.account_id, missing)}
        self._push_last([live for live in stored if live.mower_id not in overtaken])

    def _push_last(self, states: Sequence[LiveState]) -> None:
        for live in states:
            if live.mower_id in self._indexed:
                frame = Frame(encode(State(mower_id=live.mower_id, state=live.state)), live.account_id, live.mower_id)
                self.push_state(live.mower_id, frame)

    async def _forward(self, action: Forward) -> list[Action]:
        connection_id = self._conversation.connection_id
        error = await self._ports.drive(self.principal, action.mower_id, action.frame, connection_id)
        return [] if error is None else [Send(error)]

    # -- the end

    async def _say_goodbye(self) -> None:
        close = self._close
        if close is None:
            return
        self._hub.closed.labels(close.code.name.lower()).inc()
        if close.code is not CloseCode.SLOW_CONSUMER:
            await self._flush()
        try:
            async with asyncio.timeout(self._parts.goodbye_s):
                await self._socket.close(code=close.code, message=close.reason.encode(), drain=False)
        except (TimeoutError, OSError):
            pass  # it does not read or has gone; the socket's owner cuts it

    async def _flush(self) -> None:
        """The last words: an error that explains the close."""
        try:
            async with asyncio.timeout(LAST_WORDS_S):
                while (frame := self._outbox.take_queued()) is not None:
                    if self._hub.is_own(self, frame):
                        await self._socket.send_frame(frame.data, WSMsgType.TEXT)
        except (TimeoutError, OSError):
            pass  # the close itself has a deadline too
