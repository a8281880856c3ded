"""bleak's and BlueZ's failures in the words of the error tree, so that a person knows what to do. Pure.

Sources of the texts: BlueZ's src/error.c and the exceptions of bleak 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bleak.exc import (
    BleakBluetoothNotAvailableError,
    BleakCharacteristicNotFoundError,
    BleakDBusError,
    BleakDeviceNotFoundError,
    BleakError,
    BleakGATTProtocolError,
)

from core.domain.errors import (
    AdapterOffError,
    BluetoothError,
    BondLostError,
    IntegrationError,
    InterferenceError,
    LinkLostError,
    LinkTimeoutError,
    NoFreeSlotError,
    NotInPairingModeError,
    OutOfRangeError,
    PairingRefusedError,
    PeerBusyError,
    RadioStuckError,
    ServicesChangedError,
)

Bond = Literal["none", "existing", "pair"]

NEEDS_BOND = (0x05, 0x08, 0x0F)
"""ATT: insufficient authentication, authorization, encryption."""
KEY_MISSING = ("key-missing", "PIN or Key Missing", "MIC Failure")
SLOTS = ("connection slot", "No backend", "le-connection-concurrent-connection-limit")
PAIRING = ("Pairing failed",)
"""A proxy's word for a bond that was not made, or could not be taken up again."""
DISTURBED = ("le-connection-abort-by-local", "0x3E", "FAILED_TO_BE_ESTABLISHED", "ESP_GATT_CONN_FAIL_ESTABLISH")
TRANSIENT = (
    *("br-connection-canceled", "InProgress"),
    *("ESP_GATT_CONN_TERMINATE_LOCAL_HOST", "ESP_GATT_CONN_CONN_CANCEL"),
    *("ESP_GATT_ERROR", "ESP_GATT_CONN_L2C_FAILURE", "ESP_GATT_CONN_LMP_TIMEOUT"),
)
INVALID_HANDLE = 0x01
OTHER_PROGRAM_HINT = "Let only one program of this machine use the mower over Bluetooth; it is tried again by itself."


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What was tried when it failed."""

    address: str
    bond: Bond
    stage: Literal["connect", "pair", "talk"]
    has_passkey: bool = False
    is_heard: bool = True
    """Whether the peer was heard, strongly, just before."""
    is_connectable: bool = True
    is_broken_off: bool = False
    """Whether a connection came up meanwhile, and broke off at once."""


def translate(err: Exception, attempt: Attempt) -> IntegrationError:
    """The error to raise in place of `err`."""
    where = attempt.address
    text = str(err)
    match err:
        case IntegrationError():
            return err
        case BleakBluetoothNotAvailableError():
            return AdapterOffError(f"{where}: {text}")
        case BleakGATTProtocolError() if int(err.code) in NEEDS_BOND:
            return BondLostError(f"{where} wants a bond ({err.code.name.lower()})")
        case BleakGATTProtocolError() if int(err.code) == INVALID_HANDLE:
            return ServicesChangedError(f"{where} no longer has what was asked for (invalid handle)")
        case BleakCharacteristicNotFoundError():
            return ServicesChangedError(f"{where} has no characteristic {err.char_specifier}")
        case BleakGATTProtocolError():
            return BluetoothError(f"{where} answered with {err.code.name.lower()}")
        case BleakDBusError():
            return _of_dbus(err, attempt)
        case BleakDeviceNotFoundError():
            return OutOfRangeError(f"{where} is not heard")
        case TimeoutError() if any(part in text for part in SLOTS):
            return NoFreeSlotError(f"{where}: {text}")
        case TimeoutError():
            return _of_timeout(attempt)
        case BleakError():
            return _of_text(text, attempt)
        case _:
            return BluetoothError(f"{where}: {type(err).__name__}: {text}")


def _of_dbus(err: BleakDBusError, attempt: Attempt) -> IntegrationError:
    where = attempt.address
    name = err.dbus_error.rsplit(".", 1)[-1]
    if name in ("AuthenticationFailed", "AuthenticationTimeout", "AuthenticationCanceled"):
        if attempt.stage != "pair":
            return BondLostError(f"{where} no longer knows this box ({name})")
        if attempt.has_passkey:
            return PairingRefusedError(f"{where}: the passkey was wrong or came too late ({name})")
        return NotInPairingModeError(f"{where} did not pair ({name})")
    if name == "NotPermitted" and "acquired" in str(err):
        return BluetoothError(f"{where}: another program of this machine reads what it says", hint=OTHER_PROGRAM_HINT)
    if name in ("AuthenticationRejected", "NotPermitted", "NotAuthorized"):
        kind = PairingRefusedError if attempt.stage == "pair" else BondLostError
        return kind(f"{where}: {name}")
    if name == "NotReady" or "not-powered" in str(err):
        return AdapterOffError(f"{where}: {err}")
    if name == "InProgress" and attempt.stage != "talk":
        return RadioStuckError(f"{where}: BlueZ is busy with an earlier attempt")
    if name in ("UnknownObject", "DoesNotExist"):
        return OutOfRangeError(f"{where} is not heard any more")
    return _of_text(str(err), attempt)


def _of_timeout(attempt: Attempt) -> IntegrationError:
    where = attempt.address
    if attempt.stage == "talk":
        return LinkTimeoutError(f"{where} did not answer in time")
    if attempt.stage == "pair":
        return PairingRefusedError(f"{where} did not finish pairing in time")
    if attempt.is_broken_off:
        return InterferenceError(f"{where}: the connection broke off while it came up")
    if attempt.is_heard or not attempt.is_connectable:
        return PeerBusyError(f"{where} is heard but takes no connection")
    return OutOfRangeError(f"{where} did not answer")


def _of_text(text: str, attempt: Attempt) -> IntegrationError:
    where = attempt.address
    if any(part in text for part in KEY_MISSING):
        return BondLostError(f"{where} no longer knows this box")
    if any(part in text for part in SLOTS):
        return NoFreeSlotError(f"{where}: {text}")
    if any(part in text for part in PAIRING):
        kind = NotInPairingModeError if attempt.stage == "pair" else BondLostError
        return kind(f"{where}: {text}")
    if any(part in text for part in DISTURBED):
        return InterferenceError(f"{where}: {text}")
    if any(part in text for part in TRANSIENT):
        return BluetoothError(f"{where}: {text}", hint=InterferenceError.hint)
    if attempt.stage == "talk":
        return LinkLostError(f"{where}: {text}")
    if "not found" in text.lower():
        return OutOfRangeError(f"{where}: {text}")
    return BluetoothError(f"{where}: {text}")
