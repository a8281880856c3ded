"""One connection to an MQTT broker, on paho's protocol engine and the event loop.

A session lives from CONNACK to the first failure and is then thrown away; whoever wants another opens another.
That, and driving paho directly, removes what went wrong with a client that is used again: a re-entered client that
returns before CONNACK, publishes resent behind the caller's back, messages acknowledged before anybody saw them, a
publish that does not notice the disconnect. Connecting is done on the loop (paho would block a thread that nobody
can cancel). paho's version is pinned because one of its private methods is overridden.

MQTT 3.1.1, QoS 0 and 1. All failures are UnavailableError, refused credentials UnauthenticatedError.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import paho.mqtt.client as paho
import structlog
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.reasoncodes import ReasonCode

from core.domain.errors import MowdeckError, UnauthenticatedError, UnavailableError
from core.mqtt.connection import Trust, connect_socket

TIMEOUT_S = 10.0
PENDING_MAX = 1_000
"""Publishes of one session waiting for their PUBACK; one more is refused."""
LIVE_MAX = 2_000
"""QoS 0 messages waiting to be consumed; beyond it the oldest one is dropped."""
DURABLE_MAX = 2_000
"""QoS 1 messages waiting to be consumed. A broker that keeps to an inflight limit never gets there, because
messages are acknowledged only when they have been handled; one that does not loses the session."""
_INFLIGHT = 100
_GOODBYE_S = 1.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAddress:
    """Where a broker listens. With `tls` its certificate is always verified, against `ca_file` or `ca_pem` (both PEM)
    or, without them, against the system's authorities."""

    host: str
    port: int
    tls: bool = False
    ca_file: str | None = None
    ca_pem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """Who connects."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Will:
    """What the broker publishes when the session ends without a goodbye."""

    topic: str
    payload: bytes
    qos: Literal[0, 1] = 1
    retain: bool = True


@dataclass(slots=True, eq=False)
class _Receipt:
    mid: int
    is_handled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MqttMessage:
    """A message as it arrived. `retained`: it was kept by the broker, not published just now."""

    topic: str
    payload: bytes
    qos: int
    retained: bool
    receipt: _Receipt | None = field(default=None, repr=False)


class _Engine(paho.Client):
    """paho on a socket that is connected already."""

    def __init__(self, ready: socket.socket, **options: Any) -> None:
        super().__init__(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv311, manual_ack=True, **options)
        self._ready = ready

    def _create_socket(self) -> socket.socket:
        return self._ready


class MqttSession:
    """An open connection. Made by `open_session`; used by tasks of one event loop."""

    def __init__(self, engine: _Engine, sock: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        self._engine = engine
        self._sock = sock
        self._fd = sock.fileno()
        self._ticker: asyncio.TimerHandle | None = None
        self._connack: asyncio.Future[None] = self._loop.create_future()
        self._closed = asyncio.Event()
        self._failure: MowdeckError | None = None
        self._subscribing: dict[int, asyncio.Future[list[ReasonCode]]] = {}
        self._publishing: dict[int, asyncio.Future[None]] = {}
        self._arrived = asyncio.Event()
        self._waiting: deque[MqttMessage] = deque()
        self._waiting_live = 0
        self._receipts: deque[_Receipt] = deque()
        self.dropped = 0
        """QoS 0 messages dropped because nobody consumed them."""

    @property
    def is_connected(self) -> bool:
        """Whether the connection still stands."""
        return not self._closed.is_set()

    async def wait_closed(self) -> None:
        """Returns when the connection has ended."""
        await self._closed.wait()

    async def subscribe(self, *filters: str, qos: Literal[0, 1] = 1, timeout_s: float = TIMEOUT_S) -> None:
        """Subscribes and waits for the broker's word. (Mosquitto grants a foreign filter and delivers nothing.)"""
        self._check()
        wanted: list[tuple[str, int]] = [(text, qos) for text in filters]
        result, mid = self._engine.subscribe(wanted)
        if result != paho.MQTT_ERR_SUCCESS or mid is None:
            raise UnavailableError(f"could not subscribe: {paho.error_string(result)}")
        answer: asyncio.Future[list[ReasonCode]] = self._loop.create_future()
        self._subscribing[mid] = answer
        try:
            async with asyncio.timeout(timeout_s):
                codes = await answer
        except TimeoutError as err:
            raise UnavailableError("no answer to a subscription in time") from err
        finally:
            self._subscribing.pop(mid, None)
        refused = [text for text, code in zip(filters, codes, strict=True) if code.is_failure]
        if refused:
            raise UnavailableError(f"the broker refused to subscribe {', '.join(refused)}")

    async def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        qos: Literal[0, 1],
        retain: bool = False,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Returns when the broker has acknowledged (QoS 1) or the socket has taken it (QoS 0). UnavailableError as
        soon as the connection ends or after `timeout_s`; the message may have gone out nevertheless."""
        self._check()
        if len(self._publishing) >= PENDING_MAX:
            raise UnavailableError("too many messages wait for the broker")
        info = self._engine.publish(topic, payload, qos, retain)
        if info.rc != paho.MQTT_ERR_SUCCESS:
            raise UnavailableError(f"could not publish: {paho.error_string(info.rc)}")
        if info.is_published():
            return
        acknowledged: asyncio.Future[None] = self._loop.create_future()
        self._publishing[info.mid] = acknowledged
        try:
            async with asyncio.timeout(timeout_s):
                await acknowledged
        except TimeoutError as err:
            raise UnavailableError("the broker did not acknowledge in time") from err
        finally:
            self._publishing.pop(info.mid, None)

    async def messages(self) -> AsyncIterator[MqttMessage]:
        """Messages in the order of arrival, for one consumer; ends only by UnavailableError (connection ended).
        Each QoS 1 message must be given to `ack` once it has been handled."""
        while True:
            while self._waiting:
                message = self._waiting.popleft()
                self._waiting_live -= message.qos == 0
                yield message
            self._check()
            self._arrived.clear()
            await self._arrived.wait()

    def ack(self, message: MqttMessage) -> None:
        """The message has been handled. The broker hears of it in the order of arrival, as MQTT demands, so a
        message that is never given back here holds up all after it."""
        if message.receipt is not None:
            message.receipt.is_handled = True
        while self._receipts and self._receipts[0].is_handled and self.is_connected:
            self._engine.ack(self._receipts.popleft().mid, 1)

    # -- life, called by open_session
    async def start(self, keepalive_s: int, timeout_s: float) -> None:
        """CONNECT and CONNACK."""
        engine = self._engine
        engine.on_connect = self._on_connect
        engine.on_disconnect = self._on_disconnect
        engine.on_subscribe = self._on_subscribe
        engine.on_publish = self._on_publish
        engine.on_message = self._on_message
        engine.on_socket_register_write = self._on_wants_write
        engine.on_socket_unregister_write = self._on_wrote_all
        engine.max_inflight_messages_set(_INFLIGHT)
        self._loop.add_reader(self._fd, self._guarded(self._read))
        engine.connect("broker", 1, keepalive_s)  # names are not used: the socket is connected
        self._tick()
        try:
            async with asyncio.timeout(timeout_s):
                await self._connack
        except TimeoutError as err:
            raise UnavailableError("the broker did not answer in time") from err

    async def close(self) -> None:
        """Says goodbye (so that the broker keeps the will) and closes the socket, within a second."""
        if self.is_connected and self._connack.done():
            self._engine.disconnect()
            try:
                async with asyncio.timeout(_GOODBYE_S):
                    await self._closed.wait()
            except TimeoutError:
                _log.debug("broker did not close", hint="it is not reading")
            finally:
                self._end(UnavailableError("the session was closed"))
        else:
            self._end(UnavailableError("the session was closed"))

    def _end(self, failure: MowdeckError) -> None:
        """The connection is over: everybody who waits for it hears so. Idempotent."""
        if self._closed.is_set():
            return
        self._failure = failure
        self._closed.set()
        self._loop.remove_reader(self._fd)
        self._loop.remove_writer(self._fd)
        if self._ticker is not None:
            self._ticker.cancel()
        self._sock.close()
        futures: list[asyncio.Future[Any]] = [self._connack, *self._publishing.values(), *self._subscribing.values()]
        for waiting in futures:
            if not waiting.done():
                waiting.set_exception(UnavailableError(failure.detail))
                waiting.exception()  # its waiter may have been cancelled: no noise about an unseen exception
        self._arrived.set()

    def _check(self) -> None:
        if self._closed.is_set():
            failure = self._failure or UnavailableError("the connection ended")
            raise UnavailableError(failure.detail) from failure

    def _guarded(self, act: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                act()
            except Exception as err:  # noqa: BLE001  (a callback of the loop: whatever fails ends this session)
                failure = UnavailableError(f"the connection failed: {type(err).__name__}: {err}")
                failure.__cause__ = err
                self._end(failure)

        return run

    def _read(self) -> None:
        while self.is_connected:
            self._engine.loop_read()
            # TLS may hold whole packets already deciphered, of which the loop's reader knows nothing
            if self._sock.fileno() < 0 or not isinstance(self._sock, ssl.SSLSocket) or self._sock.pending() == 0:
                return

    def _write(self) -> None:
        self._engine.loop_write()

    def _tick(self) -> None:
        self._guarded(lambda: void(self._engine.loop_misc()))()
        if self.is_connected:
            self._ticker = self._loop.call_later(1.0, self._tick)

    # -- paho's callbacks; all on the loop's thread
    def _on_wants_write(self, _client: object, _userdata: object, _sock: object) -> None:
        if self.is_connected:
            self._loop.add_writer(self._fd, self._guarded(self._write))

    def _on_wrote_all(self, _client: object, _userdata: object, _sock: object) -> None:
        if self.is_connected:
            self._loop.remove_writer(self._fd)

    def _on_connect(
        self, _client: object, _userdata: object, _flags: object, code: ReasonCode, _properties: object
    ) -> None:
        if self._connack.done():
            return
        if code.is_failure:
            refused = code.getName() in {"Bad user name or password", "Not authorized"}
            kind = UnauthenticatedError if refused else UnavailableError
            self._connack.set_exception(kind(f"the broker refused the connection: {code.getName()}"))
        else:
            self._connack.set_result(None)

    def _on_disconnect(
        self, _client: object, _userdata: object, _flags: object, code: ReasonCode, _properties: object
    ) -> None:
        self._end(UnavailableError(f"the connection to the broker ended ({code.getName()})"))

    def _on_subscribe(
        self, _client: object, _userdata: object, mid: int, codes: list[ReasonCode], _properties: object
    ) -> None:
        waiting = self._subscribing.get(mid)
        if waiting is not None and not waiting.done():
            waiting.set_result(codes)

    def _on_publish(self, _client: object, _userdata: object, mid: int, _code: object, _properties: object) -> None:
        waiting = self._publishing.get(mid)
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    def _on_message(self, _client: object, _userdata: object, received: paho.MQTTMessage) -> None:
        receipt = None
        if received.qos == 0:
            if self._waiting_live >= LIVE_MAX:
                self._drop_oldest_live()
            self._waiting_live += 1
        else:
            receipt = _Receipt(received.mid)
            self._receipts.append(receipt)
            if len(self._waiting) - self._waiting_live >= DURABLE_MAX:
                self._end(UnavailableError("the broker sent more than it may before an acknowledgement"))
                return
        self._waiting.append(
            MqttMessage(
                topic=received.topic,
                payload=bytes(received.payload),
                qos=received.qos,
                retained=received.retain,
                receipt=receipt,
            )
        )
        self._arrived.set()

    def _drop_oldest_live(self) -> None:
        for index, message in enumerate(self._waiting):
            if message.qos == 0:
                del self._waiting[index]
                self._waiting_live -= 1
                self.dropped += 1
                return


def void(_result: object) -> None:
    """Drops a result."""


@asynccontextmanager
async def open_session(
    address: BrokerAddress,
    credential: Credential,
    *,
    will: Will | None = None,
    keepalive_s: int = 30,
    clean: bool = True,
    client_id: str | None = None,
    timeout_s: float = TIMEOUT_S,
) -> AsyncIterator[MqttSession]:
    """A connected session; it is closed on leaving. The client id is random unless given: who knows an id could
    otherwise throw its owner out."""
    trust = Trust(ca_file=address.ca_file, ca_pem=address.ca_pem) if address.tls else None
    sock = await connect_socket(address.host, address.port, trust=trust, timeout_s=timeout_s)
    engine = _Engine(sock, client_id=client_id or f"md{secrets.token_hex(10)}", clean_session=clean)
    engine.username_pw_set(credential.username, credential.password)
    if will is not None:
        engine.will_set(will.topic, will.payload, will.qos, will.retain)
    session = MqttSession(engine, sock)
    try:
        await session.start(keepalive_s, timeout_s)
        yield session
    finally:
        await session.close()
