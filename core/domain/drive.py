"""Driving by hand: one frame of a joystick."""

from __future__ import annotations

import msgspec


class DriveFrame(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`linear` and `angular` from -1 to 1; the mower stops when no newer frame arrives within `ttl_ms`."""

    sequence: int
    linear: float
    angular: float
    ttl_ms: int = 500
