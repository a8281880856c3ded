"""Rain that comes and goes, by the seed alone: what the mower does never changes the weather. Pure."""

from __future__ import annotations

import random
from dataclasses import dataclass

_DRY_S = 2.0 * 3_600.0
_RAIN_S = 20.0 * 60.0


@dataclass(slots=True)
class Weather:
    """Showers of some twenty minutes, one in about two hours; none at all unless `has_rain`."""

    dice: random.Random
    has_rain: bool
    is_raining: bool = False
    _left_s: float = -1.0

    def __post_init__(self) -> None:
        self._left_s = self._draw(_DRY_S)

    def pass_by(self, seconds: float) -> bool:
        """Time goes on; whether rain began or ended."""
        if not self.has_rain:
            return False
        self._left_s -= seconds
        if self._left_s > 0.0:
            return False
        self.is_raining = not self.is_raining
        self._left_s = self._draw(_RAIN_S if self.is_raining else _DRY_S)
        return True

    def turn(self, *, is_raining: bool) -> bool:
        """Somebody else decides about the weather; whether it changed."""
        changes = self.is_raining is not is_raining
        self.is_raining = is_raining
        return changes

    def _draw(self, mean_s: float) -> float:
        """At least a fifth of the mean, so that no shower is over before anybody saw it."""
        return mean_s * 0.2 + self.dice.expovariate(1.0 / (mean_s * 0.8))
