"""Percent from volts: the firmware reports no percentage.

Lithium-ion cells in series, 3.0 V empty and 4.2 V full, straight in between: what the community's own gateway shows,
so the figures agree. A pack is rarely charged beyond 4.1 V per cell, which reads as 92 percent; under the load of the
blades the reading drops by some percent.
"""

from __future__ import annotations

DEFAULT_CELLS = 7
EMPTY_V = 3.0
FULL_V = 4.2
_BELIEVABLE_V = (1.5, 4.6)
"""Per cell. Outside of it the number of cells is wrong, or nothing was measured."""


def percent_of(volts: float | None, cells: int) -> int | None:
    """0 to 100; None without a believable reading."""
    if volts is None:
        return None
    per_cell = volts / cells
    if not _BELIEVABLE_V[0] <= per_cell <= _BELIEVABLE_V[1]:
        return None
    return round(min(max((per_cell - EMPTY_V) / (FULL_V - EMPTY_V), 0.0), 1.0) * 100)
