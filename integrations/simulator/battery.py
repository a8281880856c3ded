"""The battery: drains by load, charges fast to 80 % and slower above. Pure; percent and seconds."""

from __future__ import annotations

from dataclasses import dataclass

CUTTING_S = 5_400.0
"""A full battery mows this long."""
DRIVING_S = 14_000.0
STANDING_S = 60.0 * 3_600.0
_FAST_CHARGE_S = 3_600.0
"""From empty to full at the fast rate; above the knee the rate falls."""
_KNEE = 80.0
_SLOWEST = 0.15
GO_HOME_AT = 18.0
GO_ON_AT = 90.0
START_AT = 25.0
"""Below it the machine refuses a new job."""


@dataclass(slots=True)
class Battery:
    """`percent` stays between 0 and 100 whatever is asked of it."""

    percent: float = 100.0

    @property
    def is_full(self) -> bool:
        return self.percent >= 100.0

    @property
    def is_empty(self) -> bool:
        return self.percent <= 0.0

    def drain(self, seconds: float, lasting_s: float) -> None:
        """Use for `seconds` at a load that empties a full battery in `lasting_s`."""
        self.percent = max(0.0, self.percent - 100.0 * seconds / lasting_s)

    def charge(self, seconds: float) -> None:
        rate = 1.0 if self.percent < _KNEE else max(_SLOWEST, (100.0 - self.percent) / (100.0 - _KNEE))
        self.percent = min(100.0, self.percent + 100.0 * rate * seconds / _FAST_CHARGE_S)
