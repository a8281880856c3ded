"""How long a line to a proxy waits, and for what."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Seconds."""

    connect_s: float = 20.0
    """For a connection, and for who it is."""
    confirm_s: float = 10.0
    """For the scanner's state. The firmware answers an accepted subscription with it at once, a second one not at all."""
    keepalive_s: float = 10.0
    """Between pings; a proxy that is silent for 4.5 of them is gone."""
    retry_first_s: float = 2.0
    retry_max_s: float = 60.0
    person_s: float = 300.0
    """Between tries that only a person, or other firmware, can make succeed."""
