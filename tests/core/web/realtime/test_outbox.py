"""What waits for one viewer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from core.domain.ids import AccountId, MowerId
from core.web.realtime.outbox import Frame, Outbox

A, B = MowerId("a"), MowerId("b")


def frame(text: str, mower_id: MowerId | None = None) -> Frame:
    return Frame(text.encode(), AccountId("acc"), mower_id)


def drained(outbox: Outbox) -> list[str]:
    found = []
    while (taken := outbox.take()) is not None:
        found.append(taken.data.decode())
    return found


def test_the_queue_goes_first_and_states_keep_their_turn() -> None:
    outbox = Outbox()
    outbox.put_state(A, frame("a1", A))
    outbox.put_state(B, frame("b1", B))
    outbox.put_state(A, frame("a2", A))
    assert outbox.put(frame("answer"))
    assert outbox.ready.is_set()
    assert drained(outbox) == ["answer", "a2", "b1"]


def test_a_full_queue_says_so_and_states_never_fill_it() -> None:
    outbox = Outbox(capacity=2)
    for n in range(100):
        outbox.put_state(A, frame(str(n), A))
    assert [outbox.put(frame(str(n))) for n in range(3)] == [True, True, False]
    assert drained(outbox) == ["0", "1", "99"]


def test_what_waits_of_a_mower_can_be_dropped() -> None:
    outbox = Outbox()
    outbox.put(frame("result of a", A))
    outbox.put(frame("result of b", B))
    outbox.put_state(A, frame("a", A))
    outbox.drop([A])
    assert drained(outbox) == ["result of b"]


def test_last_words_leave_states_out() -> None:
    outbox = Outbox()
    outbox.put_state(A, frame("a", A))
    outbox.put(frame("error"))
    taken = outbox.take_queued()
    assert taken is not None
    assert taken.data == b"error"
    assert outbox.take_queued() is None


def test_pings_and_the_newest_pong_are_taken_once() -> None:
    outbox = Outbox()
    outbox.put_ping()
    outbox.put_pong(b"1")
    outbox.put_pong(b"2")
    assert outbox.take_control() == (True, b"2")
    assert outbox.take_control() == (False, None)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers()), max_size=50))
def test_the_newest_state_of_every_mower_is_always_sent(states: list[tuple[str, int]]) -> None:
    outbox = Outbox()
    for mower_id, n in states:
        outbox.put_state(MowerId(mower_id), frame(f"{mower_id}{n}", MowerId(mower_id)))
    newest = dict(states)
    assert sorted(drained(outbox)) == sorted(f"{m}{n}" for m, n in newest.items())
