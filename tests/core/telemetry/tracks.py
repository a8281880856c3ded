"""Tracks to thin: legs of mowing, standing, jumping and silence, anywhere on the globe."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import strategies as st

from core.telemetry.thinning import TrackPoint

BEGIN_US = 1_700_000_100_000_000
UNITS_PER_M = 90.0
PLACES = (
    (481_000_000, 115_000_000),
    (481_000_000, 1_799_999_950),  # the 180th meridian runs through the lawn
    (-20, -1_799_999_990),
    (780_000_000, 150_000_000),
    (899_999_900, 0),
    (-900_000_000, 1_000_000_000),
)
FIXES = (0, 1, 2, None)
BLADES = (True, False, None)


@dataclass(frozen=True)
class Leg:
    """One stretch of a track; `seed` is for its noise."""

    kind: str
    rows: int
    every_s: float
    blades_on: bool | None
    fix: int | None
    seed: int


legs = st.builds(
    Leg,
    kind=st.sampled_from(["lane", "lane", "spiral", "stand", "still", "wander", "race", "jump", "silence"]),
    rows=st.integers(1, 40),
    every_s=st.sampled_from([0.1, 1, 1, 1, 2, 5, 20, 60, 119.999999, 120, 120.000001]),
    blades_on=st.sampled_from(BLADES),
    fix=st.sampled_from(FIXES),
    seed=st.integers(0, 2**16),
)


@dataclass
class _Pen:
    at_us: int
    lat_e7: int
    lon_e7: int
    heading: float = 0.3


def draw_track(plan: list[Leg], place: tuple[int, int], begin_us: int = BEGIN_US) -> list[TrackPoint]:
    """The rows of the legs, one after the other, ascending in time."""
    pen = _Pen(begin_us, *place)
    rows = []
    for leg in plan:
        noise = random.Random(leg.seed)
        if leg.kind == "silence":
            pen.at_us += noise.choice([121, 299, 300, 599, 600, 601, 1_000, 90_000]) * 1_000_000
            continue
        pen.heading += noise.choice([0.0, 0.4, math.pi / 2, math.pi])
        for index in range(leg.rows):
            pen.at_us += round(leg.every_s * 1e6) + noise.choice([0, 0, 1, 20_000])
            _step(pen, leg, index, noise)
            rows.append(
                TrackPoint(
                    at_us=pen.at_us,
                    lat_e7=pen.lat_e7,
                    lon_e7=pen.lon_e7,
                    rtk_fix=leg.fix,
                    blades_on=leg.blades_on,
                )
            )
    return rows


def _step(pen: _Pen, leg: Leg, index: int, noise: random.Random) -> None:
    length_m = {"lane": 0.35 * leg.every_s, "spiral": 0.4, "stand": 0.012, "still": 0.0, "race": 1.4}.get(leg.kind, 0.2)
    match leg.kind:
        case "spiral":
            pen.heading += 0.5 / (1 + index * 0.3)
        case "stand":
            pen.heading = noise.uniform(0, 7)
        case "wander":
            pen.heading += noise.uniform(-1, 1)
        case "jump":
            length_m, pen.heading = noise.choice([0.2, 500.0]), noise.uniform(0, 7)
        case "lane":
            pen.heading += noise.gauss(0, 0.03)
        case _:
            pass
    north = round(math.cos(pen.heading) * length_m * UNITS_PER_M)
    east = round(math.sin(pen.heading) * length_m * UNITS_PER_M * 1.5)
    pen.lat_e7 = max(-900_000_000, min(900_000_000, pen.lat_e7 + north))
    pen.lon_e7 = (pen.lon_e7 + east + 1_800_000_000) % 3_600_000_000 - 1_800_000_000


def tracks(most_legs: int = 12) -> st.SearchStrategy[list[TrackPoint]]:
    """Random tracks; some times fall on the 5-minute grid."""
    return st.builds(
        draw_track,
        st.lists(legs, min_size=1, max_size=most_legs),
        st.sampled_from(PLACES),
        st.sampled_from([BEGIN_US, BEGIN_US + 299_000_000, BEGIN_US + 17]),
    ).filter(bool)


def some_times(track: list[TrackPoint], seed: int, share: float = 0.02) -> frozenset[int]:
    """Instants of errors: some of rows, and one of none."""
    noise = random.Random(seed)
    return frozenset(row.at_us for row in track if noise.random() < share) | {track[0].at_us + 1}


Shape = Callable[[float], tuple[float, float]]


def lanes(way_m: float) -> tuple[float, float]:
    """Straight lanes of 12 m, 0.18 m apart."""
    lane, along = divmod(way_m, 12.18)
    return min(along, 12.0) if lane % 2 == 0 else 12.0 - min(along, 12.0), lane * 0.18 + max(0.0, along - 12.0)


def edge(way_m: float) -> tuple[float, float]:
    """Round and round a square of 8 m, each round further in."""
    turn, along = divmod(way_m, 32.0)
    side, inset = 8.0 - 0.36 * (turn % 10), 0.18 * (turn % 10)
    quarter, along = divmod(along / 32.0 * 4 * side, side)
    x, y = ((along, 0.0), (side, along), (side - along, side), (0.0, side - along))[int(quarter) % 4]
    return x + inset, y + inset


def spiral(way_m: float) -> tuple[float, float]:
    """Outwards, 0.18 m a round."""
    angle = math.sqrt(2 * way_m * 2 * math.pi / 0.18)
    radius = 0.18 * angle / (2 * math.pi)
    return radius * math.cos(angle), radius * math.sin(angle)


def mow(shape: Shape, *, every_s: float, speed_mps: float = 0.35, rows: int = 1_500) -> list[TrackPoint]:
    """A mowing mower on a shape."""
    track = []
    for index in range(rows):
        x, y = shape(index * every_s * speed_mps)
        track.append(
            TrackPoint(
                at_us=BEGIN_US + round(index * every_s * 1e6),
                lat_e7=481_000_000 + round(y * 89.93),
                lon_e7=115_000_000 + round(x * 134.4),
                rtk_fix=1,
                blades_on=True,
            )
        )
    return track
