"""The durable lane: batches of a box's journal into the store, each answered by an ack of the relay's own.

A batch that cannot be read at all, but whose header can, is put into the quarantine as one entry for its range and
acked like any other, so that it does not block the box. Without a readable header, or in a newer format, it is not
acked: the box keeps its rows and tries again, ever more slowly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from cloud_relay.complaints import Complaints
from cloud_relay.ingest.metrics import IngestMetrics
from core.domain import limits
from core.domain.clock import Clock
from core.domain.commands import CommandResult
from core.domain.errors import MalformedMessageError, MowdeckError, NotPublishedError
from core.domain.ids import AccountId, EdgeId
from core.storage.telemetry_store import Ingested, TelemetryStore
from core.sync.batch import Batch, decode_batch
from core.sync.journal import JournalReceiver, Verdict
from core.sync.messages import Ack, Hello
from core.telemetry.rows import TimelineRow

REJECTED_IN_ACK = 100
"""Rejected rows that an ack names; all are in the quarantine."""
CALL_EVERY_S = 0.005
"""200 boxes per second are asked for a hello: each costs the relay a look into its books."""
_SIZE_MAX = 2 * limits.BATCH_BYTES

_log = structlog.get_logger(__name__)


class JournalDesk:
    """The journals of all boxes. What it remembers of a session begins with the box's hello."""

    def __init__(
        self,
        *,
        store: TelemetryStore,
        publish_ack: Callable[[EdgeId, Ack], Awaitable[None]],
        on_result: Callable[[EdgeId, CommandResult], Awaitable[None]],
        clock: Clock,
        metrics: IngestMetrics,
    ) -> None:
        self._store = store
        self._publish_ack = publish_ack
        self._on_result = on_result
        self._clock = clock
        self._metrics = metrics
        self._receivers: dict[EdgeId, JournalReceiver] = {}
        self._locks: dict[EdgeId, asyncio.Lock] = {}
        self._complaints = Complaints()

    async def greet(self, edge_id: EdgeId, hello: Hello) -> None:
        """A session begins: the box hears from where the relay wants to go on. A stream that the relay has never
        seen begins at the oldest row that the box keeps. StorageError; the box then asks again."""
        if not 0 < hello.first_seq <= hello.last_seq + 1 < 2**53 or hello.acked_seq < 0:
            raise MalformedMessageError("the numbers of the journal in a hello make no sense")
        async with self._lock(edge_id):
            watermark = await self._store.start_stream(edge_id, hello.stream_id, hello.first_seq - 1)
            self._receivers[edge_id] = JournalReceiver(
                stream_id=hello.stream_id, watermark=watermark, acked_seq=hello.acked_seq
            )
            await self._answer(edge_id, Ack(stream_id=hello.stream_id, acked_seq=watermark, answers="hello"))

    async def take(self, edge_id: EdgeId, account_id: AccountId, payload: bytes) -> None:
        """One batch. MalformedMessageError when nothing can be said about it, StorageError; both without an ack."""
        if len(payload) > _SIZE_MAX:
            raise MalformedMessageError(f"a batch of {len(payload)} bytes")
        batch = decode_batch(payload)
        async with self._lock(edge_id):
            receiver = self._receivers.get(edge_id)
            if receiver is None or receiver.stream_id != batch.stream_id:
                self._metrics.batches.labels("stranger").inc()
                await self._answer(edge_id, Ack(stream_id=batch.stream_id, acked_seq=0, answers="stranger"))
                return
            verdict = receiver.judge(batch.first_seq, batch.last_seq)
            self._metrics.batches.labels(verdict.name.lower()).inc()
            if verdict is Verdict.GAP:
                gap = Ack(stream_id=batch.stream_id, acked_seq=receiver.covered_seq, answers="gap")
                await self._answer(edge_id, gap)
                return
            ingested = await self._ingest(edge_id, account_id, batch)
            receiver.on_stored(batch.last_seq)
            ack = Ack(
                stream_id=batch.stream_id,
                acked_seq=receiver.covered_seq,
                rejected=ingested.rejected[:REJECTED_IN_ACK],
            )
            await self._answer(edge_id, ack)

    async def call_boxes(self) -> None:
        """Asks the boxes of this relay's memory for a hello, a few at a time. After a restart of the broker some
        are back before the relay, and what they said then reached nobody."""
        for edge_id, receiver in list(self._receivers.items()):
            await self._answer(edge_id, Ack(stream_id=receiver.stream_id, acked_seq=0, answers="stranger"))
            await asyncio.sleep(CALL_EVERY_S)

    def forget(self, edge_id: EdgeId) -> None:
        """The box is no longer linked."""
        self._receivers.pop(edge_id, None)
        self._locks.pop(edge_id, None)

    async def _ingest(self, edge_id: EdgeId, account_id: AccountId, batch: Batch) -> Ingested:
        ingested = await self._store.ingest(
            edge_id,
            account_id,
            batch.stream_id,
            batch.rows,
            last_seq=batch.last_seq,
            received_at=self._clock.now(),
            rejected=batch.rejected,
        )
        self._metrics.telemetry.note_ingested(ingested)
        self._metrics.rows.labels("stored").inc(ingested.stored)
        self._metrics.rows.labels("duplicate").inc(ingested.duplicates)
        self._metrics.rows.labels("rejected").inc(len(ingested.rejected))
        for row in ingested.rejected:
            self._metrics.rejected.labels(_kind_of(row.reason)).inc()
        batches = self._complaints.count(edge_id) if ingested.rejected else None
        if batches is not None:
            _log.warning(
                "rows of a box quarantined",
                edge_id=edge_id,
                count=len(ingested.rejected),
                batches=batches,
                reasons=sorted({row.reason[:80] for row in ingested.rejected})[:5],
            )
        refused = {row.seq for row in ingested.rejected}
        for item in batch.rows:
            if isinstance(item.row, TimelineRow) and item.seq not in refused:
                await self._pass_on(edge_id, item.row.result)
        return ingested

    async def _pass_on(self, edge_id: EdgeId, result: CommandResult) -> None:
        """A result whose own message may have been lost. A failure that can pass (the database is busy) leaves the
        batch without an ack, so it comes again; any other must not block the journal."""
        try:
            await self._on_result(edge_id, result)
        except MowdeckError as err:
            if err.retryable:
                raise
            _log.warning("result refused", edge_id=edge_id, command_id=result.command_id, error=err.detail)

    async def _answer(self, edge_id: EdgeId, ack: Ack) -> None:
        stamped = Ack(
            stream_id=ack.stream_id,
            acked_seq=ack.acked_seq,
            answers=ack.answers,
            rejected=ack.rejected,
            received_at=self._clock.now(),
        )
        try:
            await self._publish_ack(edge_id, stamped)
        except NotPublishedError as err:
            # nothing is lost: without an ack the box sends it again
            _log.debug("ack not published", edge_id=edge_id, error=err.detail)

    def _lock(self, edge_id: EdgeId) -> asyncio.Lock:
        return self._locks.setdefault(edge_id, asyncio.Lock())


def _kind_of(reason: str) -> str:
    """A word of few: what a fault says in detail is for the quarantine."""
    return reason[:64] if reason.startswith("implausible:") else reason.partition(":")[0][:64]
