"""Asks a mower who it is, for the forms in which a person adds or changes it."""

from __future__ import annotations

from core.domain.errors import (
    AdapterOffError,
    AuthFailedError,
    BluetoothError,
    IntegrationError,
    LinkLostError,
    LinkTimeoutError,
    NoFreeSlotError,
    OutOfRangeError,
    PeerBusyError,
)
from integrations.ardumower.exchange import Exchange, Patience
from integrations.ardumower.line import OpenLine
from integrations.ardumower.protocol import Session
from integrations.ardumower.wire import Version

PATIENCE = Patience(greeting_s=2.5, question_s=2.0)
"""So that three tries and a Bluetooth connection fit into one step of a flow."""
CONNECT_DEADLINE_S = 25.0
_WORDS: tuple[tuple[type[IntegrationError], str], ...] = (
    (OutOfRangeError, "out_of_range"),
    (PeerBusyError, "peer_busy"),
    (NoFreeSlotError, "no_free_slot"),
    (AdapterOffError, "no_bluetooth"),
    (BluetoothError, "bluetooth_failed"),
    (LinkLostError, "cannot_connect"),
    (LinkTimeoutError, "no_answer"),
)


async def ask_version(open_line: OpenLine, password: int | None) -> Version:
    """The mower's version, with the password proven right if one is given. Sets nothing in motion."""
    async with open_line() as line:
        exchange = Exchange(line, Session(password or 0), PATIENCE)
        if password is None:
            return await exchange.greet()
        version, _ = await exchange.open()
        return version


def error_of(err: IntegrationError, path_field: str) -> dict[str, str]:
    """The form's field that is to blame, and the translation key of the reason."""
    if isinstance(err, AuthFailedError):
        return {"password": "invalid_auth"}
    return {path_field: next((word for kind, word in _WORDS if isinstance(err, kind)), "cannot_connect")}
