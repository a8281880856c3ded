"""A Bluetooth address as people and phones write it."""

from __future__ import annotations

import re
from typing import Any

import voluptuous as vol

_ADDRESS = re.compile(r"([0-9A-F]{2}:){5}[0-9A-F]{2}")


def read_address(value: Any) -> str:
    """`AA:BB:CC:DD:EE:FF`, also from lower case, dashes, or no separators at all. vol.Invalid (`invalid_address`) for
    anything else, so it stands in a schema too."""
    digits = re.sub(r"[\s:-]", "", str(value)).upper()
    found = ":".join(digits[at : at + 2] for at in range(0, len(digits), 2))
    if not _ADDRESS.fullmatch(found):
        raise vol.Invalid("invalid_address")
    return found
