"""A mower in a garden of 20 by 20 metres that is looked at once a second."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count

import msgspec

from core.domain.geo import GeoPoint, Plane, PlanePoint
from core.domain.mower import (
    Activity,
    Area,
    Connectivity,
    ErrorClass,
    LinkKind,
    MowerError,
    MowerState,
    Position,
    RtkFix,
)
from core.telemetry.alert import Alert
from core.telemetry.alert_rules import Look, Wear, make_rules
from core.telemetry.alert_tracks import AlertTracks
from core.telemetry.theft import Surroundings
from tests.fakes.clock import START, ManualClock

HOME = Plane(GeoPoint(lat=52.0, lon=8.0))


def place(east_m: float, north_m: float) -> GeoPoint:
    return HOME.unproject(PlanePoint(east_m=east_m, north_m=north_m))


def corner(east_m: float, north_m: float) -> tuple[float, float]:
    point = place(east_m, north_m)
    return point.lat, point.lon


GARDEN = (Area(area_id="lawn", name="Lawn", ring=(corner(0, 0), corner(20, 0), corner(20, 20), corner(0, 20))),)
LIFTED = MowerError(code="E-lift", error_class=ErrorClass.LIFTED)


def numbered() -> Iterator[str]:
    return (f"a{number}" for number in count(1))


@dataclass
class Watched:
    """The mower and everything that was said about it."""

    clock: ManualClock = field(default_factory=ManualClock)
    state: MowerState = field(
        default_factory=lambda: MowerState(
            observed_at=START,
            activity=Activity.DOCKED,
            connectivity=Connectivity.ONLINE,
            battery_percent=80,
            rtk_fix=RtkFix.FIXED,
        )
    )
    around: Surroundings = field(
        default_factory=lambda: Surroundings(
            links={LinkKind.BLE: True, LinkKind.LAN: True}, is_network_up=True, up_s=9_999
        )
    )
    areas: tuple[Area, ...] = GARDEN
    wear: Wear | None = None
    free_percent: float | None = None
    said: list[Alert] = field(default_factory=list)

    def __post_init__(self) -> None:
        ids = numbered()
        self.rules = make_rules()
        self.tracks = AlertTracks(lambda _: next(ids))
        self.at(1, 1)

    def at(self, east_m: float, north_m: float, *, accuracy_m: float | None = 0.05) -> None:
        point = place(east_m, north_m)
        self.put(position=Position(lat=point.lat, lon=point.lon, accuracy_m=accuracy_m))

    def put(self, **what: object) -> None:
        self.state = msgspec.structs.replace(self.state, **what)

    def link(self, **up: bool) -> None:
        links = {LinkKind(kind): is_up for kind, is_up in up.items()}
        self.around = replace(self.around, links=links)

    def look(self, seconds: int = 1) -> None:
        for _ in range(seconds):
            self.clock.advance(1)
            now, monotonic_s = self.clock.now(), self.clock.monotonic()
            look = Look(
                state=msgspec.structs.replace(self.state, observed_at=now),
                now=now,
                monotonic_s=monotonic_s,
                areas=self.areas,
                around=self.around,
                wear=self.wear,
                free_percent=self.free_percent,
            )
            for rule in self.rules:
                for reading in rule(look):
                    self.said += self.tracks.take(reading, now=now, monotonic_s=monotonic_s)

    def kinds(self) -> set[str]:
        """Of the alerts that are open."""
        return {alert.kind.value for alert in self.tracks.open_alerts()}

    def one(self, kind: str) -> Alert:
        (alert,) = [alert for alert in self.tracks.open_alerts() if alert.kind.value == kind]
        return alert
