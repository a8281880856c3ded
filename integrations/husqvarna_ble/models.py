"""Brands, models and what they can do over Bluetooth."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from core.domain.capabilities import Capabilities, Simple, Start
from integrations.husqvarna_ble.wire import Model

LONGEST_START_S = 24 * 3_600

_AUTOMOWER = Capabilities(
    start_mow=Start(confirm_timeout_s=30.0, max_duration_s=LONGEST_START_S),
    pause_mow=Simple(),
    resume_mow=Simple(confirm_timeout_s=30.0),
    return_to_dock=Simple(confirm_timeout_s=30.0),
    emergency_stop=Simple(confirm_timeout_s=15.0),
    reset_blade_usage=Simple(),
)
"""What the protocol is known to do. The height is only read: its steps are millimetres of no model that we know."""
_SMALL = msgspec.structs.replace(_AUTOMOWER, reset_blade_usage=None)
"""The small machines of the sister brands do not count the blades' time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A kind of mower. `vendor` and the serial number are the mower's identity over all links."""

    vendor: str
    name: str | None
    capabilities: Capabilities


BRANDS: dict[str, Capabilities] = {
    "husqvarna": _AUTOMOWER,
    "gardena": _SMALL,
    "flymo": _SMALL,
    "mcculloch": _SMALL,
}
_BRAND_WORDS = {"sileno": "gardena", "gardena": "gardena", "easilife": "flymo", "flymo": "flymo", "rob": "mcculloch"}
"""First words of the names that mowers of the sister brands give themselves."""

MODELS: dict[Model, tuple[str, str]] = {Model(device_type=23, variant=1): ("husqvarna", "Automower 305")}
"""Models whose numbers are known, with their brand."""


def product_of(model: Model | None, name: str) -> Product:
    """The kind of a mower: by its numbers, or else by the word that its name begins with; Husqvarna otherwise."""
    known = MODELS.get(model) if model is not None else None
    if known is not None:
        vendor, title = known
        return Product(vendor=vendor, name=title, capabilities=BRANDS[vendor])
    words = name.lower().split()
    vendor = _BRAND_WORDS.get(words[0], "husqvarna") if words else "husqvarna"
    title_unknown = None if model is None else f"{vendor.capitalize()} {model.device_type}.{model.variant}"
    return Product(vendor=vendor, name=title_unknown, capabilities=BRANDS[vendor])
