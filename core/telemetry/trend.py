"""A straight line through noisy points that a few wild ones cannot bend, and how sure one can be of it.

The slope is the median of the slopes between all pairs of points (Theil and Sen); its bounds are the 95 % interval
that follows from Kendall's rank statistic. No shape of the noise is assumed.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Literal

import msgspec

POINTS_MIN = 8
SPAN_MIN = 14.0
"""Fewer points, or points closer together (days), say nothing: then there is no trend."""
POINTS_MAX = 180
"""The newest; all pairs of them are looked at."""
_Z95 = 1.959964


class Trend(msgspec.Struct, frozen=True, kw_only=True):
    """Slope per unit of x, between `low` and `high` with 95 %."""

    slope: float
    low: float
    high: float

    @property
    def direction(self) -> Literal["falling", "rising", "steady"]:
        """`steady` when the bounds leave both open."""
        if self.high < 0:
            return "falling"
        return "rising" if self.low > 0 else "steady"


def find_trend(points: Sequence[tuple[float, float]]) -> Trend | None:
    """The trend of points (x in days, y), ordered by x; None when there are too few to tell."""
    points = points[-POINTS_MAX:]
    count = len(points)
    if count < POINTS_MIN or points[-1][0] - points[0][0] < SPAN_MIN:
        return None
    slopes = sorted((y2 - y1) / (x2 - x1) for n, (x1, y1) in enumerate(points) for x2, y2 in points[n + 1 :] if x2 > x1)
    spread = _Z95 * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    low = math.floor((len(slopes) - spread) / 2)
    high = math.ceil((len(slopes) + spread) / 2)
    return Trend(
        slope=statistics.median(slopes),
        low=slopes[max(0, low)],
        high=slopes[min(len(slopes) - 1, high)],
    )
