"""What can be set for a simulator entry: the schema that checks it and the typed values made of it.

`data` and `options` of an entry are read as one mapping; an option wins over data of the same name.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import voluptuous as vol

from core.domain.errors import EntryError
from core.domain.geo import GeoPoint, Plane, PlanePoint
from core.platform.integration import Entry
from integrations.simulator.lawn import DEPTH_M
from integrations.simulator.models import CAPABILITIES, DEFAULT_MODEL

SEED_MAX = 999_999
REPORT_INTERVAL_MIN_S = 0.05
"""Twenty states a second: well below what the box takes for a flood."""
_PARK = GeoPoint(lat=52.5106, lon=13.3460)
"""The Tiergarten in Berlin. Entries without an origin have their gardens there, in rows by their seed."""
_ROWS = 15
_ROW_M = DEPTH_M + 8.0
DEFAULT_NAME = "Simulated mower"
DEFAULT_STUCK_PER_HOUR = 0.5
_NUMBER = vol.Any(int, float)


def _finite(value: float) -> float:
    if isinstance(value, bool) or not math.isfinite(value):
        raise vol.Invalid("expected a number")
    return float(value)


def _whole(value: int) -> int:
    if isinstance(value, bool):
        raise vol.Invalid("expected an integer")
    return value


def number(minimum: float, maximum: float) -> vol.All:
    """A finite number within bounds; never a text, never a truth value."""
    return vol.All(_NUMBER, _finite, vol.Range(min=minimum, max=maximum))


def whole(minimum: int, maximum: int) -> vol.All:
    """An integer within bounds."""
    return vol.All(int, _whole, vol.Range(min=minimum, max=maximum))


def zone(name: str) -> tzinfo:
    """The time zone of that name; vol.Invalid for one that this computer does not know."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError) as err:  # not found, not a key, broken data
        raise vol.Invalid("unknown_time_zone") from err


def _zone_name(name: str) -> str:
    zone(name)
    return name


CONNECTION_SCHEMA = vol.Schema(
    {
        vol.Optional("seed"): whole(0, SEED_MAX),
        vol.Optional("name", default=DEFAULT_NAME): vol.All(str, vol.Strip, vol.Length(min=1, max=64)),
        vol.Optional("model", default=DEFAULT_MODEL): vol.In(sorted(CAPABILITIES)),
        vol.Optional("mowers", default=1): whole(1, 10),
        vol.Optional("origin"): {
            vol.Required("lat"): number(-80, 80),
            vol.Required("lon"): number(-180, 180),
        },
        vol.Optional("time_scale", default=1.0): number(0.1, 1000),
        vol.Optional("start_battery", default=100): number(0, 100),
        vol.Optional("rain", default=False): bool,
        vol.Optional("trouble", default=False): bool,
        vol.Optional("stuck_per_hour", default=DEFAULT_STUCK_PER_HOUR): number(0, 60),
        vol.Optional("follow_schedule", default=False): bool,
        vol.Optional("time_zone", default="UTC"): vol.All(str, _zone_name),
        vol.Optional("report_interval_s", default=1.0): number(REPORT_INTERVAL_MIN_S, 60),
    }
)
"""Also what a relay may send as `connection` to have a box add a simulator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatorSettings:
    """The checked values. Without a seed of its own an entry gets one from its id, so it stays the same."""

    seed: int
    name: str
    model: str
    mowers: int
    origin: GeoPoint
    time_scale: float
    start_battery: float
    has_rain: bool
    stuck_per_hour: float
    """0 unless `trouble` is set."""
    follows_schedule: bool
    time_zone: tzinfo
    report_interval_s: float

    @classmethod
    def of(cls, entry: Entry) -> SimulatorSettings:
        """The settings of an entry; EntryError names what is wrong with it."""
        try:
            values: dict[str, Any] = CONNECTION_SCHEMA({**entry.data, **entry.options})
        except vol.Invalid as err:
            raise EntryError(f"simulator: {err}") from err
        seed = values.get("seed", zlib.crc32(entry.entry_id.encode()) % (SEED_MAX + 1))
        origin = values.get("origin")
        return cls(
            seed=seed,
            name=values["name"],
            model=values["model"],
            mowers=values["mowers"],
            origin=_place_in_park(seed) if origin is None else GeoPoint(lat=origin["lat"], lon=origin["lon"]),
            time_scale=values["time_scale"],
            start_battery=values["start_battery"],
            has_rain=values["rain"],
            stuck_per_hour=values["stuck_per_hour"] if values["trouble"] else 0.0,
            follows_schedule=values["follow_schedule"],
            time_zone=zone(values["time_zone"]),
            report_interval_s=values["report_interval_s"],
        )


def _place_in_park(seed: int) -> GeoPoint:
    """The row of a seed, so that the gardens of several entries lie side by side and not on each other."""
    return Plane(_PARK).unproject(PlanePoint(east_m=0.0, north_m=seed % _ROWS * _ROW_M))


def serial_of(seed: int, index: int) -> str:
    """The serial of the mower `index` (from 0) of an entry with that seed."""
    return f"SIM-{seed:06d}-{index + 1:02d}"
