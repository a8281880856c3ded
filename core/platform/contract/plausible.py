"""What every state has to hold by itself, whichever mower it is from."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from core.domain.clock import SystemClock
from core.domain.mower import MowerState, Position
from core.platform.contract.breach import require


def require_plausible(state: MowerState, now: datetime | None = None) -> None:
    """BreachError for a state that no mower can be in, or that does not survive JSON. `now`: that of another clock than
    the system's."""
    require(state.observed_at.utcoffset() == timedelta(0), "observed_at is not aware UTC")
    require(state.observed_at <= (now or SystemClock().now()), "observed_at lies in the future")
    _within("battery_percent", state.battery_percent, 0, 100)
    _within("progress_percent", state.progress_percent, 0, 100)
    _within("speed_mps", state.speed_mps, 0, 5)
    _within("satellites", state.satellites, 0, 99)
    if state.position is not None:
        _require_place(state.position)
    again = msgspec.json.decode(msgspec.json.encode(state), type=MowerState)
    require(again == state, "the state does not survive JSON")


def _require_place(position: Position) -> None:
    lat, lon = position.lat, position.lon
    require((lat is None) == (lon is None), "a position with half a place")
    has_xy = position.x_m is not None and position.y_m is not None and position.frame
    require(lat is not None or has_xy, "a position without a place")
    _within("lat", lat, -90, 90)
    _within("lon", lon, -180, 180)
    require((lat, lon) != (0.0, 0.0), "no position is None, not (0, 0)")
    _within("heading_deg", position.heading_deg, 0, 360)
    require(position.heading_deg != 360, "heading_deg: north is 0, not 360")
    require(position.accuracy_m is None or position.accuracy_m >= 0, "accuracy_m is below 0")


def _within(name: str, value: float | None, minimum: float, maximum: float) -> None:
    """NaN is outside of everything."""
    require(value is None or minimum <= value <= maximum, f"{name} is {value}, not {minimum} to {maximum}")
