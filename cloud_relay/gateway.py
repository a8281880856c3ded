"""The relay's connections to its broker: what boxes send goes to handlers, what they are to hear goes out.

Three connections, so that nothing waits behind what is less urgent: `main` (everything but the two below), `journal`
(batches in, acks out; the broker's inflight limit on it is the back-pressure of the store), `emergency` (stops out,
nothing else, ever). Each is opened anew with backoff when it ends.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Literal

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from cloud_relay.complaints import Complaints
from cloud_relay.dispatch import Dispatch
from core.domain.clock import Clock
from core.domain.errors import (
    MalformedMessageError,
    MowdeckError,
    NotPublishedError,
    UnauthenticatedError,
    UnavailableError,
)
from core.domain.ids import EdgeId, MowerId
from core.mqtt.session import BrokerAddress, Credential, MqttMessage, MqttSession, open_session
from core.sync import topics
from core.sync.backoff import Backoff
from core.web.rate import RateLimiter

Handler = Callable[[EdgeId, str | None, bytes, bool], Awaitable[None]]
"""Takes (box, last level of the topic, payload, whether the broker had retained it)."""

Lane = Literal["main", "journal", "emergency"]
LANES: tuple[Lane, ...] = ("main", "journal", "emergency")

PUBLISH_S = 5.0
"""A message that the broker has not acknowledged by then counts as not published."""
HANDLER_S = 60.0
"""A handler that takes longer is given up; what it was to store comes again from the box's journal."""
_CONCURRENCY: Mapping[Lane, int] = {"main": 32, "journal": 4, "emergency": 1}
MESSAGES_PER_S = 100.0
BURST = 1_000
"""Messages of one box that are taken, batches apart: twice what 50 mowers can say, and at once all that a box keeps
for its return. More is a flood. It must not wait here: the broker wants its acks in order, so whatever waits for one
box holds up all the others."""
JOURNAL_WAITING = 32
"""Batches of one box that may wait: four times what it sends before it waits for an ack."""
MUTE_S = 10.0
"""A box that sends more batches is not listened to for this long; they come again."""
BOXES = 50_000
_RECONNECT_FIRST_S = 0.5
_RECONNECT_MAX_S = 15.0
_STABLE_S = 10.0
_BREATHER = 64
"""After so many messages the loop gets a turn, also when more are waiting."""

_log = structlog.get_logger(__name__)


class GatewayMetrics:
    """Counters of the gateway."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.received = Counter("mowdeck_relay_messages_received", "Messages of boxes", ["branch"], registry=registry)
        self.dropped = Counter(
            "mowdeck_relay_messages_dropped",
            "Messages that could not be handled",
            ["branch", "reason"],
            registry=registry,
        )
        self.published = Counter(
            "mowdeck_relay_messages_published", "Messages to boxes", ["branch", "outcome"], registry=registry
        )
        self.connected = Gauge(
            "mowdeck_relay_broker_connected", "Whether a lane is connected", ["lane"], registry=registry
        )


class Gateway:
    """`handlers` by branch (`topics.UP_*`); the one for UP_STATE is awaited in place and must not wait for anything.

    A QoS 1 message is acknowledged to the broker when its handler has finished, with success or not: what a box
    must not lose is in its journal, which has acks of its own.
    """

    def __init__(
        self,
        *,
        address: BrokerAddress,
        credential: Credential,
        handlers: Mapping[str, Handler],
        clock: Clock,
        registry: CollectorRegistry,
        wait_for_broker: Callable[[], Awaitable[None]] | None = None,
        on_connected: Callable[[], Awaitable[None]] | None = None,
        random_number: Callable[[], float] = random.random,
        messages_per_s: float = MESSAGES_PER_S,
        burst: float = BURST,
    ) -> None:
        """`wait_for_broker` returns when connecting makes sense; `on_connected` runs after each (re)connection of
        the main lane (what the broker had retained may be lost by then)."""
        self._address = address
        self._credential = credential
        self._handlers = dict(handlers)
        self._clock = clock
        self._metrics = GatewayMetrics(registry)
        self._wait_for_broker = wait_for_broker
        self._on_connected = on_connected
        self._random = random_number
        self._sessions: dict[Lane, MqttSession] = {}
        self._pace = RateLimiter(rate_per_s=messages_per_s, burst=burst, capacity=BOXES)
        self._muted: dict[EdgeId, float] = {}
        self._complaints = Complaints()
        self._changed = asyncio.Condition()
        self._is_news = asyncio.Event()
        for lane in LANES:
            self._metrics.connected.labels(lane).set(0)

    @property
    def is_connected(self) -> bool:
        """Whether all three lanes stand."""
        return all(self.is_lane_connected(lane) for lane in LANES)

    def is_lane_connected(self, lane: Lane) -> bool:
        session = self._sessions.get(lane)
        return session is not None and session.is_connected

    async def wait_connected(self) -> None:
        """Returns when all three lanes stand."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.is_connected)

    async def run(self) -> None:
        """Keeps the connections until cancelled."""
        async with asyncio.TaskGroup() as group:
            if self._on_connected is not None:
                group.create_task(self._announce(self._on_connected), name="gateway announce")
            for lane in LANES:
                group.create_task(self._keep(lane, group), name=f"gateway {lane}")

    async def publish(
        self,
        edge_id: EdgeId,
        branch: str,
        tail: str | None,
        payload: bytes,
        *,
        qos: Literal[0, 1] = 1,
        retain: bool = False,
    ) -> None:
        """Hands a message for a box to the broker. NotPublishedError when that did not work in time."""
        is_ack = branch == topics.DOWN_ACK and self.is_lane_connected("journal")
        lane: Lane = "journal" if is_ack else "main"
        await self._publish(lane, edge_id, branch, tail, payload, qos=qos, retain=retain)

    async def publish_stop(self, edge_id: EdgeId, mower_id: MowerId, payload: bytes) -> None:
        """Sends an emergency stop over the connection that carries nothing else. NotPublishedError as `publish`."""
        await self._publish("emergency", edge_id, topics.DOWN_STOP, mower_id, payload, qos=1, retain=False)

    async def clear_retained(self, edge_id: EdgeId) -> None:
        """Removes what the broker retains of a box that is no longer linked. NotPublishedError as `publish`."""
        for branch in (topics.UP_STATUS, topics.DOWN_REGISTRATIONS):
            await self.publish(edge_id, branch, None, b"", retain=True)

    async def _publish(
        self,
        lane: Lane,
        edge_id: EdgeId,
        branch: str,
        tail: str | None,
        payload: bytes,
        *,
        qos: Literal[0, 1],
        retain: bool,
    ) -> None:
        topic = topics.topic(edge_id, branch, tail)
        session = self._sessions.get(lane)
        try:
            if session is None:
                raise UnavailableError("no connection to the broker")
            await session.publish(topic, payload, qos=qos, retain=retain, timeout_s=PUBLISH_S)
        except UnavailableError as err:
            self._metrics.published.labels(branch, "failed").inc()
            raise NotPublishedError(err.detail) from err
        self._metrics.published.labels(branch, "sent").inc()

    async def _keep(self, lane: Lane, group: asyncio.TaskGroup) -> None:
        backoff = Backoff(_RECONNECT_FIRST_S, _RECONNECT_MAX_S, random=self._random)
        per_box = JOURNAL_WAITING if lane == "journal" else None
        dispatch = Dispatch(group, name=f"{lane} of", concurrency=_CONCURRENCY[lane], per_box=per_box)
        while True:
            if self._wait_for_broker is not None:
                await self._wait_for_broker()
            began = self._clock.monotonic()
            try:
                async with self._connected(lane) as session:
                    await self._read(session, dispatch)
            except (UnavailableError, UnauthenticatedError) as err:
                backoff.succeed(self._clock.monotonic() - began, stable_s=_STABLE_S)
                delay_s = backoff.next_s()
                _log.warning("broker connection ended", lane=lane, error=err.detail, delay_s=round(delay_s, 2))
                await asyncio.sleep(delay_s)

    @asynccontextmanager
    async def _connected(self, lane: Lane) -> AsyncIterator[MqttSession]:
        async with open_session(self._address, self._credential) as session:
            filters = [topics.topic_filter(branch) for branch in self._handlers if _lane_of(branch) == lane]
            if filters:
                await session.subscribe(*filters)
            self._sessions[lane] = session
            self._metrics.connected.labels(lane).set(1)
            _log.info("broker connected", lane=lane)
            if lane == "main":
                self._is_news.set()
            await self._notify()
            try:
                yield session
            finally:
                del self._sessions[lane]
                self._metrics.connected.labels(lane).set(0)
                await self._notify()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _announce(self, on_connected: Callable[[], Awaitable[None]]) -> None:
        """Runs `on_connected` after each connection of the main lane, one at a time."""
        while True:
            await self._is_news.wait()
            self._is_news.clear()
            try:
                await on_connected()
            except MowdeckError as err:
                _log.warning("not all was said after connecting", error=err.detail, code=err.code)

    async def _read(self, session: MqttSession, dispatch: Dispatch) -> None:
        """Until the connection ends, which is an UnavailableError."""
        count = 0
        async for message in session.messages():
            count += 1
            if count % _BREATHER == 0:
                await asyncio.sleep(0)
            try:
                topic = topics.parse_topic(message.topic)
                handler = self._handlers[topic.branch]
            except (MalformedMessageError, KeyError):
                self._metrics.dropped.labels("unknown", "topic").inc()
                session.ack(message)
                continue
            self._metrics.received.labels(topic.branch).inc()
            if not await self._take(session, message, topic, handler, dispatch):
                self._drop(topic, "flood", "more than a box has to say")
                session.ack(message)

    async def _take(
        self, session: MqttSession, message: MqttMessage, topic: topics.Topic, handler: Handler, dispatch: Dispatch
    ) -> bool:
        """Handles a message now or in its turn; false when the box has sent too many."""
        now = self._clock.monotonic()
        if topic.branch == topics.UP_JOURNAL:
            if now < self._muted.get(topic.edge_id, now):
                return False
            self._muted.pop(topic.edge_id, None)
        elif self._pace.take(topic.edge_id, now) > 0:
            return False
        if topic.branch == topics.UP_STATE:
            await self._handle(session, message, topic, handler)
            return True
        is_taken = dispatch.add(topic.edge_id, lambda: self._handle(session, message, topic, handler))
        if not is_taken:
            self._muted[topic.edge_id] = now + MUTE_S
        return is_taken

    async def _handle(self, session: MqttSession, message: MqttMessage, topic: topics.Topic, handler: Handler) -> None:
        """Runs a handler behind a fire door: whatever one message does, the others go on."""
        try:
            async with asyncio.timeout(HANDLER_S):
                await handler(topic.edge_id, topic.tail, message.payload, message.retained)
        except MalformedMessageError as err:
            self._drop(topic, "malformed", err.detail)
        except MowdeckError as err:
            self._drop(topic, err.code, err.detail)
        except TimeoutError:
            self._drop(topic, "timeout", f"not handled within {HANDLER_S:.0f} s")
        except Exception:  # noqa: BLE001  (fire door: a defect in one handler must not end the relay's connection)
            self._metrics.dropped.labels(topic.branch, "defect").inc()
            _log.exception("defect while handling a message", edge_id=topic.edge_id, branch=topic.branch)
        session.ack(message)

    def _drop(self, topic: topics.Topic, reason: str, detail: str) -> None:
        self._metrics.dropped.labels(topic.branch, reason).inc()
        count = self._complaints.count((topic.edge_id, topic.branch, reason))
        if count is not None:
            _log.warning(
                "message of a box not handled",
                edge_id=topic.edge_id,
                branch=topic.branch,
                reason=reason,
                detail=detail[:300],
                count=count,
            )


def _lane_of(branch: str) -> Lane:
    return "journal" if branch == topics.UP_JOURNAL else "main"
