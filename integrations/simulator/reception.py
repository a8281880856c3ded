"""What the antennas see by place: satellites, the quality of the fix, the wandering of the position, Wi-Fi. Pure.

The house wall and the crowns of trees hide the sky. The error of a position wanders slowly (first-order
Gauss-Markov), it does not jump about, as with real receivers.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from integrations.simulator.lawn import Garden
from integrations.simulator.shapes import Point, distance
from integrations.simulator.wire import Fix

_WALL_SHADOW_M = 4.5
_CORRELATION_S = 45.0
_SIGMA_M = {Fix.FIXED: 0.012, Fix.FLOAT: 0.18, Fix.SINGLE: 0.8}
_ACCURACY_M = {Fix.FIXED: 0.014, Fix.FLOAT: 0.25, Fix.SINGLE: 1.4}
_LIMITS = ((0.62, Fix.FIXED), (0.40, Fix.FLOAT), (0.14, Fix.SINGLE))
_HYSTERESIS = 0.05
_DROPOUTS_PER_HOUR = 1.5
_DROPOUT_S = 20.0
"""The radio to the base station fails now and then; a fixed solution then falls back to float."""


def sky_view(garden: Garden, point: Point) -> float:
    """How much of the sky is open, 0 to 1."""
    view = min(1.0, 0.25 + 0.75 * garden.house_distance_m(point) / _WALL_SHADOW_M)
    for tree in garden.trees:
        metres = distance(tree.at, point)
        if metres < tree.crown_m:
            view *= 1.0 - 0.85 * (1.0 - (metres / tree.crown_m) ** 2)
    return view


def wifi_dbm(garden: Garden, point: Point) -> int:
    """Signal of the household's Wi-Fi; the access point is in the house, whose wall costs 12 dB."""
    metres = max(1.0, garden.house_distance_m(point) + 2.0)
    return round(max(-95.0, -40.0 - 12.0 - 26.0 * math.log10(metres)))


@dataclass(slots=True)
class Receiver:
    """The satellite receiver. `update` is called while the machine moves, so a standing mower shows a still picture."""

    garden: Garden
    dice: random.Random
    fix: Fix = Fix.FLOAT
    satellites: int = 0
    is_jammed: bool = False
    """Nothing is received, wherever it is."""
    _error: Point = (0.0, 0.0)
    _dropout_left_s: float = 0.0

    def update(self, point: Point, seconds: float) -> None:
        """The picture at `point`, `seconds` after the last one."""
        view = 0.0 if self.is_jammed else sky_view(self.garden, point)
        self._dropout_left_s = max(0.0, self._dropout_left_s - seconds)
        if self.dice.random() < _DROPOUTS_PER_HOUR * seconds / 3600.0:
            self._dropout_left_s = _DROPOUT_S
        self.fix = self._judge(view)
        seen = max(0, round(4.0 + 27.0 * view + self.dice.gauss(0.0, 0.6)))
        self.satellites = 0 if self.is_jammed else seen
        sigma = _SIGMA_M.get(self.fix, 0.0)
        keep = math.exp(-seconds / _CORRELATION_S)
        fresh = sigma * math.sqrt(1.0 - keep * keep)
        limit = 3.0 * sigma
        east, north = (min(limit, max(-limit, part * keep + self.dice.gauss(0.0, 1.0) * fresh)) for part in self._error)
        self._error = east, north

    def _judge(self, view: float) -> Fix:
        found = Fix.NONE
        for limit, fix in _LIMITS:
            # A solution is kept a little longer than it takes to win it.
            if view >= limit - (_HYSTERESIS if fix is self.fix else 0.0):
                found = fix
                break
        return Fix.FLOAT if found is Fix.FIXED and self._dropout_left_s > 0.0 else found

    @property
    def accuracy_m(self) -> float | None:
        return _ACCURACY_M.get(self.fix)

    def seen_at(self, point: Point) -> Point | None:
        """Where the receiver believes to be."""
        if self.fix is Fix.NONE:
            return None
        return point[0] + self._error[0], point[1] + self._error[1]
