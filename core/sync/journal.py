"""The journal between a box and its relay, as two state machines without I/O.

The box's `JournalSender` turns events (connection, acks, new rows, time) into actions; whoever owns it performs
them. The relay's `JournalReceiver` judges the range of each batch against its watermark. Both may forget
everything at any moment: what counts is the box's `acked_seq` and the relay's watermark, each on a disk.

A session begins with a hello. No batch goes out before the relay has answered it, because the answer says from
where the relay wants to go on: from a lower number than the box has seen acknowledged when the relay's database
was lost or restored, so that the rows flow again.

An ack counts only up to what was sent in this session. A box that lost its last rows in a power cut gives their
numbers away again; that the relay knows these numbers says nothing about the new rows, so they are sent, and the
relay stores whatever rows of a known range it does not have yet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from core.domain import limits
from core.domain.ids import StreamId
from core.sync.backoff import Backoff
from core.sync.batch import fit_batch
from core.sync.messages import Ack
from core.telemetry.rows import SequencedRow

LINGER_S = 2.0
"""Rows of a trickle are collected this long, so that a box does not send a batch for every row."""
GREETING_S = 3.0
"""A hello waits this long for its answer at first, then twice as long each time, up to ACK_TIMEOUT_S. Short, because
after a restart of the broker a box is often back before the relay, and its hello then reaches nobody."""


@dataclass(frozen=True, slots=True)
class SendHello:
    """Send `up/hello` now."""


@dataclass(frozen=True, slots=True)
class ReadRows:
    """Read at most `limit` rows after `after_seq` and hand them to `on_rows`."""

    after_seq: int
    limit: int


@dataclass(frozen=True, slots=True)
class SendBatch:
    """Publish `data` on `up/journal`; it speaks for `first_seq..last_seq`."""

    first_seq: int
    last_seq: int
    data: bytes


@dataclass(frozen=True, slots=True)
class StoreAcked:
    """Remember that the relay has everything up to `acked_seq`."""

    acked_seq: int


Action = SendHello | ReadRows | SendBatch | StoreAcked


class _Phase(Enum):
    OFFLINE = auto()
    WAITING = auto()
    """Connected, but the relay did not answer in time; a hello follows after a pause."""
    GREETING = auto()
    """The hello is out, its answer is not here."""
    FLOWING = auto()


class JournalSender:
    """The box's side. `now` is monotonic seconds; every method returns what to do, in order."""

    def __init__(
        self,
        *,
        stream_id: StreamId,
        last_seq: int,
        acked_seq: int,
        random: Callable[[], float],
        linger_s: float = LINGER_S,
        batch_rows: int = limits.BATCH_ROWS,
    ) -> None:
        self._stream_id = stream_id
        self._last_seq = last_seq
        self._acked_seq = acked_seq
        self._linger_s = linger_s
        self._batch_rows = batch_rows
        self._backoff = Backoff(random=random)
        self._phase = _Phase.OFFLINE
        self._greeting_s = GREETING_S
        self._has_repeated = False
        self._due_at = 0.0
        """When a hello is sent (WAITING) or given up (GREETING)."""
        self._confirmed_seq = acked_seq
        """What the relay of this session has; lower than `acked_seq` while it catches up again."""
        self._sent_seq = acked_seq
        self._in_flight: deque[tuple[int, float]] = deque()
        """Last number and sending time of each batch without an ack."""
        self._reading_after: int | None = None
        self._waits_since: float | None = None
        """Since when rows wait to be sent."""
        self._deaf_to_gaps = False
        """One lost batch makes a gap ack for every batch behind it; only the first one counts."""

    @property
    def acked_seq(self) -> int:
        """Everything up to here is on the relay's disk; never moves back."""
        return self._acked_seq

    @property
    def backlog(self) -> int:
        """Numbers that the relay has not confirmed."""
        return self._last_seq - self._confirmed_seq

    @property
    def is_idle(self) -> bool:
        """Whether the relay has everything."""
        return self._phase is _Phase.FLOWING and self.backlog <= 0

    @property
    def next_due_at(self) -> float | None:
        """When `on_time` must be called next, unless something else happens before."""
        match self._phase:
            case _Phase.OFFLINE:
                return None
            case _Phase.WAITING | _Phase.GREETING:
                return self._due_at
            case _Phase.FLOWING:
                due = [self._in_flight[0][1] + limits.ACK_TIMEOUT_S] if self._in_flight else []
                if self._waits_since is not None and not self._in_flight and self._reading_after is None:
                    due.append(self._waits_since + self._linger_s)
                return min(due, default=None)

    def on_connected(self, now: float) -> list[Action]:
        """The connection to the broker is up."""
        self._greeting_s = GREETING_S
        return self._greet(now)

    def on_disconnected(self) -> list[Action]:
        """The connection is down; what was in flight counts as not sent."""
        self._phase = _Phase.OFFLINE
        self._rewind(self._confirmed_seq)
        return []

    def greet_again(self, now: float) -> list[Action]:
        """The box has something new to say in its hello (a mower came or went). Batches wait for the answer, so
        that the relay knows a mower before its rows arrive."""
        return [] if self._phase in (_Phase.OFFLINE, _Phase.GREETING, _Phase.WAITING) else self._greet(now)

    def on_head(self, last_seq: int, now: float) -> list[Action]:
        """Rows up to `last_seq` are committed on the box."""
        self._last_seq = max(self._last_seq, last_seq)
        return self._go_on(now)

    def on_rows(self, after_seq: int, last_seq: int, rows: tuple[SequencedRow, ...], now: float) -> list[Action]:
        """The answer to `ReadRows(after_seq, ...)`: `rows`, and the number up to which they are all there is."""
        if self._phase is not _Phase.FLOWING or after_seq != self._reading_after:
            return []  # asked before the last step back
        self._reading_after = None
        if last_seq <= after_seq:
            self._waits_since = None
            return []
        data, end = fit_batch(self._stream_id, after_seq + 1, last_seq, rows, max_rows=self._batch_rows)
        self._sent_seq = end
        self._last_seq = max(self._last_seq, end)
        self._in_flight.append((end, now))
        self._waits_since = None
        return [SendBatch(after_seq + 1, end, data), *self._go_on(now)]

    def on_ack(self, ack: Ack, now: float) -> list[Action]:
        """The relay's `down/ack`."""
        if ack.stream_id != self._stream_id or ack.acked_seq < 0 or self._phase is _Phase.OFFLINE:
            return []
        match ack.answers:
            case "hello":
                return self._on_hello_answered(ack.acked_seq, now)
            case "gap":
                return self._on_gap(ack.acked_seq, now)
            case "stranger":
                return self._on_stranger(now)
            case "batch":
                return self._on_batch_acked(ack.acked_seq, now)

    def on_failed(self, now: float) -> list[Action]:
        """An action could not be performed (the disk, a full queue): begins again after a pause."""
        return [] if self._phase is _Phase.OFFLINE else self._wait(now)

    def on_time(self, now: float) -> list[Action]:
        """Time has come to `next_due_at` (or not: calling it early does nothing)."""
        match self._phase:
            case _Phase.OFFLINE:
                return []
            case _Phase.WAITING:
                return self._greet(now) if now >= self._due_at else []
            case _Phase.GREETING:
                return self._wait(now) if now >= self._due_at else []
            case _Phase.FLOWING:
                if self._in_flight and now >= self._in_flight[0][1] + limits.ACK_TIMEOUT_S:
                    return self._wait(now)
                return self._go_on(now)

    def _greet(self, now: float) -> list[Action]:
        self._phase = _Phase.GREETING
        self._has_repeated = False
        self._due_at = now + self._greeting_s
        self._greeting_s = min(limits.ACK_TIMEOUT_S, self._greeting_s * 2)
        return [SendHello()]

    def _wait(self, now: float) -> list[Action]:
        """No answer: everything in flight counts as lost, and the relay is asked again after a while."""
        self._phase = _Phase.WAITING
        self._due_at = now + self._backoff.next_s()
        self._rewind(self._confirmed_seq)
        return []

    def _rewind(self, to_seq: int) -> None:
        self._confirmed_seq = self._sent_seq = to_seq
        self._in_flight.clear()
        self._reading_after = None
        self._waits_since = None

    def _on_stranger(self, now: float) -> list[Action]:
        """Also while a hello waits for its answer (it may have reached nobody), but then only once: every batch that
        was in flight makes such an ack."""
        if self._phase is _Phase.GREETING:
            if self._has_repeated:
                return []
            self._has_repeated = True
            return [SendHello()]
        return self.greet_again(now)

    def _on_hello_answered(self, watermark: int, now: float) -> list[Action]:
        if self._phase is not _Phase.GREETING:
            return []  # an answer that comes late, or twice
        self._phase = _Phase.FLOWING
        self._greeting_s = GREETING_S
        self._deaf_to_gaps = False
        self._rewind(min(watermark, self._acked_seq))
        return self._go_on(now)

    def _on_gap(self, watermark: int, now: float) -> list[Action]:
        if self._phase is not _Phase.FLOWING or self._deaf_to_gaps or watermark >= self._sent_seq:
            return []
        self._deaf_to_gaps = True
        self._rewind(min(watermark, self._confirmed_seq))
        return self._go_on(now)

    def _on_batch_acked(self, seq: int, now: float) -> list[Action]:
        if not self._confirmed_seq < seq <= self._sent_seq:
            return []
        self._confirmed_seq = seq
        self._deaf_to_gaps = False
        self._backoff.reset()
        while self._in_flight and self._in_flight[0][0] <= seq:
            self._in_flight.popleft()
        actions: list[Action] = []
        if seq > self._acked_seq:
            self._acked_seq = seq
            actions.append(StoreAcked(seq))
        return [*actions, *self._go_on(now)]

    def _go_on(self, now: float) -> list[Action]:
        """Reads the next rows when they may be sent: a full batch at once, fewer after a pause and when nothing
        is in flight."""
        if self._phase is not _Phase.FLOWING or self._reading_after is not None:
            return []
        waiting = self._last_seq - self._sent_seq
        if waiting <= 0:
            return []
        if self._waits_since is None:
            self._waits_since = now
        is_full = waiting >= self._batch_rows
        is_ripe = not self._in_flight and now >= self._waits_since + self._linger_s
        if len(self._in_flight) >= limits.BATCHES_IN_FLIGHT or not (is_full or is_ripe):
            return []
        self._reading_after = self._sent_seq
        return [ReadRows(self._sent_seq, self._batch_rows)]


class Verdict(Enum):
    """What the relay does with a batch."""

    APPLY = auto()
    """Store it, move the watermark to its end, ack its end."""
    DUPLICATE = auto()
    """Its numbers are known: store what is missing of it (normally nothing) and ack its end."""
    GAP = auto()
    """It does not follow: store nothing, ack `covered_seq` as a gap."""


class JournalReceiver:
    """The relay's side for one session of one stream of one box: made when its hello came, with what the relay
    has (`watermark`) and what the box believes it has (`acked_seq`)."""

    def __init__(self, *, stream_id: StreamId, watermark: int, acked_seq: int) -> None:
        self.stream_id = stream_id
        self._watermark = watermark
        self._covered_seq = min(watermark, acked_seq)

    @property
    def watermark(self) -> int:
        """Everything up to here is on the relay's disk."""
        return self._watermark

    @property
    def covered_seq(self) -> int:
        """Up to here this session has been taken without a gap; what is acked."""
        return self._covered_seq

    def judge(self, first_seq: int, last_seq: int) -> Verdict:
        """What to do with a batch that speaks for `first_seq..last_seq`."""
        if first_seq > self._covered_seq + 1:
            return Verdict.GAP
        return Verdict.APPLY if last_seq > self._watermark else Verdict.DUPLICATE

    def on_stored(self, last_seq: int) -> None:
        """A batch up to `last_seq` is on the disk."""
        self._watermark = max(self._watermark, last_seq)
        self._covered_seq = max(self._covered_seq, last_seq)
