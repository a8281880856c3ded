"""Whether a peer is heard well enough to connect: a gate at about -88 dBm that does not flutter. Pure.

Below it a connection fails or drops at once, and trying only drains the mower. A mower that comes nearer is taken from
`OPENS_DBM` on, and one that goes away until `CLOSES_DBM`: single packets vary by several dB.
"""

from __future__ import annotations

OPENS_DBM = -86
GATE_DBM = -88
CLOSES_DBM = -90


def is_near(rssi_dbm: int, was_near: bool | None) -> bool:
    """The gate after one more packet; `was_near` is None for the first."""
    if was_near is None:
        return rssi_dbm >= GATE_DBM
    return rssi_dbm >= (CLOSES_DBM if was_near else OPENS_DBM)
