"""Past facts about a mower. A fact is never dropped in silence."""

from __future__ import annotations

from datetime import datetime

import msgspec

from core.domain.mower import ErrorClass


class _Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """Root of the tagged union; `at` is aware UTC."""

    at: datetime


class ErrorRaised(_Event, frozen=True, kw_only=True, tag="error_raised"):
    code: str
    error_class: ErrorClass = ErrorClass.UNKNOWN
    text: str | None = None


class ErrorCleared(_Event, frozen=True, kw_only=True, tag="error_cleared"):
    code: str


class MowingStarted(_Event, frozen=True, kw_only=True, tag="mowing_started"):
    area_ids: tuple[str, ...] = ()


class MowingFinished(_Event, frozen=True, kw_only=True, tag="mowing_finished"):
    reason: str = "done"


class Docked(_Event, frozen=True, kw_only=True, tag="docked"):
    pass


class RainBegan(_Event, frozen=True, kw_only=True, tag="rain_began"):
    pass


class RainEnded(_Event, frozen=True, kw_only=True, tag="rain_ended"):
    pass


class VendorMessage(_Event, frozen=True, kw_only=True, tag="vendor_message"):
    """A message of the mower that fits nowhere else, in the vendor's words."""

    code: str
    text: str | None = None


class AlertOpened(_Event, frozen=True, kw_only=True, tag="alert_opened"):
    """The box has an alert; what it saw is the record `alert_id`. `alert` is its kind."""

    alert_id: str
    alert: str
    severity: str


class AlertClosed(_Event, frozen=True, kw_only=True, tag="alert_closed"):
    alert_id: str
    alert: str


ReportedEvent = (
    ErrorRaised | ErrorCleared | MowingStarted | MowingFinished | Docked | RainBegan | RainEnded | VendorMessage
)


MowerEvent = ReportedEvent | AlertOpened | AlertClosed
"""Alerts are the host's own; the others are what links report."""


def kind_of(event: MowerEvent) -> str:
    """The event's tag, e.g. `error_raised`."""
    return str(type(event).__struct_config__.tag)
