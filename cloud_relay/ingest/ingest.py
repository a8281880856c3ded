"""All that boxes send, by branch: the handlers of the gateway."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import structlog
from prometheus_client import CollectorRegistry

from cloud_relay.complaints import Complaints
from cloud_relay.gateway import Handler
from cloud_relay.ingest.journal import JournalDesk
from cloud_relay.ingest.live import FLUSH_S, LiveLane
from cloud_relay.ingest.metrics import IngestMetrics
from cloud_relay.ingest.owners import Owners
from core.domain.clock import Clock
from core.domain.commands import CommandResult
from core.domain.errors import MalformedMessageError, MowdeckError
from core.domain.events import MowerEvent
from core.domain.ids import AccountId, EdgeId, MowerId, is_safe_id
from core.storage.telemetry_store import TelemetryStore
from core.sync import topics
from core.sync.messages import (
    WIRE_VERSION_MIN,
    Ack,
    EventMessage,
    Hello,
    Reply,
    ResultMessage,
    Status,
    decode,
)
from core.telemetry.rows import TimelineRow
from core.web.ports import LiveState

RESULT_TRIES = 3
RESULT_RETRY_S = 1.0
RESULTS_WAITING = 256
"""Results of unknown mowers waiting for another try; beyond it the oldest is dropped (the journal has it, too)."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listeners:
    """Who else has to hear of what boxes send. All may raise MowdeckError."""

    on_hello: Callable[[EdgeId, Hello], Awaitable[object]]
    """Adopts the inventory; when it returns, the store takes rows of the box's mowers."""
    on_status: Callable[[EdgeId, Status], Awaitable[None]]
    on_result: Callable[[EdgeId, CommandResult], Awaitable[None]]
    """Live or by the journal, so possibly twice."""
    publish_state: Callable[[LiveState], None]
    """To the people who look; only touches memory."""
    on_event: Callable[[EdgeId, AccountId, MowerId, MowerEvent], Awaitable[None]] | None = None
    on_reply: Callable[[EdgeId, str, Reply], Awaitable[None]] | None = None


@dataclass(frozen=True, slots=True)
class _Waiting:
    tries: int
    edge_id: EdgeId
    result: CommandResult


class Ingest:
    """Checks that everything concerns the box and account that it came from; the topic is the only proof of
    identity, because the broker lets a box write nowhere else."""

    def __init__(
        self,
        *,
        store: TelemetryStore,
        account_of: Callable[[EdgeId], AccountId | None],
        listeners: Listeners,
        publish_ack: Callable[[EdgeId, Ack], Awaitable[None]],
        clock: Clock,
        registry: CollectorRegistry,
        flush_s: float = FLUSH_S,
        retry_s: float = RESULT_RETRY_S,
    ) -> None:
        """`account_of` says whose a linked box is (in memory); `publish_ack` may raise NotPublishedError."""
        self._store = store
        self._account_of = account_of
        self._listeners = listeners
        self._metrics = IngestMetrics(registry)
        self._owners = Owners(store, clock)
        self._retry_s = retry_s
        self._journal = JournalDesk(
            store=store, publish_ack=publish_ack, on_result=listeners.on_result, clock=clock, metrics=self._metrics
        )
        self._live = LiveLane(
            store=store,
            owners=self._owners,
            account_of=account_of,
            publish_state=listeners.publish_state,
            clock=clock,
            metrics=self._metrics,
            flush_s=flush_s,
        )
        self._results: deque[_Waiting] = deque(maxlen=RESULTS_WAITING)
        self._results_wait = asyncio.Event()
        self._complaints = Complaints()

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """By branch, for the gateway."""
        return {
            topics.UP_HELLO: self.take_hello,
            topics.UP_STATUS: self.take_status,
            topics.UP_JOURNAL: self.take_journal,
            topics.UP_STATE: self.take_state,
            topics.UP_RESULT: self.take_result,
            topics.UP_EVENT: self.take_event,
            topics.UP_REPLY: self.take_reply,
        }

    async def run(self) -> None:
        """The background work, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._owners.run(), name="ingest directory")
            group.create_task(self._live.run(), name="ingest live")
            group.create_task(self._retry_results(), name="ingest results")

    async def call_boxes(self) -> None:
        """The relay is connected to the broker again: see `JournalDesk.call_boxes`."""
        await self._journal.call_boxes()

    def forget(self, edge_id: EdgeId) -> None:
        """The box is no longer linked."""
        self._journal.forget(edge_id)

    async def take_hello(self, edge_id: EdgeId, _tail: str | None, payload: bytes, _retained: bool) -> None:
        hello = decode(payload, Hello)
        if self._account_of(edge_id) is None:
            return
        if hello.wire_version < WIRE_VERSION_MIN:
            raise MalformedMessageError(f"wire version {hello.wire_version} is too old")
        if not is_safe_id(hello.stream_id) or not is_safe_id(hello.boot_id):
            raise MalformedMessageError("the stream or boot in a hello cannot be one")
        await self._listeners.on_hello(edge_id, hello)
        await self._owners.refresh()
        await self._journal.greet(edge_id, hello)

    async def take_status(self, edge_id: EdgeId, _tail: str | None, payload: bytes, _retained: bool) -> None:
        if payload and self._account_of(edge_id) is not None:  # empty: the retained message was cleared
            await self._listeners.on_status(edge_id, decode(payload, Status))

    async def take_journal(self, edge_id: EdgeId, _tail: str | None, payload: bytes, _retained: bool) -> None:
        account_id = self._account_of(edge_id)
        if account_id is not None:
            await self._journal.take(edge_id, account_id, payload)

    async def take_state(self, edge_id: EdgeId, tail: str | None, payload: bytes, retained: bool) -> None:
        if not retained:
            self._live.take(edge_id, tail, payload)

    async def take_result(self, edge_id: EdgeId, tail: str | None, payload: bytes, _retained: bool) -> None:
        result = decode(payload, ResultMessage).result
        if result.mower_id != tail:
            raise MalformedMessageError("the topic names another mower")
        await self._record(_Waiting(1, edge_id, result))

    async def take_event(self, edge_id: EdgeId, tail: str | None, payload: bytes, _retained: bool) -> None:
        message = decode(payload, EventMessage)
        if message.mower_id != tail:
            raise MalformedMessageError("the topic names another mower")
        account_id = self._account_of(edge_id)
        if account_id is None or not self._owners.owns(edge_id, account_id, message.mower_id):
            return
        self._metrics.events.inc()
        if self._listeners.on_event is not None:
            await self._listeners.on_event(edge_id, account_id, message.mower_id, message.event)

    async def take_reply(self, edge_id: EdgeId, tail: str | None, payload: bytes, _retained: bool) -> None:
        reply = decode(payload, Reply)
        if reply.request_id != tail:
            raise MalformedMessageError("the topic names another request")
        if self._listeners.on_reply is not None and self._account_of(edge_id) is not None:
            await self._listeners.on_reply(edge_id, reply.request_id, reply)

    async def _record(self, waiting: _Waiting) -> None:
        """First to whoever waits for it, then to the timeline. A mower that nobody knows may be registered in a
        moment."""
        edge_id, result = waiting.edge_id, waiting.result
        account_id = self._account_of(edge_id)
        owns = None if account_id is None else self._owners.owns(edge_id, account_id, result.mower_id)
        if owns:
            await self._listeners.on_result(edge_id, result)
            await self._store.record_results([TimelineRow(result=result)])
            self._metrics.results.labels("taken").inc()
        elif account_id is not None and owns is None and waiting.tries < RESULT_TRIES:
            self._results.append(_Waiting(waiting.tries + 1, edge_id, result))
            self._results_wait.set()
        else:
            self._metrics.results.labels("dropped").inc()
            reason = "unknown mower" if owns is None else "foreign mower"
            count = self._complaints.count((edge_id, reason))
            if count is not None:
                _log.warning("result dropped", edge_id=edge_id, mower_id=result.mower_id, reason=reason, count=count)

    async def _retry_results(self) -> None:
        while True:
            await self._results_wait.wait()
            await asyncio.sleep(self._retry_s)
            self._results_wait.clear()
            for _ in range(len(self._results)):
                waiting = self._results.popleft()
                try:
                    await self._record(waiting)
                except MowdeckError as err:
                    _log.warning("result not recorded, the journal has it", edge_id=waiting.edge_id, error=err.detail)
