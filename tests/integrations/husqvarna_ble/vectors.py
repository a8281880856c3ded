"""Published frames of real mowers (reference 2.5): name, frame, bytes. Channel 0x47603BB6 unless said otherwise."""

from __future__ import annotations

from integrations.husqvarna_ble.frames import (
    Frame,
    HandshakeReply,
    HandshakeRequest,
    Request,
    Response,
    SetupReply,
    SetupRequest,
)
from integrations.husqvarna_ble.wire import Operation, Result

CHANNEL = 1197489078


def _ask(operation: Operation, payload: bytes = b"", channel: int = CHANNEL) -> Request:
    return Request(channel=channel, group=operation.group, number=operation.number, payload=payload)


def _answer(operation: Operation, payload: bytes = b"", result: int = Result.OK, channel: int = CHANNEL) -> Response:
    return Response(channel=channel, group=operation.group, number=operation.number, result=result, payload=payload)


_S28 = bytes.fromhex("1fa823000fdf210019910b008497010096260000180100000fdf2100")
_S24 = bytes.fromhex("e80ca6007ffe9d000b8e2700690e0800a8770000b7020000")

VECTORS: tuple[tuple[str, Frame, str], ...] = (
    ("setup", SetupRequest(channel=CHANNEL), "02fd160000000000002e14b63b6047000000004d61696e001203"),
    ("setup reply", SetupReply(channel=CHANNEL), "02fd0d0000000000006315b63b6047b603"),
    ("handshake", HandshakeRequest(channel=CHANNEL), "02fd0a00b63b6047008f08012803"),
    ("handshake reply", HandshakeReply(channel=CHANNEL), "02fd0b00b63b604700b20901011403"),
    ("pin", _ask(Operation.ENTER_OPERATOR_PIN, b"\xd2\x04"), "02fd1200b63b604701db00af381204000200d204ee03"),
    ("pin ok", _answer(Operation.ENTER_OPERATOR_PIN), "02fd1100b63b6047019c01af38120400000000ab03"),
    ("pin wrong", _answer(Operation.ENTER_OPERATOR_PIN, result=1), "02fd1100b63b6047019c01af381204000100000003"),
    ("battery", _ask(Operation.GET_BATTERY_LEVEL), "02fd1000b63b604701a100af0a1014000000bf03"),
    ("battery 87", _answer(Operation.GET_BATTERY_LEVEL, b"\x57"), "02fd1200b63b604701db01af0a101400000100572703"),
    (
        "battery not allowed",
        _answer(Operation.GET_BATTERY_LEVEL, result=5),
        "02fd1100b63b6047019c01af0a101400050000e203",
    ),
    ("charging", _answer(Operation.IS_CHARGING, b"\x01"), "02fd1200b63b604701db01af0a101500000100011603"),
    ("model 305", _answer(Operation.GET_MODEL, b"\x17\x01"), "02fd1300b63b604701e601af5a1209000002001701c803"),
    ("state", _ask(Operation.GET_STATE), "02fd1000b63b604701a100afea11020000006a03"),
    ("state 6", _answer(Operation.GET_STATE, b"\x06"), "02fd1200b63b604701db01afea110200000100060503"),
    ("state 8", _answer(Operation.GET_STATE, b"\x08"), "02fd1200b63b604701db01afea110200000100081a03"),
    ("activity", _ask(Operation.GET_ACTIVITY), "02fd1000b63b604701a100afea1103000000e503"),
    ("activity 3", _answer(Operation.GET_ACTIVITY, b"\x03"), "02fd1200b63b604701db01afea110300000100030d03"),
    ("error", _ask(Operation.GET_ERROR), "02fd1000b63b604701a100afea11060000006403"),
    ("error 9", _answer(Operation.GET_ERROR, b"\x09\0\0\0"), "02fd1500b63b6047016801afea11060000040009000000e603"),
    ("keepalive", _ask(Operation.KEEP_ALIVE), "02fd1000b63b604701a100af421202000000d903"),
    ("keepalive ok", _answer(Operation.KEEP_ALIVE), "02fd1100b63b6047019c01af421202000000006f03"),
    ("pause", _ask(Operation.PAUSE), "02fd1000b63b604701a100afea1105000000ec03"),
    ("pause ok", _answer(Operation.PAUSE), "02fd1100b63b6047019c01afea110500000000ee03"),
    ("trigger", _ask(Operation.START_TRIGGER), "02fd1000b63b604701a100afea11040000006303"),
    ("trigger works", _answer(Operation.START_TRIGGER, result=1), "02fd1100b63b6047019c01afea1104000100008803"),
    ("park", _ask(Operation.SET_OVERRIDE_PARK_UNTIL_NEXT_START), "02fd1000b63b604701a100af321205000000c703"),
    ("park ok", _answer(Operation.SET_OVERRIDE_PARK_UNTIL_NEXT_START), "02fd1100b63b6047019c01af32120500000000ed03"),
    (
        "statistics of 28 bytes",
        _answer(Operation.GET_ALL_STATISTICS, _S28),
        "02fd2d00b63b6047018d01af76120000001c001fa823000fdf210019910b008497010096260000180100000fdf21006103",
    ),
    (
        "statistics of 24 bytes (440)",
        _answer(Operation.GET_ALL_STATISTICS, _S24),
        "02fd2900b63b6047017901af76120000001800e80ca6007ffe9d000b8e2700690e0800a8770000b70200006303",
    ),
    (
        "pin 7201, another channel",
        _ask(Operation.ENTER_OPERATOR_PIN, (7201).to_bytes(2, "little"), 1739453030),
        "02fd120066f2ad6701ad00af381204000200211c7d03",
    ),
    (
        "override 10800 s, another channel",
        _ask(Operation.SET_OVERRIDE_MOW, (10800).to_bytes(4, "little"), 0x5798CA1A),
        "02fd14001aca985701fd00af321203000400302a00004603",
    ),
    (
        "trigger refused, another channel",
        _answer(Operation.START_TRIGGER, result=5, channel=0x650E848A),
        "02fd11008a840e65013301afea1104000500001603",
    ),
)
