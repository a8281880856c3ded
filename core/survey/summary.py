"""What a survey found, in numbers and in words, and as GeoJSON (RFC 7946). Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import msgspec

from core.domain.clock import to_us
from core.domain.geo import GeoPoint, Plane, PlanePoint
from core.survey.sample import TOO_WEAK_DBM, WEAK_DBM, Carried, Head, Sample

LOOK_US = 2_000_000
"""Of several adapters that hear the mower within this time, the best counts: the box would connect over it."""
CELL_M = 4.0
"""Squares in which a carried box is compared with itself."""
PROXY_CELL_M = 10.0
"""Squares in which a weak corner is looked for: about what one more ear covers well."""
CELL_SAMPLES = 3
WORTH_PERCENT = 5.0
"""A share of weak samples from which it is worth doing something."""


class Shares(msgspec.Struct, frozen=True, kw_only=True):
    """Of `samples`: how strong they are (dBm, None without any that was heard), and the percentage that is weak."""

    samples: int
    silent: int
    median_dbm: float | None
    worst_dbm: int | None
    below_weak_percent: float | None
    """Below WEAK_DBM, the silent ones included."""
    below_too_weak_percent: float | None


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """`best`: at each moment the strongest adapter. `without_place`: samples that are counted and on no map."""

    mower: str
    carried: Carried
    best: Shares
    adapters: dict[str, Shares]
    without_place: int
    weak_dbm: int = WEAK_DBM
    too_weak_dbm: int = TOO_WEAK_DBM
    advice: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """A sample on the local plane (metres)."""

    sample: Sample
    point: PlanePoint


def best_of(samples: Iterable[Sample]) -> list[Sample]:
    """One sample for each moment: the strongest; a silent one only where nothing was heard."""
    found: dict[int, Sample] = {}
    for sample in filter(lambda one: one.is_about_bluetooth, samples):
        look = to_us(sample.at) // LOOK_US
        known = found.get(look)
        if known is None or _strength(sample) > _strength(known):
            found[look] = sample
    return [found[look] for look in sorted(found)]


def locate(samples: Sequence[Sample]) -> list[Located]:
    """The samples that have a place on one plane: around the first degrees, or else in the person's own metres."""
    first = next((s.place for s in samples if s.place is not None and s.place.lat is not None), None)
    found = []
    if first is not None and first.lat is not None and first.lon is not None:
        plane = Plane(GeoPoint(lat=first.lat, lon=first.lon))
        for sample in samples:
            place = sample.place
            if place is not None and place.lat is not None and place.lon is not None:
                found.append(Located(sample=sample, point=plane.project(GeoPoint(lat=place.lat, lon=place.lon))))
        return found
    for sample in samples:
        place = sample.place
        if place is not None and place.x_m is not None and place.y_m is not None:
            found.append(Located(sample=sample, point=PlanePoint(east_m=place.x_m, north_m=place.y_m)))
    return found


def summarise(head: Head, samples: Sequence[Sample]) -> Summary:
    """Numbers and advice."""
    best = best_of(samples)
    by_adapter: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        if sample.adapter is not None and sample.rssi_dbm is not None:
            by_adapter[sample.adapter].append(sample)
    shares = shares_of(best)
    return Summary(
        mower=head.mower,
        carried=head.carried,
        best=shares,
        adapters={name: shares_of(found) for name, found in sorted(by_adapter.items())},
        without_place=sum(sample.place is None for sample in samples),
        advice=tuple(_advise(head.carried, shares, best)),
    )


def shares_of(samples: Sequence[Sample]) -> Shares:
    """The numbers of some samples."""
    heard = [sample.rssi_dbm for sample in samples if sample.rssi_dbm is not None]
    return Shares(
        samples=len(samples),
        silent=len(samples) - len(heard),
        median_dbm=median(heard) if heard else None,
        worst_dbm=min(heard) if heard else None,
        below_weak_percent=_percent(samples, WEAK_DBM),
        below_too_weak_percent=_percent(samples, TOO_WEAK_DBM),
    )


def geojson(head: Head, samples: Sequence[Sample], summary: Summary) -> dict[str, Any]:
    """A FeatureCollection; a sample without degrees has no geometry, as the standard wants it."""
    return {
        "type": "FeatureCollection",
        "features": [_feature(sample) for sample in samples],
        "survey": msgspec.to_builtins(head),
        "summary": msgspec.to_builtins(summary),
    }


def _feature(sample: Sample) -> dict[str, Any]:
    fields = msgspec.to_builtins(sample)
    place = fields.pop("place", {})
    fields.pop("type")
    lat, lon = place.pop("lat", None), place.pop("lon", None)
    is_located = lat is not None and lon is not None
    geometry = {"type": "Point", "coordinates": [round(lon, 8), round(lat, 8)]} if is_located else None
    return {"type": "Feature", "geometry": geometry, "properties": {"adapter": None, **fields, **place}}


def _strength(sample: Sample) -> float:
    return float("-inf") if sample.rssi_dbm is None else sample.rssi_dbm


def _percent(samples: Sequence[Sample], limit_dbm: int) -> float | None:
    if not samples:
        return None
    return round(100.0 * sum(_strength(sample) < limit_dbm for sample in samples) / len(samples), 1)


def _advise(carried: Carried, shares: Shares, best: Sequence[Sample]) -> Iterable[str]:
    if shares.samples == shares.silent or shares.below_weak_percent is None:
        yield "The mower was not heard. Is it switched on, and is it not connected to a phone or to the box?"
        return
    yield (
        f"{shares.below_weak_percent:g} % of {shares.samples} measurements are below {WEAK_DBM} dBm (weak), "
        f"{shares.below_too_weak_percent:g} % below {TOO_WEAK_DBM} dBm (too weak to connect)"
        + (f"; {shares.silent} times nothing was heard at all." if shares.silent else ".")
    )
    cells = _cells(best, CELL_M if carried == "box" else PROXY_CELL_M)
    if not cells:
        yield "Without positions nobody can say where. Walk again with a GPS or with marks."
    elif carried == "box":
        yield from _advise_box(cells)
    else:
        yield from _advise_proxy(cells, shares.below_weak_percent)


def _advise_box(cells: dict[str, list[Sample]]) -> Iterable[str]:
    """The mower stood still: where it is heard best, the box would be well placed."""
    full = {name: found for name, found in cells.items() if len(found) >= CELL_SAMPLES}
    if not full:
        yield "Too few measurements at any one place to say where the box should stand: walk more slowly."
        return
    name = max(full, key=lambda key: median(_strength(sample) for sample in full[key]))
    here = median(_strength(sample) for sample in full[name])
    yield f"From where the mower stands, the box or a proxy is best placed {name}: {here:g} dBm in the median there."
    if here < WEAK_DBM:
        yield "Even there it is weak: place the box closer to the mower, or add an ESPHome Bluetooth proxy."


def _advise_proxy(cells: dict[str, list[Sample]], weak_percent: float) -> Iterable[str]:
    """The box stood still: where many samples are weak, a second ear would help."""
    weak = {name: n for name, found in cells.items() if (n := sum(_strength(s) < WEAK_DBM for s in found))}
    if weak_percent < WORTH_PERCENT or not weak:
        yield "The box reaches the mower well wherever it was measured."
        return
    name = max(weak, key=lambda key: weak[key])
    yield (
        f"Put an ESPHome Bluetooth proxy (it needs power and Wi-Fi), or the box, {name}: {weak[name]} of the "
        f"{sum(weak.values())} weak measurements with a place were made there."
    )


def _cells(samples: Sequence[Sample], side_m: float) -> dict[str, list[Sample]]:
    """Samples by place: squares of `side_m` named by their middle, or else the spots that a person named."""
    squares: dict[tuple[int, int], list[Located]] = defaultdict(list)
    for located in locate(samples):
        square = (int(located.point.east_m // side_m), int(located.point.north_m // side_m))
        squares[square].append(located)
    if squares:
        return {_name(found): [one.sample for one in found] for found in squares.values()}
    spots: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        if sample.place is not None and sample.place.spot is not None:
            spots[f"at {sample.place.spot!r}"].append(sample)
    return dict(spots)


def _name(found: Sequence[Located]) -> str:
    """The middle of some samples, for a person who walks there."""
    east_m = sum(one.point.east_m for one in found) / len(found)
    north_m = sum(one.point.north_m for one in found) / len(found)
    spots = sorted({one.sample.place.spot for one in found if one.sample.place is not None and one.sample.place.spot})
    places = [one.sample.place for one in found if one.sample.place is not None]
    lats = [place.lat for place in places if place.lat is not None]
    lons = [place.lon for place in places if place.lon is not None]
    if lats and lons:
        # within one square of metres no longitude wraps, except on the 180th meridian: there the first one names it
        lon = sum(lons) / len(lons) if max(lons) - min(lons) < 1.0 else lons[0]
        return (
            f"near {sum(lats) / len(lats):.6f}, {lon:.6f} ({east_m:+.0f} m east, {north_m:+.0f} m north of the "
            "first measurement)"
        )
    named = f" ({', '.join(spots)})" if spots else ""
    return f"near x = {east_m:.1f} m, y = {north_m:.1f} m{named}"
