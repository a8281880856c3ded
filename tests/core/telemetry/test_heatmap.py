"""Heatmaps of whole tracks, anywhere on the globe, with rows that must not poison them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from core.domain.errors import InvalidInputError
from core.telemetry.heatmap import Heatmap, make_heatmap
from core.telemetry.track_columns import UNKNOWN, Layer, TrackColumns
from core.telemetry.track_scale import shortest_turn

PLACES = {
    "equator": (0, 300_000_000),
    "garden": (481_000_000, 115_000_000),
    "far north": (780_000_000, 150_000_000),
    "meridian": (-170_000_000, 1_799_999_990),
    "at the pole": (899_900_000, 0),
}
Row = tuple[int, int, int, int]


def lawn(place: tuple[int, int], reading: int = 1) -> list[Row]:
    """Lanes of 10 m, half a metre apart, a row a second: 10 m by 10 m."""
    rows = []
    for n in range(20 * 30):
        lane, along = divmod(n, 30)
        x, y = lane / 2, (along if lane % 2 == 0 else 29 - along) / 3
        lat_e7 = place[0] + round(y / 0.01113)
        lon_e7 = shortest_turn(place[1] + round(x / 0.01113 / math.cos(math.radians(place[0] / 1e7))))
        rows.append((1_700_000_000_000_000 + n * 1_000_000, lat_e7, lon_e7, reading))
    return rows


def heatmap(rows: list[Row], layer: Layer = "coverage", cell_m: float = 0.25, width_m: float = 0.5) -> Heatmap:
    track = TrackColumns()
    track.extend(sorted(rows))
    return make_heatmap(track, layer=layer, cell_m=cell_m, width_m=width_m)


def mown_m2(made: Heatmap) -> float:
    return float(np.isfinite(made.values).sum()) * made.grid.cell_m**2


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())
def test_a_lawn_is_as_large_anywhere(place: tuple[int, int]) -> None:
    made = heatmap(lawn(place), cell_m=0.1)
    assert mown_m2(made) == pytest.approx(10.0 * 10.2, rel=0.03)
    assert made.corner is not None
    assert abs(made.corner[0] - place[0] / 1e7) < 1e-5
    assert (
        abs(shortest_turn(round(made.corner[1] * 1e7) - place[1])) * 0.011 * math.cos(math.radians(made.corner[0])) < 2
    )


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())
@pytest.mark.parametrize("layer", ["coverage", "rtk", "wifi", "mobile"])
def test_no_stray_row_changes_anything(place: tuple[int, int], layer: Layer) -> None:
    """(0, 0), half a kilometre away, far outside, the other end of the earth: in between and at the ends."""
    rows = lawn(place)
    clean = heatmap(rows, layer, cell_m=1.0)
    jump = (place[0] - 45_000, place[1])
    for lat_e7, lon_e7 in ((0, 0), jump, (950_000_000, 0), (-place[0] - 10_000, 0), (-(2**31), -(2**31))):
        at_us = [rows[0][0] - 1, rows[300][0] + 500_000, rows[-1][0] + 1]
        made = heatmap([*rows, *((when, lat_e7, lon_e7, 1) for when in at_us)], layer, cell_m=1.0)
        assert (made.grid.width, made.grid.height) == (clean.grid.width, clean.grid.height)
        assert made.left_out == 3
        assert int((np.nan_to_num(made.values) != np.nan_to_num(clean.values)).sum()) <= 2  # the swath it parts


def test_passes_and_when_last() -> None:
    rows = lawn(PLACES["garden"])
    later = [(at_us + 86_400_000_000, lat, lon, 1) for at_us, lat, lon, _ in rows[:300]]
    made = heatmap([*rows, *later])
    assert made.last_us is not None
    known = np.isfinite(made.values)
    assert set(made.values[known].tolist()) <= {1.0, 2.0, 3.0, 4.0}
    assert made.last_us[known].min() > rows[0][0]
    assert int((made.last_us >= later[0][0]).sum()) == pytest.approx(int((made.values >= 2).sum()), rel=0.25)
    assert (made.last_us[~known] == 0).all()


def test_signals_are_of_rows_with_a_reading() -> None:
    rows = lawn(PLACES["garden"], UNKNOWN)
    assert heatmap(rows, "wifi", 1.0).grid.width == 0
    half = [(*row[:3], -60 - 10 * (n >= 300)) if n % 2 else row for n, row in enumerate(rows)]
    made = heatmap(half, "wifi", 5.0)
    assert set(np.unique(made.values[np.isfinite(made.values)]).tolist()) <= {-60.0, -65.0, -70.0}
    assert made.left_out == 0


def test_nothing_at_all() -> None:
    for layer in ("coverage", "rtk", "wifi", "mobile"):
        made = heatmap([], layer)
        assert (made.grid.width, made.grid.height, made.corner, made.rows) == (0, 0, None, 0)
    assert heatmap([(1, 0, 0, 1)]).left_out == 1


def test_too_many_cells_are_refused_with_a_size_that_fits() -> None:
    rows = lawn(PLACES["garden"])
    far = [
        (at_us + 10**9, lat + 180_000, lon + 180_000, 1) for at_us, lat, lon, _ in rows
    ]  # a second garden, 2.4 km off
    with pytest.raises(InvalidInputError, match=r"(\S+) would fit") as refused:
        heatmap([*rows, *far], "rtk", 0.5)
    fitting = float(refused.value.mistakes[0].reason.split("; ")[1].split()[0])
    assert heatmap([*rows, *far], "rtk", fitting).grid.width > 0
