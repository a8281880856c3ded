"""The rules: what one look at a mower says about each kind of alert. None of them does anything but look.

A rule that cannot tell says so: a mower that is out of reach is neither stuck nor free, and a position that is not
known is not outside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from core.domain.geo import GeoPoint, distance_m
from core.domain.mower import (
    AT_DOCK,
    MOVING,
    Activity,
    Area,
    Connectivity,
    ErrorClass,
    LinkKind,
    MowerState,
)
from core.telemetry.alert import AlertKind, Evidence, Severity
from core.telemetry.alert_tracks import Finding, Reading
from core.telemetry.fence import Fence, place_of
from core.telemetry.theft import MOVED, Surroundings, TheftSigns, Verdict, judge

STILL_M = 1.0
STILL_S = 290.0
"""It goes nowhere when it has been within STILL_M for so long; with the debounce that makes five minutes."""
FENCE_M = 5.0
FENCE_TRAVEL_M = 30.0
"""The margin while it leaves, returns or is driven by hand: the way to the dock need not lie in an area."""
FENCE_BACK_M = 2.0
"""It is back when it is this much inside of the margin."""
DISK_LOW_PERCENT, DISK_FINE_PERCENT = 5.0, 10.0
AGEING_PERCENT = -2.0
"""The battery lasts at least this much less per 30 days, also at the mild bound of its trend."""
AGEING_FINE_PERCENT = -1.0
PROGRESSING = frozenset({Activity.LEAVING, Activity.MOWING, Activity.RETURNING})
STUCK_CLASSES = frozenset({ErrorClass.STUCK, ErrorClass.TRAPPED})
GRAVE = frozenset({ErrorClass.LIFTED, ErrorClass.TILTED, ErrorClass.SECURITY, ErrorClass.BATTERY})
MILD = frozenset({ErrorClass.RAIN})


@dataclass(frozen=True, slots=True, kw_only=True)
class Wear:
    """From the mower's days of health; None is unknown."""

    blades_used_h: float | None = None
    blades_interval_h: float | None = None
    endurance_change_percent: float | None = None
    """Of the battery, per 30 days, at the mild bound (95 %)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at a mower and what is around it."""

    state: MowerState
    now: datetime
    monotonic_s: float
    areas: tuple[Area, ...] = ()
    around: Surroundings = field(default_factory=Surroundings)
    wear: Wear | None = None
    free_percent: float | None = None

    @property
    def is_online(self) -> bool:
        return self.state.connectivity is not Connectivity.OFFLINE

    def evidence(self) -> Evidence:
        """What the mower says now."""
        state = self.state
        position = state.position if self.is_online else None
        return Evidence(
            at=self.now,
            activity=state.activity.value,
            battery_percent=state.battery_percent,
            error_code=None if state.error is None else state.error.code,
            error_class=None if state.error is None else state.error.error_class.value,
            lat=None if position is None else position.lat,
            lon=None if position is None else position.lon,
            accuracy_m=None if position is None else position.accuracy_m,
        )


Rule = Callable[[Look], Sequence[Reading]]


def make_rules() -> tuple[Rule, ...]:
    """All rules for one mower; some remember what they saw."""
    return (StuckRule(), read_error, OfflineRule(), FenceRule(), TheftRule(), read_wear, read_disk)


class StuckRule:
    """It says that it goes, and does not; or it says that it is stuck."""

    def __init__(self) -> None:
        self._anchor: GeoPoint | None = None
        self._anchored_at_s = 0.0

    def __call__(self, look: Look) -> Sequence[Reading]:
        state = look.state
        if not look.is_online or state.activity is Activity.UNKNOWN:
            self._anchor = None
            return (Reading(kind=AlertKind.STUCK, causes=None),)
        causes = {}
        if state.error is not None and state.error.error_class in STUCK_CLASSES:
            causes[state.error.error_class.value] = Finding(severity=Severity.WARNING, evidence=look.evidence())
        if state.activity not in PROGRESSING:
            self._anchor = None
            return (Reading(kind=AlertKind.STUCK, causes=causes),)
        place = place_of(state)
        if place is None:
            self._anchor = None
            return (Reading(kind=AlertKind.STUCK, causes=causes or None),)
        here, accuracy_m = place
        if self._anchor is None or distance_m(self._anchor, here) > STILL_M + accuracy_m:
            self._anchor, self._anchored_at_s = here, look.monotonic_s
        elif look.monotonic_s - self._anchored_at_s >= STILL_S:
            causes["no_progress"] = Finding(severity=Severity.WARNING, evidence=look.evidence())
        return (Reading(kind=AlertKind.STUCK, causes=causes),)


def read_error(look: Look) -> Sequence[Reading]:
    """The mower's own word, except for being stuck."""
    error = look.state.error
    if not look.is_online:
        return (Reading(kind=AlertKind.ERROR, causes=None),)
    if error is None or error.error_class in STUCK_CLASSES:
        return (Reading(kind=AlertKind.ERROR, causes={}),)
    severity = Severity.CRITICAL if error.error_class in GRAVE else Severity.WARNING
    severity = Severity.INFO if error.error_class in MILD else severity
    return (Reading(kind=AlertKind.ERROR, causes={error.code: Finding(severity=severity, evidence=look.evidence())}),)


class OfflineRule:
    """Out of reach although it moved when it was last heard. What an old state says of now is unknown by itself, so
    the last word is remembered."""

    def __init__(self) -> None:
        self._last = Activity.UNKNOWN

    def __call__(self, look: Look) -> Sequence[Reading]:
        if look.state.activity is not Activity.UNKNOWN:
            self._last = look.state.activity
        if look.is_online:
            return (Reading(kind=AlertKind.OFFLINE, causes={}),)
        is_left_alone = look.around.is_ble_released and set(look.around.links) <= {LinkKind.BLE}
        if self._last not in MOVING or is_left_alone:
            return (Reading(kind=AlertKind.OFFLINE, causes=None),)
        evidence = msgspec.structs.replace(look.evidence(), activity=self._last.value)
        found = Finding(severity=Severity.WARNING, evidence=evidence)
        return (Reading(kind=AlertKind.OFFLINE, causes={"while_moving": found}),)


class FenceRule:
    """It is outside of all its areas, beyond a margin and beyond what its position may be wrong by."""

    def __init__(self) -> None:
        self._areas: tuple[Area, ...] = ()
        self._fence = Fence(())

    def __call__(self, look: Look) -> Sequence[Reading]:
        if look.areas is not self._areas:
            self._areas, self._fence = look.areas, Fence(look.areas)
        return (Reading(kind=AlertKind.LEFT_AREA, causes=self._causes(look)),)

    def _causes(self, look: Look) -> dict[str, Finding] | None:
        if not look.is_online:
            return None
        if look.state.activity in AT_DOCK:
            return {}
        place = place_of(look.state)
        outside_m = None if place is None else self._fence.outside_m(place[0])
        if place is None or outside_m is None:
            return None
        travels = look.state.activity in {Activity.LEAVING, Activity.RETURNING, Activity.MANUAL}
        margin_m, accuracy_m = FENCE_TRAVEL_M if travels else FENCE_M, place[1]
        if outside_m - accuracy_m > margin_m:
            evidence = msgspec.structs.replace(look.evidence(), distance_m=outside_m, accuracy_m=accuracy_m)
            return {"areas": Finding(severity=Severity.CRITICAL, evidence=evidence)}
        return {} if outside_m + accuracy_m <= margin_m - FENCE_BACK_M else None


class TheftRule:
    """It should stand and was lifted, moved, or fell silent."""

    def __init__(self) -> None:
        self._signs = TheftSigns()

    def __call__(self, look: Look) -> Sequence[Reading]:
        signs = self._signs.look(look.state, look.around, look.areas, look.monotonic_s)
        verdict = Verdict.QUIET if signs is None else judge(signs)
        can_tell = look.is_online and self._signs.is_accounted
        moved: dict[str, Finding] | None = {} if can_tell else None
        silent: dict[str, Finding] | None = {} if look.is_online and not look.around.is_ble_released else None
        if signs is not None:
            evidence = msgspec.structs.replace(
                look.evidence(), verdict=verdict.value, signs=signs.words(), distance_m=signs.moved_m
            )
            if verdict in MOVED:
                severity = Severity.WARNING if verdict is Verdict.PUSHED else Severity.CRITICAL
                moved = {"moved": Finding(severity=severity, evidence=evidence)}
            if verdict is Verdict.VANISHED:
                silent = {"silent": Finding(severity=Severity.WARNING, evidence=evidence)}
        return (Reading(kind=AlertKind.THEFT, causes=moved), Reading(kind=AlertKind.SILENT, causes=silent))


def read_wear(look: Look) -> Sequence[Reading]:
    """Blades that are due, and a battery that ages."""
    wear = look.wear or Wear()
    evidence = Evidence(
        at=look.now,
        used_h=wear.blades_used_h,
        interval_h=wear.blades_interval_h,
        change_percent=wear.endurance_change_percent,
    )
    blades: dict[str, Finding] | None = None
    if wear.blades_used_h is not None and wear.blades_interval_h is not None:
        is_due = wear.blades_used_h >= wear.blades_interval_h
        blades = {"blades": Finding(severity=Severity.INFO, evidence=evidence)} if is_due else {}
    battery: dict[str, Finding] | None = None
    change = wear.endurance_change_percent
    if change is not None and change <= AGEING_PERCENT:
        battery = {"battery": Finding(severity=Severity.INFO, evidence=evidence)}
    elif change is not None and change >= AGEING_FINE_PERCENT:
        battery = {}
    return (Reading(kind=AlertKind.BLADES_DUE, causes=blades), Reading(kind=AlertKind.BATTERY_AGEING, causes=battery))


def read_disk(look: Look) -> Sequence[Reading]:
    """The disk of the box that keeps the mower's telemetry."""
    free = look.free_percent
    causes: dict[str, Finding] | None = None
    if free is not None and free < DISK_LOW_PERCENT:
        evidence = Evidence(at=look.now, free_percent=free)
        causes = {"disk": Finding(severity=Severity.WARNING, evidence=evidence)}
    elif free is not None and free >= DISK_FINE_PERCENT:
        causes = {}
    return (Reading(kind=AlertKind.DISK, causes=causes),)
