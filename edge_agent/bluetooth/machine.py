"""The Bluetooth adapters that the kernel knows; asked without loading any library."""

from __future__ import annotations

import re
from pathlib import Path

SYSFS = Path("/sys/class/bluetooth")
ADAPTER = re.compile(r"hci\d{1,2}")


def machine_adapters(sysfs: Path = SYSFS) -> list[str]:
    """The adapters that the kernel knows; blocks for a moment."""
    if not sysfs.is_dir():
        return []
    names = [entry.name for entry in sysfs.iterdir() if ADAPTER.fullmatch(entry.name)]
    return sorted(names, key=lambda name: int(name.removeprefix("hci")))
