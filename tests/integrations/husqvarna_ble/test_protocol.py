from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.domain.errors import ConflictError
from integrations.husqvarna_ble import frames, wire
from integrations.husqvarna_ble.emulated_machine import Machine, Traits
from integrations.husqvarna_ble.frames import NOTIFY_BYTES, WRITE_BYTES, pieces
from integrations.husqvarna_ble.protocol import Answer, Heard, Ready, Session, Stage
from integrations.husqvarna_ble.responder import BLOCKED_S, TRIES, Lock, Responder
from integrations.husqvarna_ble.wire import MalformedAnswerError, Operation, Result
from tests.integrations.husqvarna_ble.vectors import CHANNEL, VECTORS

BY_NAME = {name: bytes.fromhex(raw) for name, _, raw in VECTORS}


class Wire:
    """A session and a mower, joined by bytes in pieces of their usual sizes."""

    def __init__(self, machine: Machine | None = None) -> None:
        self.lock = Lock()
        self.mower = Responder(machine or Machine(), self.lock)
        self.session = Session(CHANNEL)

    def pass_on(self, data: bytes) -> list[object]:
        replies = [reply for piece in pieces(data, WRITE_BYTES) for reply in self.mower.feed(piece)]
        parts = [part for reply in replies for part in pieces(reply, NOTIFY_BYTES)]
        return [said for part in parts for said in self.session.feed(part)]

    def open(self) -> None:
        assert self.pass_on(self.session.open()) == [Ready()]
        assert self.pass_on(self.session.take_channel()) == [Ready()]
        assert self.session.is_open

    def ask(self, operation: Operation, payload: bytes = b"") -> Answer:
        (answer,) = self.pass_on(self.session.ask(operation, payload))
        assert isinstance(answer, Answer)
        return answer

    def sign_in(self, pin: int = 1234) -> int:
        return self.ask(Operation.ENTER_OPERATOR_PIN, wire.write_u16(pin)).result


def opened() -> Wire:
    both = Wire()
    both.open()
    return both


def test_the_session_says_the_published_bytes():
    session = Session(CHANNEL)
    assert session.open() == BY_NAME["setup"]
    assert session.feed(BY_NAME["setup reply"]) == [Ready()]
    assert session.take_channel() == BY_NAME["handshake"]
    assert session.feed(BY_NAME["handshake reply"]) == [Ready()]
    assert session.ask(Operation.ENTER_OPERATOR_PIN, wire.write_u16(1234)) == BY_NAME["pin"]
    assert session.feed(BY_NAME["pin wrong"]) == [Answer(operation=Operation.ENTER_OPERATOR_PIN, result=1)]
    assert session.ask(Operation.GET_ERROR) == BY_NAME["error"]
    (answer,) = session.feed(BY_NAME["error 9"])
    assert isinstance(answer, Answer)
    assert wire.read_u32(answer.payload) == 9


def test_the_emulated_mower_answers_with_the_published_bytes():
    machine = Machine()
    machine.battery, machine.state, machine.activity = 87.0, wire.State.IN_OPERATION, wire.MowerActivity.MOWING
    mower = Responder(machine, Lock())
    for asked, answered in (
        ("setup", "setup reply"),
        ("handshake", "handshake reply"),
        ("battery", "battery not allowed"),
        ("pin", "pin ok"),
        ("battery", "battery 87"),
        ("state", "state 6"),
        ("activity", "activity 3"),
        ("keepalive", "keepalive ok"),
        ("trigger", "trigger works"),
        ("pause", "pause ok"),
        ("park", "park ok"),
    ):
        assert mower.feed(BY_NAME[asked]) == [BY_NAME[answered]], asked
    mower.lock.pin = 4321
    assert mower.feed(BY_NAME["pin"]) == [BY_NAME["pin wrong"]]
    mower.lock.pin = 1234
    mower.feed(BY_NAME["pin"])
    machine.fail(9)
    assert mower.feed(BY_NAME["error"]) == [BY_NAME["error 9"]]
    assert mower.feed(BY_NAME["state"]) == [BY_NAME["state 8"]]
    machine.activity = wire.MowerActivity.CHARGING
    assert mower.feed(request(Operation.IS_CHARGING)) == [BY_NAME["charging"]]
    assert mower.feed(request(Operation.GET_MODEL)) == [BY_NAME["model 305"]]


def request(operation: Operation) -> bytes:
    return frames.encode(frames.Request(channel=CHANNEL, group=operation.group, number=operation.number))


def test_both_lengths_of_statistics():
    long = frames.FrameReader().feed(BY_NAME["statistics of 28 bytes"])[0]
    short = frames.FrameReader().feed(BY_NAME["statistics of 24 bytes (440)"])[0]
    assert isinstance(long, frames.Response)
    assert isinstance(short, frames.Response)
    assert wire.read_statistics(long.payload) == wire.Statistics(
        running_s=2336799,
        cutting_s=2219791,
        charging_s=758041,
        searching_s=104324,
        collisions=9878,
        charging_cycles=280,
        blade_usage_s=2219791,
    )
    old = wire.read_statistics(short.payload)
    assert old.blade_usage_s is None
    assert (old.running_s, old.charging_cycles) == (10882280, 695)
    for payload in (long.payload, short.payload):
        assert wire.write_statistics(wire.read_statistics(payload)) == payload
    for length in range(24):
        with pytest.raises(MalformedAnswerError):
            wire.read_statistics(long.payload[:length])


def test_every_reading_operation_is_answered():
    machine = Machine(Traits(counts_blades=False))
    machine.tasks.append(wire.Task(start_s=28800, duration_s=7200, days=(True,) * 5 + (False,) * 2))
    machine.fail(9)
    both = Wire(machine)
    both.open()
    both.sign_in()
    assert wire.read_u32(both.ask(Operation.GET_NUMBER_OF_TASKS).payload) == 1
    assert wire.read_task(both.ask(Operation.GET_TASK, wire.write_u32(0)).payload) == machine.tasks[0]
    assert both.ask(Operation.GET_TASK, wire.write_u32(1)).result == Result.INVALID_ID
    assert both.ask(Operation.GET_TASK).result == Result.INVALID_VALUE
    assert wire.read_u32(both.ask(Operation.GET_NUMBER_OF_MESSAGES).payload) == 1
    message = wire.read_message(both.ask(Operation.GET_MESSAGE, wire.write_u32(0)).payload)
    assert (message.code, message.severity) == (9, 2)
    assert wire.read_u32(both.ask(Operation.GET_SERIAL_NUMBER).payload) == 230412223
    assert wire.read_text(both.ask(Operation.GET_NAME).payload) == "305"
    assert wire.read_statistics(both.ask(Operation.GET_ALL_STATISTICS).payload) == machine.statistics
    assert both.ask(Operation.CHARGE_VOLTAGE).result == Result.NOT_AVAILABLE


def test_newer_mowers_append_and_are_still_understood():
    override = wire.Override(action=2, start=1_780_300_800, duration_s=10_800)
    assert wire.read_override(wire.write_override(override) + b"\x01\x02\x03") == override
    assert wire.read_u8(b"\x05\x99") == 5


def test_wrong_pins_lock_the_mower_for_a_while():
    both = opened()
    results = [both.sign_in(9999) for _ in range(TRIES)]
    assert results == [Result.UNKNOWN_ERROR] * (TRIES - 1) + [Result.MOWER_BLOCKED]
    assert both.sign_in(1234) == Result.MOWER_BLOCKED
    assert wire.read_u32(both.ask(Operation.GET_BLOCKED_TIME).payload) == BLOCKED_S
    both.lock.advance(BLOCKED_S)
    assert both.sign_in(1234) == Result.OK


def test_one_request_at_a_time_and_only_on_an_open_channel():
    session = Session(CHANNEL)
    with pytest.raises(ConflictError):
        session.ask(Operation.GET_STATE)
    with pytest.raises(ConflictError):
        session.take_channel()
    both = opened()
    both.session.ask(Operation.GET_STATE)
    with pytest.raises(ConflictError):
        both.session.ask(Operation.GET_STATE)
    with pytest.raises(ConflictError):
        both.session.open()
    with pytest.raises(ValueError, match="channel"):
        Session(0)


def test_answers_to_nobody_are_strays():
    both = opened()
    assert both.session.feed(BY_NAME["battery 87"]) == []
    both.session.ask(Operation.GET_STATE)
    assert both.session.feed(BY_NAME["battery 87"] + BY_NAME["setup reply"] + BY_NAME["handshake reply"]) == []
    assert both.session.strays == 4
    (answer,) = both.session.feed(BY_NAME["state 6"] + BY_NAME["state 8"])
    assert answer == Answer(operation=Operation.GET_STATE, result=0, payload=b"\x06")
    other = Session(CHANNEL + 1)
    other.open()
    assert other.feed(BY_NAME["setup reply"]) == [], "a channel that we did not ask for"
    assert other.stage is Stage.SETUP


def test_a_late_answer_after_giving_up_is_a_stray():
    both = opened()
    both.session.ask(Operation.GET_STATE)
    both.session.feed(BY_NAME["state 6"][:15])
    both.session.give_up()
    assert both.session.feed(BY_NAME["state 6"][15:]) == []
    both.session.ask(Operation.GET_STATE)
    assert len(both.session.feed(BY_NAME["state 8"])) == 1


def test_events_are_heard_between_answers():
    both = opened()
    both.session.ask(Operation.GET_STATE)
    event = both.mower.event(Operation.GET_ACTIVITY, b"\x03")
    strange = frames.encode(frames.Event(channel=CHANNEL, group=1, number=2, rest=b""))
    said = both.session.feed(event + strange + BY_NAME["state 6"])
    assert said[:2] == [Heard(operation=Operation.GET_ACTIVITY, rest=b"\x03"), Heard(operation=None, rest=b"")]
    assert isinstance(said[2], Answer)


_NOISE = st.lists(
    st.one_of(
        st.binary(max_size=40), st.sampled_from([raw[:n] for raw in BY_NAME.values() for n in (2, 9, 10, len(raw))])
    ),
    max_size=8,
)


@settings(max_examples=150)
@given(noise=_NOISE, operation=st.sampled_from(list(Operation)))
def test_no_bytes_leave_the_session_stuck(noise, operation):
    both = opened()
    both.session.ask(operation)
    for data in noise:
        both.session.feed(data)
    both.session.give_up()
    assert both.ask(Operation.KEEP_ALIVE) == Answer(operation=Operation.KEEP_ALIVE, result=0)


@settings(max_examples=150)
@given(noise=_NOISE)
def test_no_bytes_leave_the_opening_stuck(noise):
    session = Session(CHANNEL)
    session.open()
    for data in noise:
        session.feed(data)
    if session.stage is Stage.SETUP:
        session.feed(BY_NAME["setup reply"])
    if session.stage is Stage.HANDSHAKE:
        session.feed(BY_NAME["handshake reply"])
    assert session.is_open


@settings(max_examples=150)
@given(noise=_NOISE, payload=st.binary(max_size=40), operation=st.sampled_from(list(Operation)))
def test_no_bytes_break_the_emulated_mower(noise, payload, operation):
    both = opened()
    both.sign_in()
    both.ask(operation, payload)
    for data in noise:
        both.mower.feed(data)
    both.mower.machine.advance(60.0)
    both.session = Session(CHANNEL)  # the noise may have been a set-up
    both.open()
    assert both.ask(Operation.KEEP_ALIVE).is_ok


@given(payload=st.binary(max_size=60))
def test_decoders_raise_only_their_own_error(payload):
    for decode in (
        wire.read_u8,
        wire.read_u16,
        wire.read_s16,
        wire.read_u32,
        wire.read_bool,
        wire.read_text,
        wire.read_model,
        wire.read_override,
        wire.read_statistics,
        wire.read_task,
        wire.read_message,
    ):
        try:
            decode(payload)
        except MalformedAnswerError:
            continue
