"""Bytes of requests and answers, by the pure functions of pygrouw (MIT). Its Bluetooth client is not used.

pygrouw imports bleak, so this module is imported with the integration (by the loader, in a thread) and not before;
the emulator stands without it.
"""

from __future__ import annotations

from datetime import datetime

from pygrouw import protocol as dym

from integrations.grouw_ble.wire import (
    ANSWER_BYTES,
    ANSWER_END,
    PREFIX,
    SHORT_BYTES,
    Answer,
    Order,
    OtherAnswer,
    PinTold,
    Status,
)

_STATION = 7


def order(order: Order) -> bytes:
    """What sets it in motion, or stops it."""
    return dym.encode_daye_command(order.value)


def status_request() -> bytes:
    """Quiet, and answered without any session."""
    return dym.encode_daye_command("status")


def pin_request() -> bytes:
    """The mower answers with its PIN, for everybody near to hear."""
    return dym.encode_daye_command("auth_query")


def session_start(local_time: datetime) -> bytes:
    """Makes the mower beep and sets its clock: `local_time` is the garden's."""
    return dym.encode_daye_session_start(local_time)


def decode(frame: bytes) -> Answer:
    """What an answer says. ValueError for anything but a whole one."""
    is_whole = len(frame) in (ANSWER_BYTES, SHORT_BYTES)
    if not is_whole or not frame.startswith(PREFIX) or not frame.endswith(ANSWER_END):
        raise ValueError("not a whole answer")
    number = frame[3]
    message = dym.parse_daye_payload(frame) or {}
    if number == dym.DAYE_RESPONSE_STATUS and len(frame) == ANSWER_BYTES:
        return Status(
            battery=int(message["battery_level"]),
            station=frame[_STATION],
            mode=int(message["mode"]),
            data=frame[4 : -len(ANSWER_END)],
        )
    if number == dym.DAYE_RESPONSE_PIN_OR_AUTH:
        return PinTold(pin=message.get("mower_pin"))
    return OtherAnswer(number=number)
