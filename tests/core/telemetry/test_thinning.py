"""Thinning as pure rules: each rule by itself, the stated error, and what is left of a mown lawn."""

from __future__ import annotations

import math
from bisect import bisect_left
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.domain.geo import GeoPoint, Plane
from core.telemetry.significance import DEGREE
from core.telemetry.thinning import (
    BLADES_TOLERANCE_M,
    GRID_US,
    TOLERANCE_M,
    Thinned,
    TrackPoint,
    keep_set,
    stated_mm,
    thin,
)
from core.telemetry.track_scale import east_m, north_m, shortest_turn, squared_latitude
from tests.core.telemetry.tracks import BEGIN_US, edge, lanes, mow, some_times, spiral, tracks


def line(*seconds: float, step: int = 32, blades_on: bool | None = True, fix: int = 1) -> list[TrackPoint]:
    """Rows at these seconds, each `step` units (11 mm) farther north."""
    return [
        TrackPoint(
            at_us=BEGIN_US + round(second * 1e6),
            lat_e7=481_000_000 + index * step,
            lon_e7=115_000_000,
            rtk_fix=fix,
            blades_on=blades_on,
        )
        for index, second in enumerate(seconds)
    ]


def kept_seconds(rows: list[TrackPoint], errors: frozenset[int] = frozenset()) -> list[float]:
    return [(at_us - BEGIN_US) / 1e6 for at_us in sorted(keep_set(rows, errors))]


def changed(rows: list[TrackPoint], index: int, **changes: object) -> list[TrackPoint]:
    fields = {name: getattr(rows[index], name) for name in TrackPoint.__slots__}
    return [*rows[:index], TrackPoint(**(fields | changes)), *rows[index + 1 :]]  # type: ignore[arg-type]


def test_grid_begins_a_cell_in_these_tests() -> None:
    assert (BEGIN_US - 946_684_800_000_000) % GRID_US == 0


def test_nothing_and_one_row() -> None:
    assert keep_set([]) == frozenset()
    assert kept_seconds(line(5)) == [5]


@pytest.mark.parametrize(
    ("blades_on", "step", "expected"),
    [
        (True, 32, [0, 30, 60, 90, 120]),
        (False, 95, [0, 30, 60, 90, 120]),  # 1.06 m a row
        (False, 32, [0, 120]),
        (None, 32, [0, 120]),
    ],
)
def test_first_of_a_bin(blades_on: bool | None, step: int, expected: list[float]) -> None:
    rows = line(*range(121), step=step, blades_on=blades_on)
    if step == 95:
        expected = [0, 1, *expected[1:]]  # the first row moved from nowhere: it has a bin of the other width
    assert kept_seconds(rows) == expected


@pytest.mark.parametrize("gap_s", [120.0, 120.000001])
def test_both_sides_of_a_gap(gap_s: float) -> None:
    rows = line(0, 1, 2, 2 + gap_s, 3 + gap_s, 4 + gap_s, blades_on=False)
    assert kept_seconds(rows) == ([0, 4 + gap_s] if gap_s == 120.0 else [0, 2, 2 + gap_s, 4 + gap_s])


@pytest.mark.parametrize("change", [{"blades_on": None}, {"blades_on": True}, {"rtk_fix": 0}, {"rtk_fix": None}])
def test_both_sides_of_a_change(change: dict[str, object]) -> None:
    rows = line(*range(10), blades_on=False)
    for index in range(5, 10):
        rows = changed(rows, index, **change)
    assert kept_seconds(rows) == [0, 4, 5, 9]


def test_rows_of_errors() -> None:
    rows = line(*range(10))
    assert kept_seconds(rows, frozenset({rows[3].at_us, rows[3].at_us + 1})) == [0, 3, 9]


@pytest.mark.parametrize(("degrees", "is_kept"), [(20, False), (24, False), (26, True), (90, True), (180, True)])
def test_turns(degrees: float, is_kept: bool) -> None:
    rows = line(*range(5), step=40, blades_on=False)
    east = [40 * n * math.sin(math.radians(degrees)) / math.cos(math.radians(48.1)) for n in range(1, 6)]
    north = [40 * n * math.cos(math.radians(degrees)) for n in range(1, 6)]
    for n in range(5):
        rows.append(
            TrackPoint(
                at_us=rows[4].at_us + (n + 1) * 1_000_000,
                lat_e7=rows[4].lat_e7 + round(north[n]),
                lon_e7=115_000_000 + round(east[n]),
                rtk_fix=1,
                blades_on=False,
            )
        )
    assert (4 in kept_seconds(rows)) is is_kept


def test_noise_of_a_standing_mower_is_no_turn() -> None:
    rows = line(*range(25), step=0, blades_on=False)
    for index in range(1, 24):
        rows = changed(rows, index, lat_e7=rows[0].lat_e7 + index % 2)  # 11 mm to and fro, 25 cm of path
    assert kept_seconds(rows) == [0, 24]


def test_a_bulge_survives_at_its_farthest_row_and_ties_go_to_the_earlier() -> None:
    rows = line(*range(8))
    for index in (3, 4):
        rows = changed(rows, index, lon_e7=rows[index].lon_e7 + 9)  # 67 mm
    assert kept_seconds(rows)[:2] == [0, 3]
    narrow = line(*range(8))
    for index in (3, 4):
        narrow = changed(narrow, index, lon_e7=narrow[index].lon_e7 + 6)  # 45 mm
    thinned = thin(narrow)
    assert sorted(thinned.kept) == [narrow[0].at_us, narrow[7].at_us]
    assert 44 <= thinned.error_mm <= 46


def test_driving_beyond_a_survivor_and_back_is_seen() -> None:
    """Distance is to the piece of line between the neighbours, not to the line without end."""
    rows = line(*range(20), step=3, blades_on=False)  # 33 mm a row: nothing but the bound sees that it went too far
    rows += [
        TrackPoint(
            at_us=rows[-1].at_us + 1_000_000 * (n + 1),
            lat_e7=rows[-1].lat_e7 - 12 * n,
            lon_e7=rows[-1].lon_e7,
            rtk_fix=1,
            blades_on=False,
        )
        for n in range(6)
    ]
    assert true_error_m(rows, thin(rows)) <= TOLERANCE_M


def true_error_m(rows: list[TrackPoint], thinned: Thinned) -> float:
    """By the ellipsoid's plane at each gap's beginning, with trigonometry."""
    kept = [row for row in rows if row.at_us in thinned.kept]
    times = [row.at_us for row in kept]
    worst = 0.0
    for row in rows:
        if row.at_us in thinned.kept:
            continue
        at = bisect_left(times, row.at_us)
        plane = Plane(place(kept[at - 1]))
        end, here = plane.project(place(kept[at])), plane.project(place(row))
        length = math.hypot(end.east_m, end.north_m)
        share = 0.0
        if length:
            share = (here.east_m * end.east_m + here.north_m * end.north_m) / length**2
            share = min(1.0, max(0.0, share))
        worst = max(worst, math.hypot(here.east_m - share * end.east_m, here.north_m - share * end.north_m))
    return worst


def place(row: TrackPoint) -> GeoPoint:
    return GeoPoint(lat=row.lat_e7 / DEGREE, lon=row.lon_e7 / DEGREE)


@settings(max_examples=150, deadline=None)
@given(tracks(), st.integers(0, 99))
def test_every_dropped_row_is_within_the_stated_error(rows: list[TrackPoint], seed: int) -> None:
    thinned = thin(rows, some_times(rows, seed))
    assert true_error_m(rows, thinned) * 1_000 <= thinned.error_mm
    blades = {row.at_us: row.blades_on for row in rows}
    assert thinned.kept.isdisjoint(thinned.dropped)
    assert len(thinned.kept) + len(thinned.dropped) == len(rows)
    for at_us, square in thinned.dropped.items():
        assert math.sqrt(square) <= (BLADES_TOLERANCE_M if blades[at_us] else TOLERANCE_M) + 1e-12


@settings(max_examples=100, deadline=None)
@given(tracks(), st.integers(0, 99))
def test_what_always_survives(rows: list[TrackPoint], seed: int) -> None:
    errors = some_times(rows, seed)
    kept = keep_set(rows, errors)
    assert {rows[0].at_us, rows[-1].at_us} <= kept
    assert {row.at_us for row in rows} & errors <= kept
    cells: dict[int, int] = {}
    for row in rows:
        cells.setdefault((row.at_us - BEGIN_US) // GRID_US, row.at_us)
    assert set(cells.values()) <= kept, "the first row of each cell, so that no gap reaches over it"


@given(st.integers(-900_000_000, 900_000_000))
def test_scales_are_those_of_the_ellipsoid(lat_e7: int) -> None:
    plane, z = Plane(GeoPoint(lat=lat_e7 / DEGREE, lon=0.0)), squared_latitude(lat_e7)
    assert north_m(z) * DEGREE == pytest.approx(plane.metres_per_degree_north, rel=6e-6)
    assert east_m(z) * DEGREE == pytest.approx(plane.metres_per_degree_east, rel=3e-6, abs=1e-6)


def test_longitudes_differ_the_short_way_round() -> None:
    assert shortest_turn(-1_799_999_990 - 1_799_999_990) == 20
    assert shortest_turn(1_799_999_990 + 1_799_999_990) == -20
    assert shortest_turn(5) == 5
    assert east_m(squared_latitude(900_000_000)) == 0.0


def test_a_stated_distance_is_never_less() -> None:
    assert stated_mm(0.0) == 1, "the planes of other rows see what is straight here a nanometre off"
    assert stated_mm(1e-12) == 1
    assert stated_mm(0.05 * 0.05) == 51


@pytest.mark.parametrize("shape", [lanes, edge, spiral], ids=lambda shape: shape.__name__)
@pytest.mark.parametrize("every_s", [1.0, 5.0])
def test_the_mown_area_is_left(shape, every_s: float) -> None:
    rows = mow(shape, every_s=every_s)
    kept = keep_set(rows)
    before = covered(rows, longest_s=30.0)
    after = covered([row for row in rows if row.at_us in kept], longest_s=65.0)
    assert every_s > 1.0 or len(kept) < 0.5 * len(rows)
    assert len(before ^ after) <= 0.05 * len(before)
    fallen_apart = covered([row for row in rows if row.at_us in kept], longest_s=min(20.0, 4 * every_s))
    if shape is lanes and every_s == 1.0:
        assert len(before ^ fallen_apart) > 0.5 * len(before), "without the wider join the swaths fall apart"


CELL_M = 0.04


def covered(rows: list[TrackPoint], *, longest_s: float) -> set[tuple[int, int]]:
    """Cells of the swaths, 0.22 m wide, of rows that are close enough in time."""
    plane = Plane(place(rows[0]))
    points = [(row.at_us / 1e6, plane.project(place(row))) for row in rows]
    brush = [(x, y) for x in range(-3, 4) for y in range(-3, 4) if math.hypot(x, y) * CELL_M <= 0.11]
    centres = set()
    for (t0, a), (t1, b) in pairwise(points):
        if t1 - t0 > longest_s:
            continue
        count = max(1, math.ceil(math.hypot(b.east_m - a.east_m, b.north_m - a.north_m) / CELL_M))
        for n in range(count + 1):
            x, y = a.east_m + (b.east_m - a.east_m) * n / count, a.north_m + (b.north_m - a.north_m) * n / count
            centres.add((round(x / CELL_M), round(y / CELL_M)))
    return {(x + dx, y + dy) for x, y in centres for dx, dy in brush}
