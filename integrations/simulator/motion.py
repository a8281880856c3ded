"""The wheels: a pose that follows a line, turning on the spot at corners; or that obeys a joystick. Pure."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from integrations.simulator.lawn import Garden
from integrations.simulator.shapes import Point, distance, heading_deg

TURN_DPS = 100.0
"""Degrees per second on the spot."""
_GENTLE_DEG = 25.0
"""Bends up to this are driven without stopping."""


@dataclass(slots=True)
class Wheels:
    """Where the machine is and the line that it follows. `way` holds the places still to pass."""

    at: Point
    heading: float
    way: deque[Point] = field(default_factory=deque)
    is_backwards: bool = False
    speed_mps: float = 0.0
    """Of the last step."""

    def take(self, way: tuple[Point, ...], *, is_backwards: bool = False) -> None:
        self.way = deque(way)
        self.is_backwards = is_backwards

    def stand(self) -> None:
        """Stop; the way is kept."""
        self.speed_mps = 0.0

    def follow(self, seconds: float, pace_mps: float) -> float:
        """Drives along the way for `seconds`; the metres that it made. Ends early at the end of the way."""
        left_s, metres = seconds, 0.0
        while self.way and left_s > 1e-9:
            target = self.way[0]
            gap = distance(self.at, target)
            if gap < 1e-6:
                self.way.popleft()
                continue
            left_s = self._turn_towards(heading_deg(self.at, target), left_s)
            step = min(gap, left_s * pace_mps)
            if step <= 0.0:
                break
            share = step / gap
            if share >= 1.0:
                self.at = target
                self.way.popleft()
            else:
                self.at = (
                    self.at[0] + (target[0] - self.at[0]) * share,
                    self.at[1] + (target[1] - self.at[1]) * share,
                )
            metres += step
            left_s -= step / pace_mps
        self.speed_mps = metres / seconds
        return metres

    def _turn_towards(self, wanted: float, left_s: float) -> float:
        """Turns; the seconds that are left afterwards."""
        if self.is_backwards:
            wanted = (wanted + 180.0) % 360.0
        bend = (wanted - self.heading + 180.0) % 360.0 - 180.0
        if abs(bend) <= _GENTLE_DEG:
            self.heading = wanted
            return left_s
        needed_s = abs(bend) / TURN_DPS
        if needed_s <= left_s:
            self.heading = wanted
            return left_s - needed_s
        self.heading = (self.heading + math.copysign(TURN_DPS * left_s, bend)) % 360.0
        return 0.0

    def steer(self, garden: Garden, seconds: float, speed_mps: float, turn_dps: float) -> tuple[float, bool]:
        """Drives by hand for `seconds`; the metres made, and whether something was in the way (then it stands)."""
        self.heading = (self.heading + turn_dps * seconds) % 360.0
        step = speed_mps * seconds
        angle = math.radians(self.heading)
        there = (self.at[0] + step * math.sin(angle), self.at[1] + step * math.cos(angle))
        if not garden.is_free(there):
            self.speed_mps = 0.0
            return 0.0, True
        self.at = there
        self.speed_mps = abs(speed_mps)
        return abs(step), False
