"""All kinds of records that this version knows, and how long each is kept."""

from __future__ import annotations

from typing import Any

from core.telemetry.alert import ALERT, ALERT_ANSWER
from core.telemetry.blades import BLADE_CARE, BLADE_CHANGE
from core.telemetry.health_day import HEALTH_DAY
from core.telemetry.records import RecordKind
from core.telemetry.session import SESSION

RECORD_KINDS: dict[str, RecordKind[Any]] = {
    kind.name: kind for kind in (ALERT, ALERT_ANSWER, BLADE_CARE, BLADE_CHANGE, HEALTH_DAY, SESSION)
}
"""By name. Records of another name are kept limits.RECORD_RETENTION."""
