"""The settings of one entry: who the mower is, and how often it is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import voluptuous as vol

from core.domain.errors import EntryError
from core.platform.bluetooth_address import read_address
from core.platform.integration import Entry

PIN = "pin"
"""Secret: the PIN that a person has typed and the mower has told."""


def _seconds(least: float, most: float) -> Any:
    return vol.All(vol.Any(int, float), vol.Coerce(float), vol.Range(min=least, max=most))


SCHEMA = vol.Schema(
    {
        vol.Required("address"): read_address,
        vol.Required("name"): vol.All(str, vol.Length(min=1, max=64)),
        vol.Optional("releases", default=True): bool,
        vol.Optional("verifies_sign_in", default=False): bool,
        vol.Optional("poll_moving_s", default=30.0): _seconds(0.05, 300),
        vol.Optional("poll_standing_s", default=300.0): _seconds(0.05, 3600),
        vol.Optional("poll_low_s", default=1200.0): _seconds(0.05, 3600),
        vol.Optional("answer_s", default=5.0): _seconds(0.05, 10),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MowerSettings:
    """A checked entry. Durations are seconds."""

    address: str
    name: str
    releases: bool
    """Whether the connection is let go while the mower stands, so that the vendor's app can have it."""
    verifies_sign_in: bool
    """Whether the mower is asked for its PIN once after each set-up: another one than ours asks for a person."""
    poll_moving_s: float
    poll_standing_s: float
    poll_low_s: float
    answer_s: float
    """How long an answer may take."""

    @property
    def serial(self) -> str:
        """These mowers tell no serial number; their address is lasting and their own."""
        return self.address.replace(":", "").lower()

    @classmethod
    def of(cls, entry: Entry) -> Self:
        """EntryError, without any value, when the entry's data or options are wrong."""
        try:
            values: Mapping[str, Any] = SCHEMA({**entry.data, **entry.options})
        except vol.MultipleInvalid as err:
            fields = ", ".join(sorted({str(mistake.path[0]) for mistake in err.errors if mistake.path}))
            raise EntryError(f"wrong settings: {fields}") from err
        return cls(**values)
