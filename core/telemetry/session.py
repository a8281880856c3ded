"""One mowing session as it is recorded: the body of `session` records. The key is the session's id.

Only the box that has the mower writes it, while the session is open and once more when it ends.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from core.telemetry.records import RecordKind


class EndedBy(StrEnum):
    """How a session ended."""

    DOCKED = "docked"
    """It went home, and nothing said that it would go on."""
    SENT_HOME = "sent_home"
    """A command through Mowdeck sent it home."""
    NOT_RESUMED = "not_resumed"
    """It went home to charge or from the rain, and did not go on for hours."""
    ERROR = "error"
    """A fault stopped it, and it did not go on."""
    LEFT_STANDING = "left_standing"
    """It was stopped in the garden without a fault, and did not go on for hours."""
    SILENCE = "silence"
    """Nothing was heard of it for hours."""


class SessionError(msgspec.Struct, frozen=True, kw_only=True):
    """How often a fault began during the session."""

    code: str
    count: int


class SessionStop(msgspec.Struct, frozen=True, kw_only=True):
    """A break after which the session went on. `reason`: charging, rain, docked (why is not known), error, paused."""

    reason: str
    started_at: datetime
    ended_at: datetime


class Session(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One mowing job from leaving to docking. Every second from `started_at` to `ended_at` (while it is open: to
    `seen_at`) is in exactly one of mowing, driving, charging, docked, paused, error and unseen."""

    session_id: str
    started_at: datetime
    is_start_known: bool
    """False: it was out already when it was first heard; the session may have begun earlier."""
    seen_at: datetime
    """Counted up to here."""
    ended_at: datetime | None = None
    """None: it goes on, as far as is known at `seen_at`."""
    ended_by: EndedBy | None = None
    waits_for: str | None = None
    """Open and standing: charging, rain, docked (why is not known), error, paused."""
    mowing_s: float = 0.0
    driving_s: float = 0.0
    charging_s: float = 0.0
    docked_s: float = 0.0
    """At the dock without charging."""
    paused_s: float = 0.0
    error_s: float = 0.0
    unseen_s: float = 0.0
    """Nothing was known of what it did."""
    rain_s: float = 0.0
    """While it rained, as the mower says; overlaps the others."""
    areas: dict[str, float] = {}
    """Seconds of mowing by area id; `""` where none was told, or beyond the 24th area."""
    distance_m: float | None = None
    """The way in all, None: no two positions were known."""
    mowing_distance_m: float | None = None
    """The way while mowing with the blades not known to stand. Times the cutting width it is the area that was swept;
    how far lanes overlap is unknown, so it is no covered area."""
    progress_percent: float | None = None
    """The mower's own last word on the job, or on the area that it was in."""
    battery_used_percent: int | None = None
    """Percentage points taken from the battery, summed over all charges; None: no percentage was known."""
    battery_min_percent: int | None = None
    battery_max_percent: int | None = None
    charges: int = 0
    errors: tuple[SessionError, ...] = ()
    interruptions: int = 0
    """Breaks after which it went on; the first 48 are in `stops`."""
    stops: tuple[SessionStop, ...] = ()


SESSION = RecordKind(name="session", body=Session)
