"""Few rows of a track: bounded, rules first, and the stated error holds."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from core.telemetry.simplifying import simplify
from core.telemetry.thinning import JudgedTrack, TrackPoint

BEGIN_US = 1_748_736_000_000_000


def make_track(steps: list[tuple[int, int, int, bool | None]]) -> list[TrackPoint]:
    at_us, lat_e7, lon_e7 = BEGIN_US, 480_000_000, 1_799_999_900
    rows = []
    for seconds, north, east, blades in steps:
        at_us, lat_e7, lon_e7 = at_us + seconds * 1_000_000, lat_e7 + north, lon_e7 + east
        lon_e7 = (lon_e7 + 1_800_000_000) % 3_600_000_000 - 1_800_000_000
        rows.append(TrackPoint(at_us=at_us, lat_e7=lat_e7, lon_e7=lon_e7, blades_on=blades))
    return rows


step = st.tuples(st.integers(1, 200), st.integers(-60, 60), st.integers(-60, 60), st.none() | st.booleans())
calm_step = st.tuples(st.integers(1, 9), st.integers(-60, 60), st.integers(-60, 60), st.just(True))
tracks = (
    st.lists(step, max_size=60)
    | st.lists(step, min_size=30, max_size=60)
    | st.lists(calm_step, min_size=30, max_size=60)
).map(make_track)
"""Lists of hypothesis are short unless they must not be."""


@settings(max_examples=150, deadline=None)
@given(tracks, st.integers(2, 20))
def test_no_row_left_out_is_farther_than_stated(rows: list[TrackPoint], most: int) -> None:
    found = simplify(rows, most)
    assert len(found.kept) == len(set(found.kept)) <= max(most, 0)
    assert list(found.kept) == sorted(found.kept)
    if not rows:
        return
    assert (found.kept[0], found.kept[-1]) == (0, len(rows) - 1)
    if len(rows) <= most:
        assert (len(found.kept), found.error_mm) == (len(rows), 0)
    track = JudgedTrack(rows)
    farthest = max(
        (
            math.sqrt(track.square_m2(a, b, index)) * 1_000
            for a, b in zip(found.kept, found.kept[1:], strict=False)
            for index in range(a + 1, b)
        ),
        default=0.0,
    )
    assert farthest <= found.error_mm
    assert found.error_mm <= farthest * 1.001 + 1


@settings(max_examples=80, deadline=None)
@given(tracks, st.integers(2, 30))
def test_what_the_rules_keep_comes_first(rows: list[TrackPoint], most: int) -> None:
    if not rows:
        return
    by_rules = {n for n, is_kept in enumerate(JudgedTrack(rows).find_by_rules(())) if is_kept}
    kept = set(simplify(rows, most).kept)
    if len(by_rules) <= most:
        assert by_rules <= kept
    else:
        assert kept <= by_rules


@settings(max_examples=80, deadline=None)
@given(tracks, st.integers(2, 59))
def test_more_points_never_take_one_away(rows: list[TrackPoint], most: int) -> None:
    assert set(simplify(rows, most).kept) <= set(simplify(rows, most + 1).kept)


def test_an_instant_of_an_error_is_a_rule() -> None:
    rows = make_track([(10, 5, 0, None)] * 30)
    by_rules = sum(JudgedTrack(rows).find_by_rules(()))
    assert 7 not in simplify(rows, by_rules + 1).kept
    assert 7 in simplify(rows, by_rules + 1, {rows[7].at_us}).kept


def test_a_mower_that_stands_costs_no_time() -> None:
    rows = make_track([(1, 0, 0, True)] * 20_000)
    assert simplify(rows, 1_000).error_mm == 1
