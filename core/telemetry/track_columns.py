"""A long track with one reading a row, as columns of machine numbers: 32 bytes a row instead of an object."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Layer = Literal["coverage", "rtk", "wifi", "mobile"]
UNKNOWN = -(2**31)
"""A reading that there is not."""
MOST_ROWS = 1_000_000
"""Rows of one heatmap: some ten weeks at 1 Hz, or years of thinned ones."""


def _column() -> array[int]:
    return array("q")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackColumns:
    """One mower's rows, ascending in time: microseconds since 1970, whole 1e-7 degrees, and the layer's reading: blades
    running, fix is fixed (0 or 1), or dBm."""

    at_us: array[int] = field(default_factory=_column)
    lat_e7: array[int] = field(default_factory=_column)
    lon_e7: array[int] = field(default_factory=_column)
    readings: array[int] = field(default_factory=_column)
    thinned_until_us: int = 0
    """Rows before this may be what thinning left."""

    def __len__(self) -> int:
        return len(self.at_us)

    def extend(self, rows: Sequence[tuple[int, ...]]) -> None:
        """Adds rows: time, latitude, longitude, reading."""
        if rows:
            columns = (self.at_us, self.lat_e7, self.lon_e7, self.readings)
            for column, values in zip(columns, zip(*rows, strict=True), strict=True):
                column.extend(values)
