"""A made-up lawn in metres from its dock, the ways over it, and rows of the track along them: what `bench.season` is made of."""

from __future__ import annotations

import math
import random
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, repeat
from operator import add

from core.domain.mower import RtkFix, RtkSource
from core.storage.sqlite_columns import RTK_FIX_CODES, RTK_SOURCE_CODES

SPEED_MPS = 0.35
JOB_S = 95 * 60
PATTERNS = ("lanes", "edge", "lanes", "spiral", "lanes", "random")
SECOND_US = 1_000_000
_E7_PER_M = 1e7 / 111_200
NOISE = 4_096
FIXED, FLOAT, SINGLE = (RTK_FIX_CODES[fix] for fix in (RtkFix.FIXED, RtkFix.FLOAT, RtkFix.SINGLE))
BASE = RTK_SOURCE_CODES[RtkSource.BASE]

Point = tuple[float, float]
Row = tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Route:
    """Places at one row each, as columns; `changes` are the indices at which the fix changes."""

    lats: array[int]
    lons: array[int]
    headings: array[int]
    fixes: array[int]
    accuracies: array[int]
    wifis: array[int]
    changes: Sequence[int]
    points: Sequence[Point]


class Noise:
    """Tables of noise, long enough to be read from any of the first NOISE places."""

    def __init__(self, rng: random.Random, longest: int) -> None:
        count = NOISE + longest
        self.jitter = array("i", (rng.randrange(30_000) for _ in range(count)))
        self.north = array("i", (round(rng.gauss(0, 1.0)) for _ in range(count)))
        self.east = array("i", (round(rng.gauss(0, 1.4)) for _ in range(count)))
        self.turn = array("i", (rng.randrange(30) for _ in range(count)))
        self.accuracy = array("i", (rng.randrange(20) for _ in range(count)))
        self.wifi = array("i", (round(rng.gauss(0, 2.5)) for _ in range(count)))
        self.mobile = array("i", (-95 - rng.randrange(8) for _ in range(count)))
        self.satellites = array("i", (rng.randrange(22, 32) for _ in range(count)))


class Garden:
    """One mower's lawn in metres from its dock, and the ways over it."""

    def __init__(self, number: int, noise: Noise, *, seed: int, row_s: float) -> None:
        rng = random.Random(f"{seed}/{number}")
        self.number = number
        self.noise = noise
        self.step_us = round(row_s * SECOND_US)
        self._step_m = SPEED_MPS * row_s
        self._lat, self._lon = 48.1 + number * 1e-3, 11.5
        self._size = (rng.uniform(18, 32), rng.uniform(14, 28))
        self._trees = [(rng.uniform(0, self._size[0]), rng.uniform(0, self._size[1])) for _ in range(2)]
        self.dock = self._route([(-1.5, 0.0)])
        longest = math.ceil(JOB_S / row_s)
        self.routes = [self._loop(_ways(pattern, *self._size, rng), longest) for pattern in dict.fromkeys(PATTERNS)]

    def way(self, begin: Point, end: Point) -> Route:
        return self._route(_sample([begin, end], self._step_m))

    def _loop(self, corners: list[Point], longest: int) -> Route:
        """There and back again, as often as the longest job from any place of the first round needs."""
        once = _sample([*corners, *corners[-2::-1]], self._step_m)
        return self._route(once * (1 + math.ceil(longest / len(once))))

    def _route(self, points: list[Point]) -> Route:
        east = _E7_PER_M / math.cos(math.radians(self._lat))
        fixes = array("b", (self._fix(point) for point in points))
        headings = [round(math.degrees(math.atan2(b[0] - a[0], b[1] - a[1])) * 10) % 3_570 for a, b in pairwise(points)]
        return Route(
            lats=array("i", (round(self._lat * 1e7 + y * _E7_PER_M) for _, y in points)),
            lons=array("i", (round(self._lon * 1e7 + x * east) for x, _ in points)),
            headings=array("i", [*headings, 0]),
            fixes=fixes,
            accuracies=array("i", (10 if fix == FIXED else 250 if fix == FLOAT else 1_500 for fix in fixes)),
            wifis=array("i", (-42 - round(22 * math.log10(1 + math.hypot(x, y) / 2)) for x, y in points)),
            changes=[index for index, (a, b) in enumerate(pairwise(fixes), 1) if a != b],
            points=points,
        )

    def _fix(self, point: Point) -> int:
        nearest = min(math.dist(point, tree) for tree in self._trees)
        return SINGLE if nearest < 0.6 else FLOAT if nearest < 2.0 else FIXED

    def rows(self, at_us: int, route: Route, begin: int, count: int, blades_on: int, offset: int) -> Iterator[Row]:
        """Rows of the track without numbers, one per step, as fast as the interpreter makes tuples."""
        noise, end, until = self.noise, begin + count, offset + count
        return zip(
            repeat(self.number, count),
            map(add, range(at_us, at_us + count * self.step_us, self.step_us), noise.jitter[offset:until]),
            map(add, route.lats[begin:end], noise.north[offset:until]),
            map(add, route.lons[begin:end], noise.east[offset:until]),
            map(add, route.headings[begin:end], noise.turn[offset:until]),
            map(add, route.accuracies[begin:end], noise.accuracy[offset:until]),
            route.fixes[begin:end],
            repeat(BASE),
            repeat(blades_on),
            map(add, route.wifis[begin:end], noise.wifi[offset:until]),
            noise.mobile[offset:until],
            noise.satellites[offset:until],
        )


def _ways(pattern: str, width_m: float, depth_m: float, rng: random.Random) -> list[Point]:
    """Corners of the way over a lawn."""
    match pattern:
        case "lanes":
            lanes = [index * 0.22 for index in range(int(width_m / 0.22))]
            return [(x, y) for n, x in enumerate(lanes) for y in ((0.0, depth_m) if n % 2 == 0 else (depth_m, 0.0))]
        case "edge":
            insets = (0.15, 0.35, 0.55)
            corners = [((0, 0), (1, 0), (1, 1), (0, 1), (0, 0)) for _ in insets]
            return [
                (inset + x * (width_m - 2 * inset), inset + y * (depth_m - 2 * inset))
                for inset, round_ in zip(insets, corners, strict=True)
                for x, y in round_
            ]
        case "spiral":
            turns = [index * 0.15 for index in range(round(min(width_m, depth_m) / 2 / 0.22 * math.tau / 0.15))]
            ways = ((0.22 * turn / math.tau, turn) for turn in turns)
            return [(width_m / 2 + r * math.cos(turn), depth_m / 2 + r * math.sin(turn)) for r, turn in ways]
        case _:
            legs = range(160)
            return [
                (width_m * rng.randrange(2), depth_m * rng.random())
                if leg % 2
                else (width_m * rng.random(), depth_m * rng.randrange(2))
                for leg in legs
            ]


def _sample(corners: Sequence[Point], step_m: float) -> list[Point]:
    """A point per step along a way, from its first corner on."""
    points, ahead_m = [], 0.0
    for a, b in pairwise(corners):
        length_m = math.dist(a, b)
        while ahead_m < length_m:
            share = ahead_m / length_m
            points.append((a[0] + share * (b[0] - a[0]), a[1] + share * (b[1] - a[1])))
            ahead_m += step_m
        ahead_m -= length_m
    return points
