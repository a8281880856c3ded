"""The only bridge between the machine's words (`wire.py`) and the domain. Pure.

Machine metres are of the plot; `Frame` places the plot on the earth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from core.domain import commands, events
from core.domain.commands import Command
from core.domain.events import MowerEvent
from core.domain.geo import GeoPoint, Plane, PlanePoint
from core.domain.mower import (
    Activity,
    Area,
    BladeHeight,
    Connectivity,
    ErrorClass,
    LinkKind,
    MowerError,
    MowerState,
    Position,
    RtkFix,
    RtkSource,
    Signals,
    Totals,
)
from integrations.simulator import wire
from integrations.simulator.lawn import SPACING_M, Patch
from integrations.simulator.models import FIRMWARE
from integrations.simulator.shapes import Point
from integrations.simulator.troubles import CONFIRMABLE
from integrations.simulator.wire import Fault, Fix, Happening, Order, Phase, Reading, Wait

ACTIVITIES = {
    Phase.PARKED: Activity.DOCKED,
    Phase.CHARGING: Activity.CHARGING,
    Phase.UNDOCKING: Activity.LEAVING,
    Phase.CUTTING: Activity.MOWING,
    Phase.HOMING: Activity.RETURNING,
    Phase.HALTED: Activity.PAUSED,
    Phase.STANDBY: Activity.IDLE,
    Phase.FAULT: Activity.ERROR,
    Phase.REMOTE: Activity.MANUAL,
}
FIXES = {Fix.NONE: RtkFix.NONE, Fix.SINGLE: RtkFix.SINGLE, Fix.FLOAT: RtkFix.FLOAT, Fix.FIXED: RtkFix.FIXED}
FAULTS = {
    Fault.STUCK: (ErrorClass.STUCK, "The mower is stuck."),
    Fault.LIFTED: (ErrorClass.LIFTED, "The mower was lifted."),
    Fault.BLADES_BLOCKED: (ErrorClass.BLADES, "Something blocks the blades."),
    Fault.BATTERY_EMPTY: (ErrorClass.BATTERY, "The battery is empty."),
    Fault.NO_WAY: (ErrorClass.TRAPPED, "The mower finds no way."),
}
RESTRICTIONS = {Wait.BATTERY: "charging", Wait.RAIN: "rain"}
_DEGREES = 8
"""Digits of latitude and longitude: 1 mm."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Places a plot: `index` plots of SPACING_M lie between the entry's origin and its south-west corner."""

    plane: Plane
    index: int

    def to_earth(self, point: Point) -> tuple[float, float]:
        """Metres of the plot to (lat, lon)."""
        east = point[0] + self.index * SPACING_M
        geo = self.plane.unproject(PlanePoint(east_m=east, north_m=point[1]))
        return round(geo.lat, _DEGREES), round(geo.lon, _DEGREES)

    def to_plot(self, lat: float, lon: float) -> Point:
        """(lat, lon) to metres of the plot."""
        there = self.plane.project(GeoPoint(lat=lat, lon=lon))
        return there.east_m - self.index * SPACING_M, there.north_m


def area_of(patch: Patch, frame: Frame, number: int) -> Area:
    """A mowing area; the machine knows it by its number."""
    return Area(
        area_id=patch.area_id,
        name=patch.name,
        ring=tuple(frame.to_earth(corner) for corner in patch.ring),
        vendor_id=str(number),
    )


def state_of(
    reading: Reading,
    frame: Frame,
    *,
    observed_at: datetime,
    error_since: datetime | None,
    next_start_at: datetime | None,
) -> MowerState:
    """What the machine shows, as a state. `error_since` is when its fault began."""
    return MowerState(
        observed_at=observed_at,
        activity=ACTIVITIES.get(reading.phase, Activity.UNKNOWN),
        connectivity=Connectivity.ONLINE,
        battery_percent=int(reading.battery),
        is_charging=reading.phase is Phase.CHARGING,
        error=None if reading.fault is None else _error_of(reading.fault, error_since),
        restricted_reason=None if reading.waits_for is None else RESTRICTIONS[reading.waits_for],
        position=_position_of(reading, frame),
        rtk_fix=FIXES.get(reading.fix, RtkFix.UNKNOWN),
        rtk_source=RtkSource.BASE if reading.fix in {Fix.FLOAT, Fix.FIXED} else RtkSource.NONE,
        satellites=reading.satellites,
        speed_mps=round(reading.speed_mps, 2),
        blades_on=reading.blades_on,
        blade_height=BladeHeight(value=reading.blade_height_mm),
        current_area=reading.patch,
        progress_percent=None if reading.patch is None else _percent(reading.progress.get(reading.patch)),
        next_start_at=next_start_at,
        is_override=None if reading.is_by_plan is None else not reading.is_by_plan,
        is_raining=reading.is_raining,
        signals=Signals(wifi_dbm=reading.wifi_dbm, active_link=LinkKind.SIM),
        totals=_totals_of(reading.counters),
        firmware=FIRMWARE,
        raw=_raw_of(reading),
    )


def _error_of(fault: Fault, since: datetime | None) -> MowerError:
    error_class, text = FAULTS.get(fault, (ErrorClass.UNKNOWN, None))
    return MowerError(
        code=fault.value, error_class=error_class, text=text, since=since, is_confirmable=fault in CONFIRMABLE
    )


def _position_of(reading: Reading, frame: Frame) -> Position | None:
    if reading.seen_at is None:
        return None
    lat, lon = frame.to_earth(reading.seen_at)
    return Position(lat=lat, lon=lon, heading_deg=round(reading.heading_deg, 1) % 360.0, accuracy_m=reading.accuracy_m)


def _percent(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _totals_of(counters: wire.Counters) -> Totals:
    """Times in whole minutes, as mowers count them."""

    def minutes(seconds: float) -> int:
        return int(seconds // 60.0) * 60

    return Totals(
        mowing_s=minutes(counters.cutting_s),
        running_s=minutes(counters.running_s),
        charging_s=minutes(counters.charging_s),
        blades_s=minutes(counters.blades_s),
        distance_m=int(counters.distance_m),
        charge_cycles=counters.charges,
        collisions=counters.bumps,
    )


def _raw_of(reading: Reading) -> dict[str, str]:
    raw = {
        "phase": reading.phase.value,
        "target_speed_mps": f"{reading.target_speed_mps:g}",
        "blade_wear_s": str(int(reading.counters.blade_wear_s // 60.0) * 60),
        "plan_windows": str(len(reading.plan)),
    }
    raw.update({f"progress.{patch}": f"{percent:.0f}" for patch, percent in reading.progress.items()})
    if reading.fault is not None:
        raw["fault"] = reading.fault.value
    if reading.waits_for is not None:
        raw["waits_for"] = reading.waits_for.value
    if reading.skips_next:
        raw["skips_next"] = "yes"
    if reading.is_beeping:
        raw["beeper"] = "on"
    return raw


def event_of(happening: Happening, at: datetime) -> MowerEvent:
    """What the machine tells, as a past fact."""
    match happening:
        case wire.FaultRaised(fault=fault):
            error_class, text = FAULTS.get(fault, (ErrorClass.UNKNOWN, None))
            return events.ErrorRaised(at=at, code=fault.value, error_class=error_class, text=text)
        case wire.FaultCleared(fault=fault):
            return events.ErrorCleared(at=at, code=fault.value)
        case wire.JobStarted(patches=patches):
            return events.MowingStarted(at=at, area_ids=patches)
        case wire.JobEnded(reason=reason):
            return events.MowingFinished(at=at, reason=reason)
        case wire.DockReached():
            return events.Docked(at=at)
        case wire.RainChanged(is_raining=is_raining):
            return events.RainBegan(at=at) if is_raining else events.RainEnded(at=at)
        case wire.Notice(code=code, text=text):
            return events.VendorMessage(at=at, code=code, text=text)
        case _:
            assert_never(happening)


_PLAIN: dict[type[Command], Order] = {
    commands.PauseMow: wire.Halt(),
    commands.ResumeMow: wire.GoOn(),
    commands.ReturnToDock: wire.GoHome(),
    commands.SkipNext: wire.SkipWindow(),
    commands.ConfirmError: wire.ClearFault(),
    commands.ResetBladeUsage: wire.NewBlades(),
    commands.FindMower: wire.Beep(),
    commands.ManualDrive: wire.TakeRemote(),
    commands.EmergencyStop: wire.KillSwitch(),
}
"""Commands without parameters."""


def order_of(command: Command, frame: Frame) -> Order:
    """The order for a command whose values are within the capabilities."""
    match command:
        case commands.StartMow(area_ids=area_ids, duration_s=duration_s):
            return wire.Cut(patches=area_ids, limit_s=duration_s)
        case commands.MowSpot(lat=lat, lon=lon, radius_m=radius_m):
            return wire.CutSpot(centre=frame.to_plot(lat, lon), radius_m=radius_m)
        case commands.SetBladeHeight(height_mm=height_mm):
            return wire.SetHeight(height_mm=height_mm)
        case commands.SetSpeed(speed_mps=speed_mps):
            return wire.SetPace(speed_mps=speed_mps)
        case commands.SetSchedule(windows=windows):
            return wire.SetPlan(windows=_plan_of(windows))
        case _:
            return _PLAIN[type(command)]


def _plan_of(windows: Sequence[commands.ScheduleWindow]) -> tuple[wire.PlanWindow, ...]:
    return tuple(
        wire.PlanWindow(
            weekday=window.weekday,
            start_minute=window.start_minute,
            end_minute=window.end_minute,
            patches=window.area_ids,
        )
        for window in windows
    )
