"""The error tree. Each class has a stable `code`, says whether trying again can help, and carries a hint.

MowdeckError
├── InvalidInputError            what a person or a peer sent is wrong; lists every mistake
│   ├── SettingsError            the same for settings and files of the operator
│   └── TooManyBinsError         a step that is too fine for the range; says which one fits
├── UnauthenticatedError         nobody, or a token that does not hold
├── ForbiddenError               may see it, may not do it
├── NotFoundError                not there, or not visible to the asker: the same answer
│   └── NoTelemetryYetError      visible, but has never reported
├── ConflictError                true, but not now: in use, already there, in the wrong state
├── RateLimitedError             too often; `retry_after_s`
├── LimitExceededError           a quota or a bound of the system
├── UnavailableError             a part that is needed is not there right now
│   └── NotPublishedError        a command could not be handed to the broker
├── IntegrationError             something about a plugin or a mower's link
│   ├── ManifestError            the folder's manifest is wrong
│   ├── RequirementMissingError  a library is not installed; says the command to run
│   ├── IntegrationLoadError     the folder does not import
│   ├── NotReadyError            set-up or link cannot come up yet; tried again
│   ├── LinkLostError            the connection ended
│   ├── LinkTimeoutError         no answer within the deadline
│   ├── FloodError               a link reported more than the intake takes
│   ├── AuthFailedError          credentials refused; a person has to act
│   │   └── NeedsPairingError        handed over by another box; its Bluetooth bond stayed there
│   ├── EntryError               set-up cannot work as it is configured
│   ├── WrongPinError            the mower refused its PIN; never tried again by itself
│   └── BluetoothError           something about the radio or a Bluetooth peer
│       ├── AdapterOffError          no usable adapter
│       ├── OutOfRangeError          not seen, or too weak to connect
│       ├── NoFreeSlotError          every connection of the adapter is in use
│       ├── NotInPairingModeError    the mower does not take a new bond now
│       ├── PairingRefusedError      the mower (or a person) said no
│       ├── BondLostError            one side has forgotten the other
│       ├── PeerBusyError            another phone or box is connected to it
│       ├── InterferenceError        the connection broke off while it came up: the radio is disturbed
│       ├── RadioStuckError          the system is still busy with an earlier attempt
│       └── ServicesChangedError     the mower's services are not those that are remembered of it
├── StorageError                 the database
│   ├── DatabaseNewerError       written by a newer version of Mowdeck
│   └── StorageFullError         no room left; recording goes on in memory
└── SyncError                    the wire between box and relay
    ├── MalformedMessageError    not what the format says
    └── SignatureError           not signed by the pinned relay
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self


class MowdeckError(Exception):
    """Root of all expected failures. `detail` is for a person; it never holds a secret."""

    code: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False
    hint: ClassVar[str] = "Look at the log of the service for this correlation id."

    def __init__(self, detail: str = "", *, hint: str | None = None) -> None:
        super().__init__(detail or type(self).__name__)
        self.detail = detail
        self.advice = hint if hint is not None else self.hint


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """One thing wrong with an input: where (a dotted path) and why."""

    field: str
    reason: str


class InvalidInputError(MowdeckError):
    code = "invalid-input"
    hint = "Correct the named fields and send it again."

    def __init__(self, detail: str = "", *, mistakes: tuple[Mistake, ...] = (), hint: str | None = None) -> None:
        text = detail or "; ".join(f"{m.field}: {m.reason}" for m in mistakes)
        super().__init__(text, hint=hint)
        self.mistakes = mistakes

    @classmethod
    def of(cls, field: str, reason: str) -> Self:
        """The error for one mistake."""
        return cls(mistakes=(Mistake(field=field, reason=reason),))


class SettingsError(InvalidInputError):
    code = "settings"
    hint = "Correct the settings named above; docs/settings.md lists them all."


class TooManyBinsError(InvalidInputError):
    code = "too-many-bins"
    hint = "Ask for a shorter range or the step named in the answer."

    def __init__(self, detail: str, *, fitting_step: str | None) -> None:
        super().__init__(detail)
        self.fitting_step = fitting_step


class UnauthenticatedError(MowdeckError):
    code = "unauthenticated"
    hint = "Sign in again."


class ForbiddenError(MowdeckError):
    code = "forbidden"
    hint = "Ask the owner of the account for the right."


class NotFoundError(MowdeckError):
    code = "not-found"
    hint = "Check the id; it may have been removed, or you may not be allowed to see it."


class NoTelemetryYetError(NotFoundError):
    code = "no-telemetry-yet"
    hint = "The mower is registered but has not reported. Check that its box is online."


class ConflictError(MowdeckError):
    code = "conflict"
    hint = "Look at the current state and decide again."


class RateLimitedError(MowdeckError):
    code = "rate-limited"
    retryable = True
    hint = "Wait and try again."

    def __init__(self, detail: str = "", *, retry_after_s: float) -> None:
        super().__init__(detail or f"try again in {retry_after_s:.0f} s")
        self.retry_after_s = retry_after_s


class LimitExceededError(MowdeckError):
    code = "limit-exceeded"
    hint = "Remove something first, or ask the operator to raise the limit."


class UnavailableError(MowdeckError):
    code = "unavailable"
    retryable = True
    hint = "Try again in a moment."


class NotPublishedError(UnavailableError):
    code = "not-published"
    hint = "The command did not leave the relay and will not run later. Send it again when the broker is back."


class IntegrationError(MowdeckError):
    code = "integration"
    hint = "Look at the integration's page and log."


class ManifestError(IntegrationError):
    code = "manifest"
    hint = "Correct the integration's manifest.json."


class RequirementMissingError(IntegrationError):
    code = "requirement-missing"
    hint = "Install the missing package with the command named above and start again."


class IntegrationLoadError(IntegrationError):
    code = "integration-load"
    hint = "The integration's folder does not import; its author has to correct it."


class NotReadyError(IntegrationError):
    code = "not-ready"
    retryable = True
    hint = "It is tried again by itself."

    def __init__(self, detail: str = "", *, retry_after_s: float | None = None) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class LinkLostError(IntegrationError):
    code = "link-lost"
    retryable = True
    hint = "It reconnects by itself."


class LinkTimeoutError(IntegrationError):
    code = "link-timeout"
    retryable = True
    hint = "It is tried again by itself."


class FloodError(IntegrationError):
    code = "flood"
    retryable = True
    hint = "The integration reports more than the box takes; the link is opened again after a pause."


class AuthFailedError(IntegrationError):
    code = "auth-failed"
    hint = "Sign in to the mower again; it is not tried again by itself."


class NeedsPairingError(AuthFailedError):
    code = "needs-pairing"
    hint = "Pair the mower with this box: mowdeck pair. Bluetooth bonds do not travel from box to box."


class EntryError(IntegrationError):
    code = "entry"
    hint = "Reconfigure or remove the entry."


class WrongPinError(IntegrationError):
    code = "wrong-pin"
    hint = "Enter the PIN of the mower again. After several wrong ones the mower may lock itself for a while."


class BluetoothError(IntegrationError):
    code = "bluetooth"
    retryable = True
    hint = "It is tried again by itself. If it goes on, move the box or an ESPHome Bluetooth proxy closer."


class AdapterOffError(BluetoothError):
    code = "bluetooth-adapter-off"
    hint = "Switch the Bluetooth adapter on (bluetoothctl power on), or add a proxy."


class OutOfRangeError(BluetoothError):
    code = "bluetooth-out-of-range"
    hint = "The mower is too far away or asleep. Move the box or a proxy closer, or wake the mower."


class NoFreeSlotError(BluetoothError):
    code = "bluetooth-no-free-slot"
    hint = "Every connection of the adapter is in use; it waits for one."


class NotInPairingModeError(BluetoothError):
    code = "bluetooth-not-in-pairing-mode"
    retryable = False
    hint = "Bring the mower into pairing mode (often: switch it off and on again) and try once more."


class PairingRefusedError(BluetoothError):
    code = "bluetooth-pairing-refused"
    retryable = False
    hint = "The mower refused to pair. Remove this box from the mower's paired devices and try again."


class BondLostError(BluetoothError):
    code = "bluetooth-bond-lost"
    retryable = False
    hint = "Pair the mower again."


class PeerBusyError(BluetoothError):
    code = "bluetooth-peer-busy"
    hint = "Close the vendor's app on every phone nearby: the mower takes one connection at a time."


class InterferenceError(BluetoothError):
    code = "bluetooth-interference"
    hint = (
        "The radio was disturbed; it is tried again by itself. If it happens often: use a network cable or 5 GHz Wi-Fi on "
        "the box, or a USB Bluetooth dongle on an extension lead."
    )


class RadioStuckError(BluetoothError):
    code = "bluetooth-stuck"
    hint = (
        "The system's Bluetooth is still busy with an earlier attempt. The box clears that and tries again by itself."
    )


class ServicesChangedError(BluetoothError):
    code = "bluetooth-services-changed"
    hint = (
        "The mower is asked for its services anew at the next connection. If it goes on, its firmware may be too new."
    )


class StorageError(MowdeckError):
    code = "storage"
    retryable = True
    hint = "Check the disk."


class DatabaseNewerError(StorageError):
    code = "database-newer"
    retryable = False
    hint = "Install the version of Mowdeck that wrote this database, or restore a backup."


class StorageFullError(StorageError):
    code = "storage-full"
    hint = "Free some space; recording goes on by itself."


class SyncError(MowdeckError):
    code = "sync"
    hint = "Compare the versions of box and relay."


class MalformedMessageError(SyncError):
    code = "malformed-message"


class SignatureError(SyncError):
    code = "signature"
    hint = "The box only obeys the relay it was linked to. Link it again if the relay was moved."
