"""Areas of the garden, which a person writes into the entry: the firmware takes a map but never gives it back.

    Front: 0 0, 12 0, 12 8, 0 8; Back: -5 10, 20 10, 20 25

Corners are metres of the mower's own frame. The id of an area comes from its name and stays with it.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from core.domain.geo import PlanePoint, contains
from core.domain.mower import Area
from integrations.ardumower.frame import FARTHEST_M, LocalFrame

MAX_AREAS = 50
MAX_CORNERS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """One area in the mower's frame (x is `east_m`, y is `north_m` there)."""

    area_id: str
    name: str
    ring: tuple[PlanePoint, ...]

    def holds(self, x_m: float, y_m: float) -> bool:
        return contains(self.ring, PlanePoint(east_m=x_m, north_m=y_m))


def read_areas(text: str) -> tuple[Patch, ...]:
    """The areas in a text as above; ValueError says what is wrong with it."""
    patches: dict[str, Patch] = {}
    for part in filter(None, (piece.strip() for piece in re.split(r"[;\n]", text))):
        patch = _read_patch(part)
        if patch.area_id in patches:
            raise ValueError(f"two areas are called {patch.name!r}")
        patches[patch.area_id] = patch
    if len(patches) > MAX_AREAS:
        raise ValueError(f"at most {MAX_AREAS} areas")
    return tuple(patches.values())


def _read_patch(text: str) -> Patch:
    name, colon, corners = text.partition(":")
    name = name.strip()
    area_id = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:64]
    if not colon or not area_id or len(name) > 64:
        raise ValueError("an area is a name of letters and digits, a colon, and its corners")
    ring = tuple(_read_corner(corner, name) for corner in corners.split(","))
    if not 3 <= len(ring) <= MAX_CORNERS:
        raise ValueError(f"{name}: between 3 and {MAX_CORNERS} corners")
    return Patch(area_id=area_id, name=name, ring=ring)


def _read_corner(text: str, name: str) -> PlanePoint:
    numbers = text.split()
    try:
        x_m, y_m = (float(number) for number in numbers)
    except ValueError as err:
        raise ValueError(f"{name}: a corner is two numbers, such as 12.5 -3") from err
    if not (math.isfinite(x_m) and math.isfinite(y_m) and max(abs(x_m), abs(y_m)) <= FARTHEST_M):
        raise ValueError(f"{name}: a corner lies outside of the world")
    return PlanePoint(east_m=x_m, north_m=y_m)


def describe(patch: Patch, frame: LocalFrame) -> Area:
    """The area for people; without a datum it has no ring, for rings are degrees."""
    places = [frame.place(corner.east_m, corner.north_m) for corner in patch.ring]
    ring = tuple((place.lat, place.lon) for place in places if place is not None)
    return Area(area_id=patch.area_id, name=patch.name, ring=ring)


def find_area(patches: tuple[Patch, ...], x_m: float, y_m: float) -> str | None:
    """The id of the first area that holds the point."""
    return next((patch.area_id for patch in patches if patch.holds(x_m, y_m)), None)
