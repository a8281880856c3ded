"""A box, a relay and the network between them, in memory and in virtual time, with everything that can go wrong.

All chance comes from one seed. Both databases are dicts that survive a restart; everything else does not.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from core.domain.clock import from_us
from core.domain.ids import MowerId, StreamId
from core.domain.mower import Activity, Connectivity
from core.sync.batch import decode_batch
from core.sync.journal import (
    Action,
    JournalReceiver,
    JournalSender,
    ReadRows,
    SendBatch,
    SendHello,
    StoreAcked,
    Verdict,
)
from core.sync.messages import Ack
from core.telemetry.records import is_newer
from core.telemetry.rows import HistoryRow, RecordRow, Row, SequencedRow

FIRST_STREAM = StreamId("s1")
_FIRST_AT = from_us(1_780_000_000_000_000)


@dataclass(slots=True)
class Faults:
    """How often what goes wrong."""

    loss: float = 0.0
    duplication: float = 0.0
    delay_s: float = 0.1
    crash_rate: float = 0.0
    """Per step, for each side."""


@dataclass(slots=True)
class BoxDisk:
    """What the box's database holds."""

    stream_id: StreamId = FIRST_STREAM
    rows: dict[int, Row] = field(default_factory=dict)
    last_seq: int = 0
    acked_seq: int = 0


@dataclass(slots=True)
class RelayDisk:
    """What the relay's database holds: rows by natural key, and watermarks."""

    rows: dict[tuple[str, object], Row] = field(default_factory=dict)
    watermarks: dict[StreamId, int] = field(default_factory=dict)
    stored_again: int = 0


@dataclass(frozen=True, slots=True)
class HelloOnWire:
    stream_id: StreamId
    first_seq: int
    acked_seq: int


def key_of(row: Row) -> tuple[str, object]:
    """The natural key."""
    match row:
        case RecordRow():
            return (row.mower_id, (row.kind, row.key))
        case HistoryRow():
            return (row.mower_id, row.observed_at)
        case _:
            raise AssertionError(row)


class World:
    """The whole history of one seed."""

    def __init__(self, seed: int, faults: Faults, *, batch_rows: int = 5) -> None:
        self.random = random.Random(seed)
        self.batch_rows = batch_rows
        self.faults = faults
        self.now = 0.0
        self.box = BoxDisk()
        self.relay = RelayDisk()
        self.ever_recorded: dict[tuple[str, object], Row] = {}
        self.acked_before: dict[int, int] = {}
        """What was acknowledged when a number was given. A disk loses its commits from the end: with a row it loses
        every ack that was written after it, so a version that stands again after a power cut is sent again."""
        self.versions: list[tuple[int, RecordRow]] = []
        """Every version of a record that the box's disk has had, with its number."""
        self.batches = 0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._box_life = 0
        self._relay_life = 0
        self._link_life = 0
        self._sender: JournalSender | None = None
        self._receiver: JournalReceiver | None = None
        self._row = 0
        self.start_box()

    # -- time
    def later(self, delay_s: float, act: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now + delay_s, self._count, act))

    def run_until(self, end: float) -> None:
        while self._events and self._events[0][0] <= end:
            self.now, _, act = heapq.heappop(self._events)
            act()
            self._maybe_crash()
        self.now = end

    def _maybe_crash(self) -> None:
        if self.random.random() < self.faults.crash_rate:
            self.restart_box()
        if self.random.random() < self.faults.crash_rate:
            self.restart_relay()
        if self.random.random() < self.faults.crash_rate:
            self.cut_link()

    # -- the box
    def record(self, count: int) -> None:
        """Rows come in and are committed."""
        for _ in range(count):
            self._row += 1
            row = HistoryRow(
                mower_id=MowerId(f"m{self._row % 3}"),
                observed_at=_FIRST_AT + timedelta(microseconds=self._row),
                activity=Activity.MOWING,
                connectivity=Connectivity.ONLINE,
                battery_percent=self._row % 100,
            )
            self._count_up()
            self.box.rows[self.box.last_seq] = row
            self.ever_recorded[(row.mower_id, row.observed_at)] = row
        if self._sender is not None:
            self._perform(self._sender.on_head(self.box.last_seq, self.now))

    def revise(self, count: int) -> None:
        """Records change: each new version takes a new number, and its older one is gone from the journal."""
        for _ in range(count):
            self._row += 1
            row = RecordRow(
                mower_id=MowerId(f"m{self._row % 3}"),
                kind="note",
                key=f"k{self.random.randrange(4)}",
                at=_FIRST_AT,
                updated_at=_FIRST_AT + timedelta(microseconds=self._row),
                body=b'{"n":%d}' % self._row,
            )
            for seq in [seq for seq, old in self.box.rows.items() if key_of(old) == key_of(row)]:
                del self.box.rows[seq]
            self._count_up()
            self.box.rows[self.box.last_seq] = row
            self.ever_recorded[(row.mower_id, row.body)] = row
            self.versions.append((self.box.last_seq, row))
        if self._sender is not None:
            self._perform(self._sender.on_head(self.box.last_seq, self.now))

    def thin(self, share: float) -> None:
        """Rows vanish before they were sent."""
        for seq in [seq for seq in self.box.rows if seq > self.box.acked_seq and self.random.random() < share]:
            del self.box.rows[seq]

    def lose_tail(self, count: int) -> None:
        """A power cut takes the last commits: the box comes back without them and gives their numbers away again."""
        self.box.last_seq = max(0, self.box.last_seq - count)
        for seq in [seq for seq in self.box.rows if seq > self.box.last_seq]:
            del self.box.rows[seq]
        self._restore_versions()
        self.box.acked_seq = self.acked_before.get(self.box.last_seq + 1, self.box.acked_seq)
        self.restart_box()

    def _count_up(self) -> None:
        self.box.last_seq += 1
        self.acked_before[self.box.last_seq] = self.box.acked_seq

    def _restore_versions(self) -> None:
        """With a version its number is lost, and the one before it stands again."""
        self.versions = [(seq, row) for seq, row in self.versions if seq <= self.box.last_seq]
        newest = {key_of(row): (seq, row) for seq, row in self.versions}
        self.box.rows.update(dict(newest.values()))

    def start_box(self) -> None:
        self._sender = JournalSender(
            stream_id=self.box.stream_id,
            last_seq=self.box.last_seq,
            acked_seq=self.box.acked_seq,
            random=self.random.random,
            batch_rows=self.batch_rows,
        )
        self._connect()

    def restart_box(self) -> None:
        self._box_life += 1
        self._link_life += 1
        self._sender = None
        life = self._box_life
        self.later(self.random.random() * 20, lambda: self.start_box() if life == self._box_life else None)

    def cut_link(self) -> None:
        """The broker drops the box's connection."""
        self._link_life += 1
        if self._sender is not None:
            self._perform(self._sender.on_disconnected())
            self._connect()

    def _connect(self) -> None:
        life = self._link_life

        def connect() -> None:
            if life == self._link_life and self._sender is not None:
                self._perform(self._sender.on_connected(self.now))

        self.later(self.random.random() * 5, connect)

    def _perform(self, actions: list[Action]) -> None:
        sender, life = self._sender, self._box_life
        assert sender is not None
        for action in actions:
            match action:
                case SendHello():
                    first = min(self.box.rows, default=self.box.last_seq + 1)
                    hello = HelloOnWire(self.box.stream_id, first, sender.acked_seq)
                    self._send(lambda hello=hello: self._relay_hello(hello))
                case SendBatch(_, _, data):
                    self.batches += 1
                    self._send(lambda data=data: self._relay_batch(data))
                case StoreAcked(acked):
                    # the box may die before this is on its disk
                    self.later(
                        self.random.random() * 0.01,
                        lambda acked=acked: self._store_acked(acked) if life == self._box_life else None,
                    )
                case ReadRows(after, limit):
                    self.later(
                        self.random.random() * 0.01,
                        lambda after=after, limit=limit: self._read(after, limit) if life == self._box_life else None,
                    )
        self._arm()

    def _store_acked(self, acked: int) -> None:
        self.box.acked_seq = max(self.box.acked_seq, acked)

    def _read(self, after: int, limit: int) -> None:
        assert self._sender is not None
        seqs = sorted(seq for seq in self.box.rows if seq > after)[:limit]
        rows = tuple(SequencedRow(seq=seq, row=self.box.rows[seq]) for seq in seqs)
        end = seqs[-1] if len(seqs) == limit else self.box.last_seq
        self._perform(self._sender.on_rows(after, end, rows, self.now))

    def _arm(self) -> None:
        sender = self._sender
        due = None if sender is None else sender.next_due_at
        if sender is None or due is None:
            return

        def tick() -> None:
            if sender is self._sender:
                self._perform(sender.on_time(self.now))

        if due > self.now:
            self.later(due - self.now + 1e-6, tick)
        else:
            self.later(0.001, tick)

    # -- the network
    def _send(self, act: Callable[[], None]) -> None:
        times = 0 if self.random.random() < self.faults.loss else 1
        times += 1 if self.random.random() < self.faults.duplication else 0
        for _ in range(times):
            self.later(self.random.random() * self.faults.delay_s, act)

    def _answer(self, ack: Ack) -> None:
        life = self._link_life

        def arrive() -> None:
            if life == self._link_life and self._sender is not None:
                self._perform(self._sender.on_ack(ack, self.now))

        self._send(arrive)

    # -- the relay
    def restart_relay(self) -> None:
        self._relay_life += 1
        self._receiver = None

    def lose_relay_disk(self, keep: int) -> None:
        """The relay's database is restored from an old backup."""
        self.relay.watermarks = {stream: min(mark, keep) for stream, mark in self.relay.watermarks.items()}
        kept = {key_of(row) for seq, row in self.box.rows.items() if seq <= keep}
        self.relay.rows = {key: row for key, row in self.relay.rows.items() if key in kept}
        self.restart_relay()

    def _relay_hello(self, hello: HelloOnWire) -> None:
        watermark = self.relay.watermarks.setdefault(hello.stream_id, hello.first_seq - 1)
        self._receiver = JournalReceiver(stream_id=hello.stream_id, watermark=watermark, acked_seq=hello.acked_seq)
        self._answer(Ack(stream_id=hello.stream_id, acked_seq=watermark, answers="hello"))

    def _relay_batch(self, data: bytes) -> None:
        batch = decode_batch(data)
        assert batch.rejected == ()
        receiver = self._receiver
        if receiver is None or receiver.stream_id != batch.stream_id:
            self._answer(Ack(stream_id=batch.stream_id, acked_seq=0, answers="stranger"))
            return
        verdict = receiver.judge(batch.first_seq, batch.last_seq)
        if verdict is Verdict.GAP:
            self._answer(Ack(stream_id=batch.stream_id, acked_seq=receiver.covered_seq, answers="gap"))
            return
        for item in batch.rows:
            key = key_of(item.row)
            known = self.relay.rows.get(key)
            if isinstance(item.row, RecordRow) and isinstance(known, RecordRow):
                if is_newer(item.row, known):
                    self.relay.rows[key] = item.row
                continue
            self.relay.stored_again += known is not None
            self.relay.rows.setdefault(key, item.row)
        marks = self.relay.watermarks
        marks[batch.stream_id] = max(marks[batch.stream_id], batch.last_seq)
        if self.random.random() < self.faults.crash_rate * 5:
            self.restart_relay()  # committed, and dead before the ack
            return
        receiver.on_stored(batch.last_seq)
        self._answer(Ack(stream_id=batch.stream_id, acked_seq=batch.last_seq))

    # -- the end
    @property
    def is_quiet(self) -> bool:
        return self._sender is not None and self._sender.is_idle and self.box.acked_seq == self.box.last_seq

    def settle(self, deadline_s: float = 3_600.0) -> None:
        """No faults any more: everything must arrive."""
        self.faults = Faults(delay_s=min(self.faults.delay_s, 0.1))
        end = self.now + deadline_s
        while not self.is_quiet:
            assert self.now < end, "no progress"
            self.run_until(self.now + 5.0)
