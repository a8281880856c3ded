"""What a person types and reads while adding a Bluetooth mower: address, PIN, passkey, and why it did not work."""

from __future__ import annotations

import re
from typing import Any

import voluptuous as vol

from core.domain import errors
from core.platform.fields import Password

PIN = "pin"
PASSKEY = "passkey"
"""Names of secrets of the entry."""
ADDRESS_SCHEMA = vol.Schema({vol.Required("address"): str})
PIN_SCHEMA = vol.Schema({vol.Required(PIN): Password()})
PASSKEY_SCHEMA = vol.Schema({vol.Optional(PASSKEY): Password()})
_PIN = re.compile(r"[0-9]{4}")
_PASSKEY = re.compile(r"[0-9]{6}")

Failures = tuple[tuple[type[errors.MowdeckError], str], ...]
FAILURES: Failures = (
    (errors.WrongPinError, "wrong_pin"),
    (errors.NotInPairingModeError, "not_in_pairing_mode"),
    (errors.PairingRefusedError, "pairing_refused"),
    (errors.BondLostError, "not_paired"),
    (errors.PeerBusyError, "peer_busy"),
    (errors.OutOfRangeError, "out_of_range"),
    (errors.NoFreeSlotError, "no_free_slot"),
    (errors.AdapterOffError, "adapter_off"),
    (errors.LinkTimeoutError, "no_answer"),
    (errors.LinkLostError, "connection_lost"),
)
"""What may go wrong, the narrowest class first -> translation key of what a person can do."""


def read_pin(value: Any) -> str:
    """Four digits; zeros in front count. vol.Invalid (`invalid_pin`), without the value."""
    text = str(value).strip()
    if not _PIN.fullmatch(text):
        raise vol.Invalid("invalid_pin")
    return text


def read_passkey(value: Any) -> int:
    """Six digits; zeros in front count. vol.Invalid (`invalid_passkey`), without the value."""
    text = str(value).strip()
    if not _PASSKEY.fullmatch(text):
        raise vol.Invalid("invalid_passkey")
    return int(text)
