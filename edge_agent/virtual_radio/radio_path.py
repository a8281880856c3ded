"""What lies between two stations: strength, loss, latency, range."""

from __future__ import annotations

from dataclasses import dataclass

NEAR_DBM = -60


@dataclass(slots=True, kw_only=True)
class RadioPath:
    """The air between two stations, both directions alike. Set at will while it is in use.

    `loss` and `advertisement_loss` are probabilities per packet. A lost data packet is sent again a connection
    interval later, as on a real link, so it costs time only; data is lost with the connection and never before.
    """

    rssi_dbm: int = NEAR_DBM
    jitter_db: int = 0
    advertisement_loss: float = 0.0
    loss: float = 0.0
    latency_s: float = 0.0
    interval_s: float = 0.03
    """Connection interval: what one retransmission costs."""
    is_out_of_range: bool = False
