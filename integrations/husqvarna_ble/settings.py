"""The settings of one entry: who the mower is, and how often it is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import voluptuous as vol

from core.domain.errors import EntryError
from core.platform.bluetooth_address import read_address
from core.platform.integration import Entry
from integrations.husqvarna_ble.wire import Model

PIN = "pin"
REFUSED_PIN = "refused_pin"
"""Secrets: the PIN, and the one that the mower has refused (it is not sent again unless a person wants it)."""


def _seconds(least: float, most: float) -> Any:
    return vol.All(vol.Any(int, float), vol.Coerce(float), vol.Range(min=least, max=most))


SCHEMA = vol.Schema(
    {
        vol.Required("address"): read_address,
        vol.Required("channel"): vol.All(int, vol.Range(min=1, max=0xFFFFFFFF)),
        vol.Required("serial"): vol.All(str, vol.Length(min=1, max=32)),
        vol.Required("name"): vol.All(str, vol.Length(min=1, max=64)),
        vol.Optional("device_type"): vol.All(int, vol.Range(min=0, max=255)),
        vol.Optional("variant"): vol.All(int, vol.Range(min=0, max=255)),
        vol.Optional("releases", default=True): bool,
        vol.Optional("poll_moving_s", default=30.0): _seconds(0.05, 300),
        vol.Optional("poll_standing_s", default=300.0): _seconds(0.05, 3600),
        vol.Optional("poll_fault_s", default=1200.0): _seconds(0.05, 3600),
        vol.Optional("settle_s", default=3.0): _seconds(0.0, 10),
        vol.Optional("answer_s", default=10.0): _seconds(0.05, 30),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MowerSettings:
    """A checked entry. Durations are seconds."""

    address: str
    channel: int
    serial: str
    name: str
    model: Model | None
    releases: bool
    """Whether the connection is let go while the mower stands, so that the vendor's app can have it."""
    poll_moving_s: float
    poll_standing_s: float
    poll_fault_s: float
    settle_s: float
    """Between the connection and the first word; mowers that are spoken to sooner do not answer."""
    answer_s: float
    """How long an answer may take."""

    @classmethod
    def of(cls, entry: Entry) -> Self:
        """EntryError, without any value, when the entry's data or options are wrong."""
        try:
            values: Mapping[str, Any] = SCHEMA({**entry.data, **entry.options})
        except vol.MultipleInvalid as err:
            fields = ", ".join(sorted({str(mistake.path[0]) for mistake in err.errors if mistake.path}))
            raise EntryError(f"wrong settings: {fields}") from err
        has_model = "device_type" in values and "variant" in values
        model = Model(device_type=values["device_type"], variant=values["variant"]) if has_model else None
        return cls(
            address=values["address"],
            channel=values["channel"],
            serial=values["serial"],
            name=values["name"],
            model=model,
            releases=values["releases"],
            poll_moving_s=values["poll_moving_s"],
            poll_standing_s=values["poll_standing_s"],
            poll_fault_s=values["poll_fault_s"],
            settle_s=values["settle_s"],
            answer_s=values["answer_s"],
        )
