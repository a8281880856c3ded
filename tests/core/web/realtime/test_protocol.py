"""The rules of one connection: frames, answers and time in, actions out. No loop, no socket."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.domain import limits
from core.domain.drive import DriveFrame
from core.web.realtime.messages import CloseCode, Error, Pong, Ready, Revoked, Subscribed, Unsubscribed
from core.web.realtime.protocol import (
    MESSAGES_BURST,
    RECHECK_RETRY_S,
    SILENCE_S,
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
from tests.fakes.clock import START
from tests.fakes.tokens import make_principal

ANNA = make_principal("anna", expires_at=START + timedelta(minutes=10))


def text(**message: Any) -> bytes:
    return json.dumps(message).encode()


def waiting() -> Conversation:
    return Conversation("c1", now=0.0)


def opened(**more: Any) -> Conversation:
    conversation = Conversation("c1", now=0.0, **more)
    conversation.receive(text(type="auth", token="t"), 0.0, START)
    conversation.verified(ANNA, 0.0, START)
    return conversation


def follow(conversation: Conversation, *mower_ids: str, now: float = 0.0) -> None:
    (check,) = conversation.receive(text(type="subscribe", mower_ids=mower_ids), now, START)
    assert isinstance(check, Check)
    conversation.checked(check, [True] * len(check.mower_ids), now)


def code_of(actions: list[Action]) -> CloseCode:
    (close,) = (a for a in actions if isinstance(a, Close))
    assert actions[-1] is close, "nothing follows a close"
    return close.code


def sent(actions: list[Action]) -> list[Any]:
    return [a.message for a in actions if isinstance(a, Send)]


# -- authentication


def test_the_first_message_is_auth_and_opens() -> None:
    conversation = waiting()
    assert conversation.receive(text(type="auth", token="t"), 1.0, START) == [Verify("t")]
    (ready,) = sent(conversation.verified(ANNA, 1.0, START))
    assert isinstance(ready, Ready)
    assert (ready.connection_id, ready.principal.subject, ready.token_expires_at) == ("c1", "anna", ANNA.expires_at)
    assert conversation.phase is Phase.OPEN


@pytest.mark.parametrize("kind", ["ping", "subscribe", "unsubscribe"])
def test_anything_else_first_is_not_authenticated(kind: str) -> None:
    actions = waiting().receive(text(type=kind, mower_ids=["m"]), 0.0, START)
    assert code_of(actions) is CloseCode.NOT_AUTHENTICATED


def test_a_token_that_does_not_hold_closes() -> None:
    assert code_of(waiting().refused()) is CloseCode.NOT_AUTHENTICATED
    assert code_of(opened().refused()) is CloseCode.NOT_AUTHENTICATED


def test_without_auth_it_closes_after_five_seconds() -> None:
    conversation = waiting()
    assert conversation.due_in(0.0, START) == limits.AUTH_DEADLINE_S
    assert conversation.tick(4.9, START) == []
    assert code_of(conversation.tick(5.0, START)) is CloseCode.NOT_AUTHENTICATED


def test_a_later_auth_refreshes_and_asks_for_rights_again() -> None:
    conversation = opened()
    follow(conversation, "m1")
    conversation.receive(text(type="auth", token="t2"), 100.0, START)
    newer = make_principal("anna", expires_at=START + timedelta(minutes=20))
    (ready,) = sent(conversation.verified(newer, 10.0, START))
    assert ready.token_expires_at == newer.expires_at
    assert Recheck(("m1",)) in conversation.tick(10.0, START)
    assert conversation.tick(50.0, START + timedelta(minutes=15)) != []
    assert conversation.phase is Phase.OPEN


@pytest.mark.parametrize("other", [make_principal("ben"), make_principal("anna", "acc-b")])
def test_a_token_of_somebody_else_closes(other: Any) -> None:
    assert code_of(opened().verified(other, 1.0, START)) is CloseCode.NOT_AUTHENTICATED


def test_an_expired_token_closes_at_once_and_later() -> None:
    late = make_principal("anna", expires_at=START)
    assert code_of(waiting().verified(late, 0.0, START)) is CloseCode.NOT_AUTHENTICATED
    conversation = opened()
    assert conversation.due_in(0.0, START + timedelta(minutes=9, seconds=59)) == 1.0
    assert code_of(conversation.tick(1.0, ANNA.expires_at)) is CloseCode.NOT_AUTHENTICATED


def test_who_must_change_the_password_is_not_let_in() -> None:
    who = make_principal("new", must_change_password=True)
    assert code_of(waiting().verified(who, 0.0, START)) is CloseCode.NOT_AUTHENTICATED


def test_a_verifier_out_of_reach_closes_a_new_connection_and_keeps_an_open_one() -> None:
    actions = waiting().unverified()
    assert code_of(actions) is CloseCode.INTERNAL
    conversation = opened()
    (error,) = sent(conversation.unverified())
    assert error.code == "internal"
    assert conversation.phase is Phase.OPEN


def test_too_many_connections_close() -> None:
    actions = opened().crowded("at most 10")
    assert sent(actions)[0].code == "limit_exceeded"
    assert code_of(actions) is CloseCode.TOO_MANY


# -- frames


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[]", b"1", b'"auth"', b"[" * 5000, b'{"type":'])
@pytest.mark.parametrize("make", [waiting, opened])
def test_what_is_no_json_object_is_a_protocol_error(make: Any, data: bytes) -> None:
    assert code_of(make().receive(data, 0.0, START)) is CloseCode.PROTOCOL_ERROR


def test_binary_is_a_protocol_error() -> None:
    assert code_of(opened().receive_binary()) is CloseCode.PROTOCOL_ERROR


@pytest.mark.parametrize(
    "message", [{"type": "dance"}, {}, {"type": "subscribe"}, {"type": "subscribe", "mower_ids": "m"}, {"type": 3}]
)
def test_json_of_another_shape_is_answered_and_the_connection_stays(message: Any) -> None:
    conversation = opened()
    (error,) = sent(conversation.receive(text(**message, request_id="r1"), 0.0, START))
    assert isinstance(error, Error)
    assert (error.code, error.request_id) == ("invalid_message", "r1")
    assert conversation.phase is Phase.OPEN


def test_a_newer_clients_extra_fields_are_ignored() -> None:
    (pong,) = sent(opened().receive(text(type="ping", request_id="r", colour="blue"), 0.0, START))
    assert pong == Pong(server_time=START, request_id="r")


def test_a_frame_has_at_most_16_kib() -> None:
    fits = text(type="ping").ljust(limits.FRAME_BYTES)
    assert sent(opened().receive(fits, 0.0, START))
    assert code_of(opened().receive(fits + b" ", 0.0, START)) is CloseCode.TOO_BIG


def test_too_many_messages_close() -> None:
    conversation = opened()
    for _ in range(int(MESSAGES_BURST) - 1):
        assert sent(conversation.receive(text(type="ping"), 0.0, START))
    assert code_of(conversation.receive(text(type="ping"), 0.0, START)) is CloseCode.TOO_MANY


def test_nothing_is_done_after_a_close() -> None:
    conversation = opened()
    conversation.receive_binary()
    assert conversation.receive(text(type="ping"), 0.0, START) == []
    assert conversation.verified(ANNA, 0.0, START) == []
    assert conversation.tick(1e6, START + timedelta(days=9)) == []
    assert conversation.receive_binary() == []


# -- subscriptions


def test_subscribe_follows_what_may_be_viewed_and_denies_the_rest() -> None:
    conversation = opened()
    (check,) = conversation.receive(
        text(type="subscribe", mower_ids=["m1", "foreign", "m1", "no id!"], request_id="r"), 0.0, START
    )
    assert isinstance(check, Check)
    assert check.mower_ids == ("m1", "foreign")
    told, last = conversation.checked(check, [True, False], 0.0)
    assert told == Send(Subscribed(mower_ids=("m1",), denied=("foreign", "no id!"), request_id="r"))
    assert last == SendLast(("m1",), "r")
    assert conversation.followed == {"m1"}


def test_to_subscribe_again_sends_the_last_state_again() -> None:
    conversation = opened()
    follow(conversation, "m1")
    (check,) = conversation.receive(text(type="subscribe", mower_ids=["m1"]), 0.0, START)
    assert isinstance(check, Check)
    assert SendLast(("m1",), None) in conversation.checked(check, [True], 0.0)


def test_to_subscribe_again_without_the_right_ends_the_subscription() -> None:
    conversation = opened()
    follow(conversation, "m1")
    (check,) = conversation.receive(text(type="subscribe", mower_ids=["m1"]), 0.0, START)
    assert isinstance(check, Check)
    conversation.checked(check, [False], 0.0)
    assert conversation.followed == set()


def test_unsubscribe_tells_what_was_followed() -> None:
    conversation = opened()
    follow(conversation, "m1", "m2")
    actions = conversation.receive(text(type="unsubscribe", mower_ids=["m2", "m3", "m2"], request_id="r"), 0.0, START)
    assert sent(actions) == [Unsubscribed(mower_ids=("m2",), request_id="r")]
    assert conversation.followed == {"m1"}


def test_too_many_subscriptions_close() -> None:
    conversation = opened(max_subscriptions=2)
    follow(conversation, "m1", "m2")
    follow(conversation, "m1", "m2")
    actions = conversation.receive(text(type="subscribe", mower_ids=["m3"]), 0.0, START)
    assert sent(actions)[0].code == "limit_exceeded"
    assert code_of(actions) is CloseCode.TOO_MANY


def test_an_authorizer_out_of_reach_lets_nobody_in() -> None:
    conversation = opened()
    (check,) = conversation.receive(text(type="subscribe", mower_ids=["m1"], request_id="r"), 0.0, START)
    assert isinstance(check, Check)
    (error,) = sent(conversation.unchecked(check))
    assert (error.code, error.request_id) == ("internal", "r")
    assert conversation.followed == set()


def test_a_joystick_frame_is_forwarded() -> None:
    frame = {"sequence": 1, "linear": 0.5, "angular": 0.0}
    actions = opened().receive(text(type="drive", mower_id="m1", frame=frame), 0.0, START)
    assert actions == [Forward("m1", DriveFrame(sequence=1, linear=0.5, angular=0.0))]  # type: ignore[arg-type]


# -- rights and time


def test_rights_are_asked_for_again_every_minute_and_lost_ones_are_told() -> None:
    conversation = opened()
    follow(conversation, "m1", "m2")
    assert Recheck(("m1", "m2")) not in conversation.tick(59.9, START)
    conversation.heard(59.9)
    (recheck,) = (a for a in conversation.tick(60.0, START) if isinstance(a, Recheck))
    (revoked,) = sent(conversation.rechecked(recheck, [True, False]))
    assert isinstance(revoked, Revoked)
    assert revoked.mower_ids == ("m2",)
    assert conversation.followed == {"m1"}
    assert conversation.rechecked(recheck, [True, False]) == [], "told once"


def test_an_outage_revokes_nobody_and_is_tried_again_soon() -> None:
    conversation = opened()
    follow(conversation, "m1")
    conversation.want_recheck(1.0)
    assert Recheck(("m1",)) in conversation.tick(1.0, START)
    conversation.unrechecked(1.0)
    assert conversation.followed == {"m1"}
    assert conversation.tick(1.0 + RECHECK_RETRY_S - 0.1, START) == []
    assert Recheck(("m1",)) in conversation.tick(1.0 + RECHECK_RETRY_S, START)


def test_rights_that_changed_while_they_were_asked_for_are_asked_for_again() -> None:
    conversation = opened()
    (check,) = conversation.receive(text(type="subscribe", mower_ids=["m1"]), 0.0, START)
    assert isinstance(check, Check)
    conversation.want_recheck(0.0)
    conversation.tick(0.0, START)
    conversation.checked(check, [True], 0.1)
    assert conversation.tick(0.1, START) == [Recheck(("m1",))]


def test_it_pings_every_20_s_and_ends_what_never_answers() -> None:
    conversation = opened()
    assert conversation.due_in(0.0, START) == limits.PROTOCOL_PING_S
    assert conversation.tick(20.0, START) == [PingPeer()]
    assert conversation.tick(20.0, START) == []
    conversation.heard(20.1)
    assert conversation.tick(20.1 + SILENCE_S - 0.1, START)[0] == PingPeer()
    assert code_of(conversation.tick(20.1 + SILENCE_S, START)) is CloseCode.SLOW_CONSUMER


# -- whatever comes

ids = st.lists(st.sampled_from(["m1", "m2", "foreign", "", "a/b", "\x00"]), max_size=4)
messages = st.one_of(
    st.fixed_dictionaries({"type": st.just("auth"), "token": st.text(max_size=5)}),
    st.fixed_dictionaries({"type": st.sampled_from(["subscribe", "unsubscribe"]), "mower_ids": ids}),
    st.fixed_dictionaries({"type": st.just("ping")}),
    st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=3), st.lists, max_leaves=5),
    st.dictionaries(st.sampled_from(["type", "mower_ids", "frame", "token"]), st.text(max_size=3) | ids),
)
frames = st.one_of(messages.map(lambda m: json.dumps(m).encode()), st.binary(max_size=30))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(frames, st.floats(0, 70)), max_size=12), st.booleans())
def test_whatever_comes_it_ends_only_by_the_rules(steps: list[tuple[bytes, float]], is_open: bool) -> None:
    conversation = opened() if is_open else waiting()
    now, closed = 0.0, False
    for data, pause in steps:
        now += pause
        actions = conversation.receive(data, now, START)
        for action in list(actions):
            if isinstance(action, Check):
                actions += conversation.checked(action, [m == "m1" for m in action.mower_ids], now)
            if isinstance(action, Verify):
                actions += conversation.verified(ANNA, now, START)
        actions += conversation.tick(now, START)
        assert not (closed and actions), "a closed connection is silent"
        for close in (a for a in actions if isinstance(a, Close)):
            closed = True
            assert close.code is not CloseCode.INTERNAL
            assert len(close.reason.encode()) <= 123
        assert conversation.followed <= {"m1"}
        assert conversation.due_in(now, START) >= 0
