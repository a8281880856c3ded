from __future__ import annotations

import pytest

from integrations.simulator.lawn import DEPTH_M, WIDTH_M, make_garden
from integrations.simulator.planner import SWATH_M, plan_patch, plan_spot
from integrations.simulator.shapes import distance, distance_to_ring, edges, holds, length
from tests.integrations.simulator.gardens import router

SEEDS = range(12)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_garden_is_always_the_same_and_fits_its_plot(seed):
    garden = make_garden(seed)
    assert garden == make_garden(seed)
    assert [patch.area_id for patch in garden.patches] == ["front", "side", "back", "orchard"]
    assert garden.is_free(garden.dock)
    assert garden.is_free(garden.gate)
    for patch in garden.patches:
        assert all(0 < x < WIDTH_M and 0 < y < DEPTH_M for x, y in patch.ring)


def test_seeds_make_different_gardens():
    assert len({make_garden(seed).trees for seed in SEEDS}) == len(SEEDS)
    assert {make_garden(seed).dock[0] < WIDTH_M / 2 for seed in SEEDS} == {True, False}, "some are mirrored"


@pytest.mark.parametrize("seed", SEEDS)
def test_every_patch_is_reached_and_mown_without_leaving_the_free_ground(seed):
    ways = router(seed)
    here = ways.garden.dock
    for patch in ways.garden.patches:
        for stroke in plan_patch(ways, patch, start=here, job=0):
            way = ways.route(here, stroke.points[0])
            assert way is not None
            for a, b in zip((here, *way), way, strict=False):
                assert ways.is_clear(a, b)
            for a, b in zip(stroke.points, stroke.points[1:], strict=False):
                assert ways.garden.is_free(b)
                assert ways.is_clear(a, b)
            here = stroke.points[-1]
    assert ways.route(here, ways.garden.gate) is not None


def cut_share(ways, patch, job):
    """The share of a patch that the strokes pass within a swath, sampled; trees and their laps left out."""
    sides = [
        side
        for stroke in plan_patch(ways, patch, start=ways.garden.gate, job=job)
        for side in zip(stroke.points, stroke.points[1:], strict=False)
    ]
    west, east = min(x for x, _ in patch.ring), max(x for x, _ in patch.ring)
    south, north = min(y for _, y in patch.ring), max(y for _, y in patch.ring)
    cut = total = 0
    for i in range(30):
        for j in range(30):
            point = west + (east - west) * i / 29, south + (north - south) * j / 29
            if not holds(patch.ring, point) or not ways.garden.is_free(point):
                continue
            total += 1
            cut += any(_near(point, a, b) for a, b in sides)
    return cut / total


def _near(point, a, b):
    reach = SWATH_M * 0.8
    if not (min(a[0], b[0]) - reach <= point[0] <= max(a[0], b[0]) + reach):
        return False
    if not (min(a[1], b[1]) - reach <= point[1] <= max(a[1], b[1]) + reach):
        return False
    return distance_to_ring((a, b), point) <= reach


@pytest.mark.parametrize("job", [0, 1, 2])
@pytest.mark.parametrize("area", ["front", "back", "orchard"])
def test_lanes_leave_hardly_a_blade_of_grass(area, job):
    ways = router(1)
    patch = ways.garden.patch(area)
    assert patch is not None
    assert cut_share(ways, patch, job) > 0.96


def test_a_spiral_winds_outwards_around_the_spot():
    ways = router(1)
    centre = (11.0, 8.0)
    (stroke,) = plan_spot(ways, centre, 2.0)
    reaches = [distance(centre, point) for point in stroke.points]
    assert reaches == sorted(reaches)
    assert reaches[0] == 0
    assert 1.6 < reaches[-1] <= 2.0
    assert length(stroke.points) > 30


def test_a_spiral_is_cut_at_the_border_of_the_lawn_and_refused_off_it():
    ways = router(1)
    ring = ways.garden.patches[0].ring
    corner = min(ring)
    strokes = plan_spot(ways, (corner[0] + 0.5, corner[1] + 0.2), 3.0)
    assert len(strokes) > 1
    assert all(ways.garden.patch_at(p) is not None for stroke in strokes for p in stroke.points)
    house = ways.garden.house
    assert plan_spot(ways, house[0], 1.0) == ()
    assert plan_spot(ways, (-50.0, 0.0), 1.0) == ()


def test_routes_go_around_the_house():
    ways = router(1)
    south, north = (16.0, 15.5), (16.0, 30.3)
    way = ways.route(south, north)
    assert way is not None
    assert len(way) > 1
    assert length((south, *way)) > distance(south, north) + 5
    assert not any(holds(ways.garden.house, p) for p in way)
    assert all(distance(a, b) > 0 for a, b in edges(ways.garden.house))


def test_there_is_no_way_into_a_wall():
    ways = router(1)
    assert ways.route(ways.garden.gate, (16.0, 20.0)) is None
