"""BlueZ's and bleak's words for a failure, and ours."""

from __future__ import annotations

import pytest
from bleak.exc import (
    BleakCharacteristicNotFoundError,
    BleakDBusError,
    BleakError,
    BleakGATTProtocolError,
    BleakGATTProtocolErrorCode,
)

from core.domain.errors import (
    AdapterOffError,
    BluetoothError,
    BondLostError,
    IntegrationError,
    InterferenceError,
    LinkTimeoutError,
    NotInPairingModeError,
    OutOfRangeError,
    PairingRefusedError,
    PeerBusyError,
    RadioStuckError,
    ServicesChangedError,
)
from edge_agent.bluetooth.failures import Attempt, translate

CONNECT = Attempt(address="C0:00:00:00:00:01", bond="existing", stage="connect")
PAIR = Attempt(address="C0:00:00:00:00:01", bond="pair", stage="pair")
TALK = Attempt(address="C0:00:00:00:00:01", bond="existing", stage="talk")


def bluez(name: str, text: str = "") -> BleakDBusError:
    return BleakDBusError(f"org.bluez.Error.{name}", [text])


@pytest.mark.parametrize(
    ("err", "attempt", "kind"),
    [
        (bluez("Failed", "le-connection-abort-by-local"), CONNECT, InterferenceError),
        (bluez("Failed", "le-connection-abort-by-local"), PAIR, InterferenceError),
        (BleakError("FAILED_TO_BE_ESTABLISHED"), CONNECT, InterferenceError),
        (bluez("InProgress", "Operation already in progress"), CONNECT, RadioStuckError),
        (bluez("InProgress"), PAIR, RadioStuckError),
        (bluez("NotReady"), CONNECT, AdapterOffError),
        (bluez("AuthenticationFailed"), PAIR, NotInPairingModeError),
        (bluez("AuthenticationRejected"), PAIR, PairingRefusedError),
        (bluez("AuthenticationFailed"), CONNECT, BondLostError),
        (bluez("NotPermitted", "Notify acquired"), TALK, BluetoothError),
        (BleakDBusError("org.freedesktop.DBus.Error.UnknownObject", [""]), CONNECT, OutOfRangeError),
        (BleakGATTProtocolError(BleakGATTProtocolErrorCode.INVALID_HANDLE), TALK, ServicesChangedError),
        (BleakCharacteristicNotFoundError("2a00"), TALK, ServicesChangedError),
        (BleakGATTProtocolError(BleakGATTProtocolErrorCode.INSUFFICIENT_AUTHENTICATION), TALK, BondLostError),
        (BleakGATTProtocolError(BleakGATTProtocolErrorCode.INSUFFICIENT_ENCRYPTION), TALK, BondLostError),
        (TimeoutError(), TALK, LinkTimeoutError),
        (TimeoutError(), CONNECT, PeerBusyError),
    ],
)
def test_each_has_its_own(err: Exception, attempt: Attempt, kind: type[IntegrationError]) -> None:
    assert type(translate(err, attempt)) is kind


def test_what_a_person_has_to_decide_is_never_tried_again() -> None:
    for err, attempt in [
        (bluez("AuthenticationFailed"), PAIR),
        (bluez("AuthenticationRejected"), PAIR),
        (BleakGATTProtocolError(BleakGATTProtocolErrorCode.INSUFFICIENT_AUTHENTICATION), TALK),
    ]:
        assert not translate(err, attempt).retryable
