"""The mower's own frame and where it lies on the earth.

The mower counts metres from a datum (usually its base station): x to the right, y ahead, heading from x
counter-clockwise. With a datum in the entry they become degrees; without one they stay metres in the frame `ardumower`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from core.domain.geo import GeoPoint, Plane, PlanePoint

FRAME = "ardumower"
FARTHEST_M = 20_000.0
"""What is farther from the datum is no lawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFrame:
    """`datum` is the place of (0, 0); `rotation_deg` how far the y axis points clockwise from true north."""

    datum: GeoPoint | None = None
    rotation_deg: float = 0.0

    def place(self, x_m: float, y_m: float) -> GeoPoint | None:
        """Degrees, when the datum is known."""
        if self.datum is None:
            return None
        turn = math.radians(self.rotation_deg)
        east_m = x_m * math.cos(turn) + y_m * math.sin(turn)
        north_m = -x_m * math.sin(turn) + y_m * math.cos(turn)
        return Plane(self.datum).unproject(PlanePoint(east_m=east_m, north_m=north_m))

    def heading_deg(self, heading_rad: float) -> float | None:
        """Clockwise from true north, 0 to below 360; None without a datum, for then north is not known."""
        if self.datum is None:
            return None
        heading = (90.0 - math.degrees(heading_rad) + self.rotation_deg) % 360.0
        return 0.0 if heading >= 360.0 else heading
