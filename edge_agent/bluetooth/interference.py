"""Whether connects of one adapter are disturbed, and whether they are so while the box itself uses Wi-Fi on 2.4 GHz. Pure.

An on-board radio shares its antenna with Wi-Fi; a connection that comes up and breaks off at once is how it shows.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

WINDOW_S = 3600.0
OUTCOMES = 256
LEAST = 3
SHARE = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One connect. `has_wifi`: Wi-Fi on 2.4 GHz was active on the box; None is unknown."""

    at: float
    is_disturbed: bool
    has_wifi: bool | None


class Interference:
    """Of one adapter, over the last hour. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._outcomes: deque[Outcome] = deque(maxlen=OUTCOMES)

    def note(self, outcome: Outcome) -> None:
        """A connect that came up, or was disturbed. Other failures say nothing about the radio."""
        self._outcomes.append(outcome)

    def advice(self, now: float) -> str | None:
        """For a person; None when all is well. Says what was counted, and claims no more than that."""
        recent = [one for one in self._outcomes if now - one.at <= WINDOW_S]
        disturbed = [one for one in recent if one.is_disturbed]
        if len(disturbed) < LEAST or len(disturbed) < SHARE * len(recent):
            return None
        counted = f"{len(disturbed)} of {len(recent)} connects of the last hour were disturbed"
        with_wifi = _counts([one for one in recent if one.has_wifi])
        without = _counts([one for one in recent if one.has_wifi is False])
        if with_wifi[1] and with_wifi[0] * max(without[1], 1) > without[0] * with_wifi[1]:
            return (
                f"{counted}: {with_wifi[0]} of {with_wifi[1]} while this box used Wi-Fi on 2.4 GHz, {without[0]} of "
                f"{without[1]} while it did not. Use a network cable or 5 GHz Wi-Fi, or a USB Bluetooth dongle."
            )
        if without[1]:
            return (
                f"{counted}, not only while this box used Wi-Fi on 2.4 GHz. Look for USB 3 devices and other radios "
                "near the adapter, or use a USB Bluetooth dongle on an extension lead."
            )
        return (
            f"{counted}; whether this box uses Wi-Fi on 2.4 GHz is not known. If it does, use a network cable or "
            "5 GHz Wi-Fi."
        )


def _counts(outcomes: list[Outcome]) -> tuple[int, int]:
    return sum(one.is_disturbed for one in outcomes), len(outcomes)
