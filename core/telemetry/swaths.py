"""Swaths: stretches of lawn between consecutive positions with the blades running.

Two positions make a swath when they are at most 30 s and 10 m apart. Thinning (`core.telemetry.thinning`) leaves one row
of a straight lane in each bin of 30 s, so where the older one may have been left by it the limits are wider: two bins
and 5 s, and metres by the same factor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.telemetry.thinning import FINE_BIN_S
from core.telemetry.track_plane import E7, Metres

JOIN_S = 30.0
JOIN_M = 10.0
WIDE_JOIN_S = max(JOIN_S, 2.0 * FINE_BIN_S + 5.0)
WIDE_JOIN_M = JOIN_M * WIDE_JOIN_S / JOIN_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Swaths:
    """From one position to the next, metres of a plane and microseconds, ascending in time."""

    from_east_m: Metres
    from_north_m: Metres
    to_east_m: Metres
    to_north_m: Metres
    began_us: E7
    ended_us: E7

    def __len__(self) -> int:
        return len(self.began_us)


def join_swaths(
    at_us: E7, east_m: Metres, north_m: Metres, blades_on: NDArray[np.bool_], *, thinned_until_us: int
) -> Swaths:
    """The swaths of one mower's rows, ascending in time. Rows before `thinned_until_us` may have been thinned.
    `blades_on` is False where that is unknown."""
    is_wide = at_us[:-1] < thinned_until_us
    gap_us = at_us[1:] - at_us[:-1]
    way_m = np.hypot(east_m[1:] - east_m[:-1], north_m[1:] - north_m[:-1])
    joined = (
        blades_on[1:]
        & blades_on[:-1]
        & (gap_us <= np.where(is_wide, WIDE_JOIN_S, JOIN_S) * 1e6)
        & (way_m <= np.where(is_wide, WIDE_JOIN_M, JOIN_M))
    )
    start = np.flatnonzero(joined)
    return Swaths(
        from_east_m=east_m[start],
        from_north_m=north_m[start],
        to_east_m=east_m[start + 1],
        to_north_m=north_m[start + 1],
        began_us=at_us[start],
        ended_us=at_us[start + 1],
    )
