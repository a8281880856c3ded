"""The first talk with a mower: a PIN that a person has typed, tried once, and who the mower is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from core.platform.bluetooth_mower_flow import Identity
from integrations.husqvarna_ble import wire
from integrations.husqvarna_ble.advertised import Advertised
from integrations.husqvarna_ble.conversation import Conversation, RefusedError
from integrations.husqvarna_ble.wire import MalformedAnswerError, Operation

T = TypeVar("T")

SETTLE_S = 3.0
"""Between the connection and the first word; mowers that are spoken to sooner do not answer."""


async def introduce(talk: Conversation, pin: str, said: Advertised) -> Identity:
    """Signs in over an open channel; what the mower does not tell is taken from what it `said` on the air.
    WrongPinError, MowerBlockedError, LinkLostError, LinkTimeoutError."""
    await talk.sign_in(pin)
    serial = await _read(talk, Operation.GET_SERIAL_NUMBER, wire.read_u32) or said.serial
    model = await _read(talk, Operation.GET_MODEL, wire.read_model) or said.model
    return Identity(
        serial=str(serial) if serial else None,
        name=await _read(talk, Operation.GET_NAME, wire.read_text),
        data={} if model is None else {"device_type": model.device_type, "variant": model.variant},
    )


async def _read(talk: Conversation, operation: Operation, decode: Callable[[bytes], T]) -> T | None:
    try:
        return await talk.read(operation, decode)
    except (RefusedError, MalformedAnswerError):
        return None
