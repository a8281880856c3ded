"""The sums behind a mowing session, as they are kept and changed while it is open."""

from __future__ import annotations

import msgspec

from core.domain.clock import from_us
from core.telemetry.session import EndedBy, Session, SessionError, SessionStop
from core.telemetry.significance import Place

STOPS_MAX = 48


class SessionTally(msgspec.Struct, array_like=True):
    """See Session for the meaning of each sum. Changed in place."""

    spent_us: dict[str, int] = {}
    """By kind of time: mowing, driving, charging, docked, paused, error, unseen."""
    rain_us: int = 0
    areas_us: dict[str, int] = {}
    distance_mm: int | None = None
    mowing_mm: int | None = None
    progress_percent: float | None = None
    used_percent: int | None = None
    battery_min: int | None = None
    battery_max: int | None = None
    charges: int = 0
    errors: dict[str, int] = {}
    interruptions: int = 0
    stops: list[tuple[str, int, int]] = []

    def copied(self) -> SessionTally:
        """One that goes on changing by itself."""
        return msgspec.structs.replace(
            self,
            spent_us=dict(self.spent_us),
            areas_us=dict(self.areas_us),
            errors=dict(self.errors),
            stops=list(self.stops),
        )


class Standstill(msgspec.Struct, array_like=True):
    """A break that has begun, with the sums as they were then: what stands if the job does not go on."""

    at_us: int
    tally: SessionTally
    reason: str
    is_at_dock: bool
    outcome: EndedBy | None = None
    """How the session ends when the break proves to be its end; None: no word on that yet."""
    over_us: int | None = None
    """Since when it looks ended (at the dock)."""
    has_waited: bool = False
    """Whether it was said to go on at any time of this break."""
    was_sent_home: bool = False
    was_carried: bool = False
    """It stood in the garden with a fault, and then was at the dock."""


class Job(msgspec.Struct, array_like=True):
    """An open session."""

    started_us: int
    is_start_known: bool
    recorded_us: int
    tally: SessionTally
    standstill: Standstill | None = None
    worked_us: int = 0
    """When it last mowed."""
    battery_out: int | None = None
    """Last known percentage away from the dock."""
    was_raining: bool = False
    """As it was last said away from the dock."""
    anchor: Place | None = None
    """Where the way travelled was last counted up to."""
    recorded_reason: str | None = None
    """What it waited for in the newest version."""


class Seen(msgspec.Struct, frozen=True, array_like=True):
    """What one state must leave for the next."""

    at_us: int
    spends: str
    area: str | None
    is_mowing: bool
    is_at_dock: bool
    is_raining: bool
    is_charging: bool | None
    battery_percent: int | None
    error_code: str | None


class Course(msgspec.Struct, array_like=True):
    """All that sessions remember of one mower; kept with its latest state."""

    last_us: int = -1
    """Of the newest state, known or not."""
    seen: Seen | None = None
    """The newest state that said what the mower does."""
    is_lost: bool = False
    """Whether states since `seen` said nothing."""
    told: list[str] = []
    """Reasons to wait that this mower has ever given: from then on, its giving none means that there is none."""
    job: Job | None = None


def session_id_of(started_us: int) -> str:
    """Stable, and in order of time: 20260601T081530-250000 (UTC, microseconds last)."""
    return f"{from_us(started_us):%Y%m%dT%H%M%S-%f}"


def session_body(
    job: Job, tally: SessionTally, seen_us: int, *, ended_us: int | None = None, ended_by: EndedBy | None = None
) -> Session:
    """The session as it is recorded."""

    def spent(kind: str) -> float:
        return tally.spent_us.get(kind, 0) / 1_000_000

    is_open = ended_us is None
    return Session(
        session_id=session_id_of(job.started_us),
        started_at=from_us(job.started_us),
        is_start_known=job.is_start_known,
        seen_at=from_us(seen_us if ended_us is None else ended_us),
        ended_at=None if ended_us is None else from_us(ended_us),
        ended_by=ended_by,
        waits_for=job.standstill.reason if is_open and job.standstill is not None else None,
        mowing_s=spent("mowing"),
        driving_s=spent("driving"),
        charging_s=spent("charging"),
        docked_s=spent("docked"),
        paused_s=spent("paused"),
        error_s=spent("error"),
        unseen_s=spent("unseen"),
        rain_s=tally.rain_us / 1_000_000,
        areas={area: us / 1_000_000 for area, us in tally.areas_us.items()},
        distance_m=_metres(tally.distance_mm),
        mowing_distance_m=_metres(tally.mowing_mm),
        progress_percent=tally.progress_percent,
        battery_used_percent=None if tally.used_percent is None else max(0, tally.used_percent),
        battery_min_percent=tally.battery_min,
        battery_max_percent=tally.battery_max,
        charges=tally.charges,
        errors=tuple(SessionError(code=code, count=count) for code, count in tally.errors.items()),
        interruptions=tally.interruptions,
        stops=tuple(
            SessionStop(reason=reason, started_at=from_us(start_us), ended_at=from_us(end_us))
            for reason, start_us, end_us in tally.stops
        ),
    )


def _metres(way_mm: int | None) -> float | None:
    return None if way_mm is None else way_mm / 1000
