"""Performs what the journal's state machine wants, for one connection: hello, batches, acks."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

import structlog

from core.domain.clock import Clock
from core.domain.errors import StorageError
from core.storage.telemetry_store import JournalHead, TelemetryStore
from core.sync.journal import Action, JournalSender, ReadRows, SendBatch, SendHello, StoreAcked
from core.sync.messages import Ack

_log = structlog.get_logger(__name__)

HEAD_EVERY_S = 1.0
"""The store is asked for its newest row at most this often (each time it syncs its log)."""
ACKS_WAITING = 256
"""Acks not handled yet; the oldest goes beyond it, because a newer one says more."""

SendHelloNow = Callable[[JournalHead], Awaitable[None]]
SendBatchNow = Callable[[bytes], Awaitable[None]]


class JournalPump:
    """Made for a connection and thrown away with it: all that counts is in the store."""

    def __init__(
        self,
        *,
        store: TelemetryStore,
        clock: Clock,
        random: Callable[[], float],
        send_hello: SendHelloNow,
        send_batch: SendBatchNow,
    ) -> None:
        self._store = store
        self._clock = clock
        self._random = random
        self._send_hello = send_hello
        self._send_batch = send_batch
        self._sender: JournalSender | None = None
        self._acks: deque[Ack] = deque(maxlen=ACKS_WAITING)
        self._wake = asyncio.Event()
        self._has_grown = False
        self._has_changed = False
        self._looked_at = clock.monotonic()

    @property
    def backlog(self) -> int:
        """Rows that the relay has not confirmed."""
        return 0 if self._sender is None else max(0, self._sender.backlog)

    def on_ack(self, ack: Ack) -> None:
        """The relay's `down/ack`."""
        self._acks.append(ack)
        self._wake.set()

    def on_growth(self) -> None:
        """Rows were committed."""
        self._has_grown = True
        self._wake.set()

    def on_inventory(self) -> None:
        """A mower came, went or changed: the relay is told before rows of it arrive."""
        self._has_changed = True
        self._wake.set()

    async def run(self) -> None:
        """Until the connection fails (UnavailableError out of sending)."""
        head = await self._head()
        sender = self._sender = JournalSender(
            stream_id=head.stream_id, last_seq=head.last_seq, acked_seq=head.acked_seq, random=self._random
        )
        await self._perform(sender, sender.on_connected(self._clock.monotonic()))
        while True:
            await self._wait(sender)
            while self._acks:
                await self._perform(sender, sender.on_ack(self._acks.popleft(), self._clock.monotonic()))
            if self._has_changed:  # kept while a hello waits for its answer: that one knew nothing of it
                await self._perform(sender, sender.greet_again(self._clock.monotonic()))
            if self._has_grown and self._clock.monotonic() - self._looked_at >= HEAD_EVERY_S:
                await self._look(sender)
            await self._perform(sender, sender.on_time(self._clock.monotonic()))

    async def _wait(self, sender: JournalSender) -> None:
        """Until something comes, or time for what is due."""
        now = self._clock.monotonic()
        due = [] if sender.next_due_at is None else [sender.next_due_at]
        if self._has_grown:
            due.append(self._looked_at + HEAD_EVERY_S)
        timeout_s = max(0.0, min(due) - now) if due else None
        try:
            async with asyncio.timeout(timeout_s):
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()

    async def _head(self) -> JournalHead:
        """The store's head; tried again while the disk fails."""
        while True:
            try:
                return await self._store.journal_head()
            except StorageError as err:
                _log.warning("the journal cannot be read", code=err.code, detail=err.detail)
                await asyncio.sleep(HEAD_EVERY_S * 5)

    async def _look(self, sender: JournalSender) -> None:
        self._has_grown = False
        self._looked_at = self._clock.monotonic()
        try:
            head = await self._store.journal_head()
        except StorageError:
            self._has_grown = True
            return
        await self._perform(sender, sender.on_head(head.last_seq, self._clock.monotonic()))

    async def _perform(self, sender: JournalSender, actions: list[Action]) -> None:
        waiting = deque(actions)
        while waiting:
            try:
                waiting.extend(await self._act(sender, waiting.popleft()))
            except StorageError as err:
                _log.warning("the journal cannot go on", code=err.code, detail=err.detail)
                waiting = deque(sender.on_failed(self._clock.monotonic()))

    async def _act(self, sender: JournalSender, action: Action) -> list[Action]:
        match action:
            case SendHello():
                self._has_changed = False
                await self._send_hello(await self._store.journal_head())
            case ReadRows(after_seq, limit):
                found = await self._store.read_journal(after_seq, limit)
                return sender.on_rows(after_seq, found.last_seq, found.rows, self._clock.monotonic())
            case SendBatch(_, _, data):
                await self._send_batch(data)
            case StoreAcked(acked_seq):
                await self._store.acknowledge(acked_seq)
        return []
