"""The codec against frames of real mowers, and against bytes that nobody would send."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from integrations.ardumower.orders import switch
from integrations.ardumower.protocol import (
    END,
    REPLY_BYTES,
    Damage,
    LineReader,
    Reply,
    Session,
    checksum,
    read_reply,
    seal,
    shift,
)
from integrations.ardumower.wire import (
    Op,
    Sensor,
    Solution,
    read_obstacles,
    read_statistics,
    read_status,
    read_version,
)

KEY = 47  # 123456 % 143
VERSION = b"V,Ardumower Sunray,1.0.219,1,143,0x7e"
CHARGING = b"S,28.60,15.15,-10.24,2.02,2,2,0,0.25,0,15.70,-11.39,0.02,49,-0.05,48,-971195,0x92"
FLOATING = b"S,28.12,-10.77,-4.55,2.62,1,2,11,0.05,0,-7.47,-6.46,0.02,36,-0.00,29,-26017,0x55"
NEW_FORM = b"S,25.20,1.50,-2.25,0.78,2,1,17,0.40,0,1.60,-2.20,0.02,28,1.35,24,-26017,0.03,2,18,0x64"
STATISTICS = b"T,43,2895,242,34,208,1,28.45,0.28,0,998.00,998.00,55,0,0.02,1024,0,1,4,81751,0,5,0,0,1,0x98"
REPLIES = [
    b"V,Ardumower Sunray,1.0.219,1,52,0x4f",
    CHARGING,
    FLOATING,
    NEW_FORM,
    STATISTICS,
    b"C,0x43",
    b"M,0x4d",
    b"P,0x50",
    b"N,0x4e",
    b"X,0x58",
]
PRINTABLE = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=60)


def session(password: int = 123456, challenge: int = 143) -> Session:
    found = Session(password)
    body = f"V,Ardumower Sunray,1.0.219,1,{challenge}".encode()
    reply = read_reply(body + b",0x%02x" % checksum(body))
    assert isinstance(reply, Reply)
    assert found.take_greeting(reply)
    return found


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("AT+V", b"AT+V,0x16"),
        ("AT+S", b"AT+S,0x13"),
        ("AT+T", b"AT+T,0x14"),
        ("AT+S2", b"AT+S2,0x45"),
        ("AT+L", b"AT+L,0x0c"),
        ("AT+Y3", b"AT+Y3,0x4c"),
        ("AT+M,0.20,-0.10", b"AT+M,0.20,-0.10,0x11"),
        ("AT+C,-1,1,0.1,100,0,-1,-1,1", b"AT+C,-1,1,0.1,100,0,-1,-1,1,0x2f"),
    ],
)
def test_requests_are_sealed(body, line):
    assert seal(body) == line


@pytest.mark.parametrize(
    ("line", "shifted"),
    [
        (b"AT+S,0x13", rb"p$Z#[_H`b"),
        (b"AT+T,0x14", rb"p$Z$[_H`c"),
        (b"AT+C,-1,1,0.1,100,0,-1,-1,1,0x2f", rb"p$Zr[\`[`[_]`[`__[_[\`[\`[`[_Ha6"),
        (b"AT+C,-1,0,-1,-1,-1,-1,-1,-1,0x25", rb"p$Zr[\`[_[\`[\`[\`[\`[\`[\`[_Had"),
        (b"AT+C,-1,4,-1,-1,-1,-1,-1,1,0xfc", rb"p$Zr[\`[c[\`[\`[\`[\`[\`[`[_H63"),
    ],
)
def test_requests_are_shifted(line, shifted):
    assert shift(line, KEY) == shifted
    assert shift(shifted, -KEY) == line


def test_a_session_shifts_everything_but_the_greeting():
    subject = session()
    assert subject.greeting() == b"AT+V,0x16\r\n"
    assert subject.request("AT+S") == rb"p$Z#[_H`b" + b"\r\n"
    assert subject.request(switch(Op.IDLE)) == rb"p$Zr[\`[_[\`[\`[\`[\`[\`[\`[_Had" + b"\r\n"
    with pytest.raises(LookupError):
        Session(123456).request("AT+S")


def test_a_doubtful_key_is_no_greeting():
    subject = session()
    subject.doubt()
    assert not subject.is_greeted
    assert subject.has_key
    assert subject.take_greeting(Reply(name="V", fields=("Ardumower Sunray", "1.0.219", "1", "143")))
    assert subject.is_greeted
    assert not Session(1).has_key


def test_a_mower_without_a_password_hears_plain_requests():
    subject = Session(123456)
    assert subject.take_greeting(Reply(name="V", fields=("Ardumower Sunray", "1.0.219", "0", "0")))
    assert subject.request("AT+S") == b"AT+S,0x13\r\n"
    assert not subject.is_shifting


def test_a_new_challenge_is_a_restart():
    subject = session(challenge=143)
    assert subject.restarts == 0
    assert subject.take_greeting(Reply(name="V", fields=("Ardumower Sunray", "1.0.219", "1", "143")))
    assert subject.restarts == 0
    assert subject.take_greeting(Reply(name="V", fields=("Ardumower Sunray", "1.0.219", "1", "52")))
    assert subject.restarts == 1


@pytest.mark.parametrize(
    "fields",
    [(), ("x",), ("x", "1", "1", "0"), ("x", "1", "1", "200"), ("x", "1", "2", "9"), ("x", "1", "1", "-3")],
)
def test_a_greeting_that_makes_no_sense_is_none(fields):
    subject = Session(1)
    assert not subject.take_greeting(Reply(name="V", fields=fields))
    assert not subject.is_greeted


def test_the_password_is_in_no_text():
    assert "987654" not in repr(Session(987654))


@pytest.mark.parametrize("line", REPLIES)
def test_replies_of_real_mowers(line):
    reply = read_reply(line)
    assert isinstance(reply, Reply)
    body = line.rpartition(b",")[0].decode()
    assert ",".join([reply.name, *reply.fields]) == body
    assert read_reply(line.upper().replace(b"0X", b"0x")) is not None


def test_the_fields_of_a_version():
    reply = read_reply(b"V,Ardumower Sunray,1.0.219,1,52,0x4f")
    assert isinstance(reply, Reply)
    version = read_version(reply.fields)
    assert version is not None
    assert (version.name, version.version, version.is_shifting, version.challenge) == (
        "Ardumower Sunray",
        "1.0.219",
        True,
        52,
    )
    assert version.robot_id is None
    newer = read_version(["A", "1.0.332", "1", "52", "1", "AM", "RM18", "1.1", "0A:1b:2c"])
    assert newer is not None
    assert newer.robot_id == "0a1b2c"
    for nothing in ("", "XX", "sim", "00:00:00", "a b c d e f"):
        version = read_version(["A", "1", "0", "0", "1", "AM", "x", "y", nothing])
        assert version is not None
        assert version.robot_id is None


def test_the_fields_of_a_status():
    status = read_status(read(CHARGING).fields)
    assert (status.volts, status.x_m, status.y_m, status.heading_rad) == (28.6, 15.15, -10.24, 2.02)
    assert (status.solution, status.op, status.sensor) == (Solution.FIX, Op.CHARGE, Sensor.NONE)
    assert (status.accuracy_m, status.satellites, status.amps, status.map_crc) == (0.02, 49, -0.05, -971195)
    assert (status.plan_weekday, status.plan_hour) == (None, None)
    newer = read_status(read(NEW_FORM).fields)
    assert (newer.op, newer.mow_point, newer.plan_weekday, newer.plan_hour) == (Op.MOW, 17, 2, 18)
    older = read_status(read(FLOATING).fields)
    assert (older.solution, older.op, older.mow_point) == (Solution.FLOAT, Op.CHARGE, 11)


def test_the_fields_of_statistics():
    statistics = read_statistics(read(STATISTICS).fields)
    assert (statistics.charging_s, statistics.mowing_s, statistics.distance_m, statistics.obstacles) == (
        2895,
        242,
        28,
        4,
    )


def test_odd_fields_cost_only_themselves():
    status = read_status(["nan", "inf", "1_0", "", "7", "99", "x", "-", "55", "", "", "", "28.5", "--1.4"])
    assert (status.volts, status.x_m, status.y_m, status.heading_rad) == (None, None, None, None)
    assert (status.solution, status.op, status.sensor) == (Solution.UNKNOWN, Op.UNKNOWN, Sensor.UNKNOWN)
    assert (status.satellites, status.amps) == (None, -1.4)
    assert read_status([]).op is Op.UNKNOWN


def test_obstacles():
    fields = ["2", "0.5", "0.5", "1", "3", "1", "2", "3", "4", "5", "6", "0.5", "0.5", "1", "1", "-1.5", "2"]
    assert read_obstacles(fields) == (((1, 2), (3, 4), (5, 6)), ((-1.5, 2),))
    assert read_obstacles(["0"]) == ()
    for wrong in (
        ["1"],
        ["x"],
        ["-1"],
        fields[:-1],
        ["1", "0", "0", "1", "99999999"],
        ["1", "0", "0", "1", "1", "a", "b"],
    ):
        assert read_obstacles(wrong) is None


@pytest.mark.parametrize(
    "line",
    [
        b"M,0x3D",
        b"C",
        b"",
        b",",
        b",0x2c",
        b"C,0x",
        b"C,0x143",
        b"C,43",
        b"C,0x+4",
        b"C,0x 3",
        b"\x01,0x_1",
        b"\xff,0xff",
        b"C D,0x00",
    ],
)
def test_damaged_replies_are_told_apart(line):
    assert isinstance(read_reply(line), Damage)


@pytest.mark.parametrize("body", ["", "AT+S\r", "AT+S\n", "AT+\u00e4", "A" * 500])
def test_what_is_no_request_is_not_sealed(body):
    with pytest.raises(ValueError, match=r"."):
        seal(body)


def read(line: bytes) -> Reply:
    reply = read_reply(line)
    assert isinstance(reply, Reply)
    return reply


@given(PRINTABLE, st.integers(-200, 200))
def test_shifting_back_gives_the_line(text, key):
    line = text.encode()
    shifted = shift(line, key)
    assert shift(shifted, -key) == line
    assert all(32 <= byte <= 126 for byte in shifted)


@given(PRINTABLE, st.integers(1, 94))
def test_the_shift_is_the_firmwares(text, key):
    """As the firmware describes it: byte + key, minus 95 beyond 126."""
    line = text.encode()
    assert shift(line, key) == bytes(b + key - 95 if b + key > 126 else b + key for b in line)


@settings(max_examples=200)
@given(st.lists(st.sampled_from(REPLIES), min_size=1, max_size=5), st.data())
def test_replies_split_and_merged_anywhere(lines, data):
    stream = b"".join(line + data.draw(st.sampled_from([b"\r\n", b"\n", b"\r"])) for line in lines)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=12)))
    reader = LineReader()
    found = []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += reader.feed(stream[begin:end])
    assert found == [read(line) for line in lines]
    assert reader.close() == []


@pytest.mark.parametrize("line", REPLIES)
def test_replies_split_at_every_boundary(line):
    stream = line + END
    for cut in range(len(stream) + 1):
        reader = LineReader()
        assert [*reader.feed(stream[:cut]), *reader.feed(stream[cut:])] == [read(line)]


@settings(max_examples=200)
@given(st.lists(st.binary(max_size=80), max_size=8))
def test_noise_never_raises_and_never_hides_the_next_reply(pieces):
    reader = LineReader()
    for piece in pieces:
        for item in reader.feed(piece):
            if isinstance(item, Reply):
                read_status(item.fields)
                read_version(item.fields)
                read_statistics(item.fields)
                read_obstacles(item.fields)
    assert reader.feed(END + CHARGING + END)[-1] == read(CHARGING)


@settings(max_examples=200)
@given(st.binary(max_size=REPLY_BYTES - 1), st.data())
def test_any_bytes_say_the_same_however_they_are_cut(stream, data):
    """As one body of HTTP, and as notifications."""
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=8)))
    whole, cut = LineReader(), LineReader()
    found = [
        item
        for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)
        for item in cut.feed(stream[begin:end])
    ]
    assert [*found, *cut.close()] == [*whole.feed(stream), *whole.close()]


@given(st.lists(st.text(st.characters(codec="ascii", exclude_characters=",\r\n"), max_size=12), max_size=40))
def test_any_fields_are_read_without_raising(fields):
    read_status(fields)
    read_version(fields)
    read_statistics(fields)
    read_obstacles(fields)


def test_a_line_without_end_is_given_up():
    reader = LineReader()
    for _ in range(REPLY_BYTES // 1000 + 2):
        assert reader.feed(b"S" * 1000) == []
    assert len(reader._rest) <= REPLY_BYTES + 1000
    found = reader.feed(b"\r\n" + CHARGING + END)
    assert [type(item) for item in found] == [Damage, Reply]


def test_a_last_line_may_lack_its_end():
    reader = LineReader()
    assert reader.feed(b"C,0x43") == []
    assert reader.close() == [Reply(name="C")]


@given(st.sampled_from(REPLIES), st.integers(0, 80), st.integers(1, 255))
def test_one_changed_byte_is_found_or_harmless(line, at, by):
    """A sum finds every single changed byte of the body."""
    body, _, _ = line.rpartition(b",")
    at %= len(body)
    changed = bytearray(line)
    changed[at] = (changed[at] + by) % 256
    assert isinstance(read_reply(bytes(changed)), Damage)
