"""The rules of the journal's state machines, one by one (the simulation attacks them together)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.domain import limits
from core.domain.clock import from_us
from core.domain.ids import MowerId, StreamId
from core.domain.mower import Activity, Connectivity
from core.sync.batch import decode_batch
from core.sync.journal import (
    LINGER_S,
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
from core.telemetry.rows import HistoryRow, SequencedRow

STREAM = StreamId("s")


def rows(first: int, last: int) -> tuple[SequencedRow, ...]:
    return tuple(
        SequencedRow(
            seq=seq,
            row=HistoryRow(
                mower_id=MowerId("m"),
                observed_at=from_us(seq),
                activity=Activity.IDLE,
                connectivity=Connectivity.ONLINE,
            ),
        )
        for seq in range(first, last + 1)
    )


def sender(*, last: int = 0, acked: int = 0, batch_rows: int = 10, random: float = 0.5) -> JournalSender:
    return JournalSender(stream_id=STREAM, last_seq=last, acked_seq=acked, random=lambda: random, batch_rows=batch_rows)


def ack(seq: int, answers: str = "batch", stream: StreamId = STREAM) -> Ack:
    return Ack(stream_id=stream, acked_seq=seq, answers=answers)  # type: ignore[arg-type]


def serve(made: JournalSender, actions: list[Action], now: float, *, last: int) -> list[tuple[int, int]]:
    """Answers every read from a database with rows up to `last`; returns the ranges of the batches sent."""
    sent = []
    while actions:
        action = actions.pop(0)
        if isinstance(action, ReadRows):
            end = min(action.after_seq + action.limit, last)
            actions += made.on_rows(action.after_seq, end, rows(action.after_seq + 1, end), now)
        elif isinstance(action, SendBatch):
            batch = decode_batch(action.data)
            assert (batch.first_seq, batch.last_seq) == (action.first_seq, action.last_seq)
            sent.append((action.first_seq, action.last_seq))
    return sent


def flowing(*, last: int, acked: int = 0, watermark: int | None = None) -> tuple[JournalSender, list[tuple[int, int]]]:
    made = sender(last=last, acked=acked)
    made.on_connected(0.0)
    actions = made.on_ack(ack(acked if watermark is None else watermark, "hello"), 0.0)
    return made, serve(made, actions, 0.0, last=last)


def test_a_session_begins_with_a_hello_and_nothing_else() -> None:
    made = sender(last=100)
    assert made.on_head(100, 0.0) == []
    assert made.on_connected(0.0) == [SendHello()]
    assert made.on_head(101, 1.0) == []
    assert made.on_ack(ack(0, stream=StreamId("other")), 1.0) == []
    assert made.on_ack(ack(0, "hello"), 1.0) == [ReadRows(0, 10)]


def test_at_most_eight_batches_are_in_flight() -> None:
    made, sent = flowing(last=1_000)
    assert sent == [(first, first + 9) for first in range(1, 80, 10)]
    assert len(sent) == limits.BATCHES_IN_FLIGHT
    actions = made.on_ack(ack(10), 1.0)
    assert actions[0] == StoreAcked(10)
    assert serve(made, actions, 1.0, last=1_000) == [(81, 90)]


def test_one_ack_covers_all_before_it() -> None:
    made, _ = flowing(last=80)
    assert made.on_ack(ack(80), 1.0) == [StoreAcked(80)]
    assert made.is_idle
    assert made.next_due_at is None


@pytest.mark.parametrize("wrong", [ack(81), ack(0), ack(-5), ack(40, stream=StreamId("other"))])
def test_acks_of_nothing_are_ignored(wrong: Ack) -> None:
    made, _ = flowing(last=80)
    assert made.on_ack(wrong, 1.0) == []
    assert made.acked_seq == 0


def test_without_an_ack_the_relay_is_asked_again_after_a_pause() -> None:
    made, _ = flowing(last=20)
    due = made.next_due_at
    assert due == limits.ACK_TIMEOUT_S
    assert made.on_time(due - 0.1) == []
    assert made.on_time(due) == []  # the pause begins
    pause = made.next_due_at
    assert pause is not None
    assert pause > due
    assert made.on_time(pause) == [SendHello()]
    assert serve(made, made.on_ack(ack(0, "hello"), pause), pause, last=20) == [(1, 10), (11, 20)]


def test_a_hello_that_reached_nobody_is_soon_said_again() -> None:
    made = sender(last=20, random=0.0)
    now, waits = 0.0, []
    made.on_connected(now)
    for _ in range(6):
        due = made.next_due_at
        assert due is not None
        waits.append(due - now)
        made.on_time(due)
        now = due
        assert made.on_time(now) == [SendHello()]
    assert waits == [3.0, 6.0, 12.0, 24.0, 30.0, 30.0]


def test_the_pauses_grow_and_an_ack_resets_them() -> None:
    made, _ = flowing(last=10)
    pauses = []
    now = 0.0
    for _ in range(8):
        due = made.next_due_at
        assert due is not None
        made.on_time(due)  # no answer
        again = made.next_due_at
        assert again is not None
        pauses.append(again - due)
        now = again
        assert made.on_time(now) == [SendHello()]
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]
    serve(made, made.on_ack(ack(0, "hello"), now), now, last=10)
    now += LINGER_S
    serve(made, made.on_time(now), now, last=10)
    made.on_ack(ack(10), now)
    made.on_failed(now)
    assert made.next_due_at == now + 0.5


def test_a_relay_that_lost_its_database_gets_the_rows_again_and_acked_stays() -> None:
    made, sent = flowing(last=100, acked=95, watermark=30)
    assert sent[0] == (31, 40)
    assert made.acked_seq == 95
    assert made.on_ack(ack(80), 1.0) == []
    assert made.acked_seq == 95
    assert made.on_ack(ack(100), 2.0) == [StoreAcked(100)]


def test_a_relay_that_knows_more_does_not_make_the_box_skip_rows() -> None:
    """The box lost its last rows and gives their numbers away again."""
    _, sent = flowing(last=20, acked=5, watermark=500)
    assert sent[0] == (6, 15)


def test_of_many_gap_acks_the_first_counts() -> None:
    made, _ = flowing(last=80)
    made.on_ack(ack(10), 1.0)
    assert serve(made, made.on_ack(ack(10, "gap"), 2.0), 2.0, last=80)[0] == (11, 20)
    for _ in range(6):
        assert made.on_ack(ack(10, "gap"), 2.1) == []


def test_a_stranger_says_hello() -> None:
    made, _ = flowing(last=80)
    assert made.on_ack(ack(0, "stranger"), 1.0) == [SendHello()]


def test_of_a_hello_that_reached_nobody_the_relay_may_remind_once() -> None:
    made = sender(last=80)
    made.on_connected(0.0)
    assert made.on_ack(ack(0, "stranger"), 0.1) == [SendHello()]
    for _ in range(8):  # one for each batch that had been in flight
        assert made.on_ack(ack(0, "stranger"), 0.2) == []


def test_batches_wait_for_the_answer_to_a_new_hello() -> None:
    made, _ = flowing(last=10)
    made.on_ack(ack(10), 0.5)
    assert made.greet_again(1.0) == [SendHello()]
    assert made.on_head(50, 2.0) == []
    assert serve(made, made.on_ack(ack(10, "hello"), 3.0), 3.0, last=50)[0] == (11, 20)


def test_a_few_rows_wait_a_moment_for_more() -> None:
    made, _ = flowing(last=0)
    assert made.on_head(3, 10.0) == []
    assert made.next_due_at == 10.0 + LINGER_S
    assert made.on_head(5, 11.0) == []
    assert serve(made, made.on_time(10.0 + LINGER_S), 12.0, last=5) == [(1, 5)]
    assert made.on_head(8, 12.5) == []  # and for the ack of those before
    assert made.on_time(14.6) == []
    assert serve(made, made.on_ack(ack(5), 15.0), 15.0, last=8) == [(6, 8)]


def test_rows_that_vanished_leave_a_range_without_rows() -> None:
    made = sender(last=30)
    made.on_connected(0.0)
    assert made.on_ack(ack(0, "hello"), 0.0) == [ReadRows(0, 10)]
    (action, *_) = made.on_rows(0, 30, (), 0.0)
    assert isinstance(action, SendBatch)
    batch = decode_batch(action.data)
    assert (batch.first_seq, batch.last_seq, batch.rows) == (1, 30, ())


def test_an_answer_to_an_old_read_is_ignored() -> None:
    made = sender(last=100)
    made.on_connected(0.0)
    made.on_ack(ack(0, "hello"), 0.0)
    made.on_disconnected()
    assert made.on_rows(0, 10, rows(1, 10), 1.0) == []
    made.on_connected(2.0)
    assert made.on_rows(0, 10, rows(1, 10), 2.0) == []


def test_offline_nothing_happens() -> None:
    made, _ = flowing(last=80)
    assert made.on_disconnected() == []
    assert made.next_due_at is None
    assert made.on_time(1e9) == []
    assert made.on_ack(ack(10), 1.0) == []
    assert made.greet_again(1.0) == []
    assert made.on_failed(1.0) == []
    assert made.backlog == 80


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["hello", "batch", "gap", "stranger", "time", "head", "cut", "link", "fail", "greet"]),
            st.integers(-5, 130),
        ),
        max_size=60,
    )
)
def test_whatever_comes_acked_only_grows_and_covers_only_what_was_sent(events: list[tuple[str, int]]) -> None:
    made = sender(last=100, acked=20)
    now, sent_up_to, acked = 0.0, 20, 20
    for kind, number in [("link", 0), *events]:
        now += 1.0
        match kind:
            case "link":
                actions = made.on_connected(now)
            case "cut":
                actions = made.on_disconnected()
            case "time":
                now += 20.0
                actions = made.on_time(now)
            case "head":
                actions = made.on_head(number, now)
            case "fail":
                actions = made.on_failed(now)
            case "greet":
                actions = made.greet_again(now)
            case _:
                actions = made.on_ack(ack(number, kind), now)
        stored = [action.acked_seq for action in actions if isinstance(action, StoreAcked)]
        for seq in stored:
            assert acked < seq <= sent_up_to
            acked = seq
        for _, last in serve(made, actions, now, last=130):
            sent_up_to = max(sent_up_to, last)
        assert made.acked_seq == acked
        assert len(made._in_flight) <= limits.BATCHES_IN_FLIGHT


# -- the relay's side


def test_ranges_are_judged_against_what_the_session_covered() -> None:
    made = JournalReceiver(stream_id=STREAM, watermark=100, acked_seq=100)
    assert made.judge(102, 110) is Verdict.GAP
    assert made.judge(101, 110) is Verdict.APPLY
    assert made.judge(91, 105) is Verdict.APPLY
    assert made.judge(91, 100) is Verdict.DUPLICATE
    made.on_stored(110)
    assert (made.watermark, made.covered_seq) == (110, 110)
    made.on_stored(100)
    assert (made.watermark, made.covered_seq) == (110, 110)


def test_what_the_box_has_not_seen_acked_is_not_covered() -> None:
    made = JournalReceiver(stream_id=STREAM, watermark=100, acked_seq=90)
    assert made.judge(95, 99) is Verdict.GAP
    assert made.judge(91, 99) is Verdict.DUPLICATE
    made.on_stored(99)
    assert (made.watermark, made.covered_seq) == (100, 99)
