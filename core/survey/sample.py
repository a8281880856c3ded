"""One measurement of a survey: how strongly something was heard, where and when. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

WEAK_DBM = -80
"""Below this a link is slow and breaks now and then; a mower is not driven by hand over it."""
TOO_WEAK_DBM = -88
"""Below this connecting fails or the link drops at once."""

Band = Literal["good", "weak", "too weak", "silent"]
Carried = Literal["box", "mower"]
"""What moved during the survey; the other one stood still."""


class Place(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where: WGS84 degrees, or metres of a person's own plane, or only the name of a spot. `via` says who knew."""

    via: Literal["nmea", "gpx", "mower", "mark"]
    lat: float | None = None
    lon: float | None = None
    x_m: float | None = None
    y_m: float | None = None
    spot: str | None = None


class Sample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="sample"):
    """`rssi_dbm` and `adapter` None: the adapters listened and heard nothing. `rssi_dbm` None of an `adapter` (the mower's
    own state): nothing about Bluetooth was said. `place` None: nobody knew where; it still counts."""

    at: datetime
    rssi_dbm: int | None
    adapter: str | None = None
    place: Place | None = None
    wifi_dbm: int | None = None
    mobile_dbm: int | None = None
    rtk_fix: str | None = None
    satellites: int | None = None

    @property
    def is_about_bluetooth(self) -> bool:
        """Whether it says anything of Bluetooth: a strength, or that nothing was heard."""
        return self.rssi_dbm is not None or self.adapter is None


class Head(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="survey"):
    """The first line of a record: which mower, and what was carried about. Without an `address` only what the mower's
    own state says is written down."""

    version: int
    mower: str
    address: str | None = None
    carried: Carried
    started_at: datetime


def band_of(rssi_dbm: int | None) -> Band:
    """How good a signal is."""
    if rssi_dbm is None:
        return "silent"
    if rssi_dbm < TOO_WEAK_DBM:
        return "too weak"
    return "weak" if rssi_dbm < WEAK_DBM else "good"
