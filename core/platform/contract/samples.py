"""Commands to try on a mower: one of each kind, and what lies beyond its limits."""

from __future__ import annotations

from core.domain import commands
from core.domain.capabilities import Capabilities
from core.domain.commands import Command
from core.domain.mower import MowerDescription


def sample_commands(capabilities: Capabilities, mower: MowerDescription) -> list[Command]:
    """One of each command, in an order in which they make sense; some need more than this mower can do."""
    areas = (mower.areas[0].area_id,) if mower.areas else ()
    takes_areas = capabilities.start_mow is not None and capabilities.start_mow.takes_areas
    height, speed = capabilities.set_blade_height, capabilities.set_speed
    window = commands.ScheduleWindow(weekday=2, start_minute=600, end_minute=660, area_ids=areas if takes_areas else ())
    return [
        commands.SetBladeHeight(height_mm=0.0 if height is None else height.maximum),
        commands.SetSpeed(speed_mps=0.3 if speed is None else speed.minimum),
        commands.SetSchedule(windows=(window,)),
        commands.SkipNext(),
        commands.FindMower(),
        commands.ResetBladeUsage(),
        commands.StartMow(area_ids=areas if takes_areas else ()),
        commands.PauseMow(),
        commands.ResumeMow(),
        commands.EmergencyStop(),
        *_spot(capabilities, mower),
        commands.EmergencyStop(),
        commands.ManualDrive(),
        commands.ReturnToDock(),
    ]


def _spot(capabilities: Capabilities, mower: MowerDescription) -> list[Command]:
    """The middle of the first area, when the mower says where its areas are."""
    ring = mower.areas[0].ring if mower.areas else ()
    if not ring:
        return []
    radius_m = 1.0 if capabilities.mow_spot is None else min(1.0, capabilities.mow_spot.max_radius_m)
    lat, lon = (sum(corner[axis] for corner in ring) / len(ring) for axis in (0, 1))
    return [commands.MowSpot(lat=lat, lon=lon, radius_m=radius_m)]


def beyond(capabilities: Capabilities) -> list[Command]:
    """Commands whose values are outside of what the mower takes."""
    found: list[Command] = []
    if (height := capabilities.set_blade_height) is not None:
        found += [commands.SetBladeHeight(height_mm=value) for value in (height.maximum + 50, -1.0, float("nan"))]
    if (speed := capabilities.set_speed) is not None:
        found += [commands.SetSpeed(speed_mps=value) for value in (speed.maximum + 5, -1.0, float("inf"))]
    if (spot := capabilities.mow_spot) is not None:
        found.append(commands.MowSpot(lat=0.0, lon=0.0, radius_m=spot.max_radius_m * 10))
    if capabilities.start_mow is not None:
        found.append(commands.StartMow(duration_s=-5))
        if capabilities.start_mow.takes_areas:
            found.append(commands.StartMow(area_ids=("no-such-area",)))
    return found
