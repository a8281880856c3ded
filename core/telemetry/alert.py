"""Alerts: something about a mower that a person should know, from when it began until it is over.

An alert is a record of the host that made it (the box; for a box that is away, the relay). What people answer is a
record of its own, entered on either side like a change of blades: so an answer is never overwritten by news of the
alert, nor the other way round, and what was acknowledged or closed anywhere stays so.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal

import msgspec

from core.domain.ids import MowerId
from core.telemetry.records import RecordKind
from core.telemetry.rows import RecordRow

EVIDENCE_FIRST, EVIDENCE_NEWEST = 4, 8
"""Of the evidence, how it began and how it is now are kept."""
KEEP = timedelta(days=365)


class AlertKind(StrEnum):
    """What is wrong."""

    STUCK = "stuck"
    ERROR = "error"
    OFFLINE = "offline"
    LEFT_AREA = "left_area"
    THEFT = "theft"
    SILENT = "silent"
    BLADES_DUE = "blades_due"
    BATTERY_AGEING = "battery_ageing"
    DISK = "disk"
    BOX_OFFLINE = "box_offline"


class Severity(StrEnum):
    """How soon a person should look."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was known at one instant; absent is unknown."""

    at: datetime
    verdict: str | None = None
    """Of a theft: what the signs together say."""
    signs: tuple[str, ...] = ()
    """Of a theft: `lifted`, `moved`, `outside`, `ble_lost`, `wifi_down`, `power_cut`, `flat`, `position_jump`."""
    activity: str | None = None
    battery_percent: int | None = None
    error_code: str | None = None
    error_class: str | None = None
    lat: float | None = None
    lon: float | None = None
    accuracy_m: float | None = None
    distance_m: float | None = None
    """From where it stood, or outside of its areas."""
    free_percent: float | None = None
    used_h: float | None = None
    interval_h: float | None = None
    change_percent: float | None = None
    """Of the battery's endurance, per 30 days."""


class Alert(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One alert. It opens once, gathers evidence, and closes once."""

    alert_id: str
    kind: AlertKind
    cause: str
    """Of one mower, kind and cause at most one is open."""
    severity: Severity
    since: datetime
    """When the cause was first seen; `opened_at` is when it had lasted long enough to be told."""
    opened_at: datetime
    updated_at: datetime
    evidence: tuple[Evidence, ...] = ()
    closed_at: datetime | None = None
    closed_why: Literal["recovery", "person"] | None = None


class AlertAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Somebody has seen an alert, or has closed it; the record's `at` says when."""

    alert_id: str
    by: str
    note: str = ""


Step = Literal["ack", "close"]

ALERT = RecordKind(name="alert", body=Alert, keep=KEEP)
ALERT_ANSWER = RecordKind(name="alert_answer", body=AlertAnswer, keep=KEEP)


def key_of_answer(alert_id: str, step: Step) -> str:
    """The record's key; acknowledging and closing are two, so that neither takes the other back."""
    return f"{alert_id}-{step}"


def row_of(mower_id: MowerId, alert: Alert) -> RecordRow:
    """This version of the alert as a record."""
    return ALERT.make(mower_id, alert.alert_id, alert, at=alert.since, updated_at=alert.updated_at)


def with_evidence(alert: Alert, more: Evidence, severity: Severity, now: datetime) -> Alert:
    """The alert with one more piece of evidence; it never becomes less severe."""
    pieces = (*alert.evidence, more)
    if len(pieces) > EVIDENCE_FIRST + EVIDENCE_NEWEST:
        pieces = (*pieces[:EVIDENCE_FIRST], *pieces[-EVIDENCE_NEWEST:])
    return msgspec.structs.replace(
        alert, evidence=pieces, severity=graver(alert.severity, severity), updated_at=_later(alert, now)
    )


def closed(alert: Alert, why: Literal["recovery", "person"], now: datetime) -> Alert:
    """The alert at its end. One that is closed stays as it is."""
    if alert.closed_at is not None:
        return alert
    at = _later(alert, now)
    return msgspec.structs.replace(alert, closed_at=at, closed_why=why, updated_at=at)


def graver(one: Severity, other: Severity) -> Severity:
    """The more severe of two."""
    order = list(Severity)
    return max(one, other, key=order.index)


def _later(alert: Alert, now: datetime) -> datetime:
    """A version is newer than the one before, whatever the wall clock does."""
    return max(now, alert.updated_at + timedelta(microseconds=1))
