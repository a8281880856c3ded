"""Whether this machine uses Wi-Fi on 2.4 GHz now, from what the kernel tells everybody. Unknown is unknown."""

from __future__ import annotations

import fcntl
import socket
import struct
from collections.abc import Callable
from pathlib import Path

NET = Path("/sys/class/net")
PROC = Path("/proc/net/wireless")
SIOCGIWFREQ = 0x8B05
"""Asks an interface for its frequency (linux/wireless.h); answered by every driver that /proc/net/wireless lists."""
BAND_MHZ = range(2400, 2500)
CHANNELS = range(1, 15)

FrequencyOf = Callable[[str], float | None]


def read_frequency_mhz(interface: str) -> float | None:
    """The frequency that an interface is on; None when it does not say."""
    request = struct.pack("16sihBB", interface.encode()[:15], 0, 0, 0, 0)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            answer = fcntl.ioctl(any_socket, SIOCGIWFREQ, request.ljust(32, b"\0"))
    except OSError:
        return None
    return decode_frequency_mhz(answer)


def decode_frequency_mhz(answer: bytes) -> float | None:
    """Of the kernel's `struct iwreq`: mantissa and exponent in Hz, or the number of a channel."""
    _name, mantissa, exponent, _index, _flags = struct.unpack_from("16sihBB", answer)
    if exponent == 0 and mantissa < 1000:
        return 2407.0 + 5 * mantissa if mantissa in CHANNELS else None
    hertz: float = mantissa * 10.0**exponent
    return hertz / 1e6


def linked_interfaces(text: str) -> set[str]:
    """The interfaces of /proc/net/wireless that have a link: their quality is above nothing."""
    found = set()
    for line in text.splitlines()[2:]:
        name, _, rest = line.partition(":")
        fields = rest.split()
        if len(fields) >= 2 and fields[1].rstrip(".").lstrip("-").isdigit() and int(fields[1].rstrip(".")) > 0:
            found.add(name.strip())
    return found


def uses_wifi_24_ghz(
    *, net: Path = NET, proc: Path = PROC, frequency_of: FrequencyOf = read_frequency_mhz
) -> bool | None:
    """True or False, or None when the kernel does not say. Blocks for a moment."""
    try:
        radios = {entry.name for entry in net.iterdir() if (entry / "phy80211").exists()}
        up = {name for name in radios if (net / name / "operstate").read_text().strip() == "up"}
    except OSError:
        return None
    if not up:
        return False
    try:
        linked = linked_interfaces(proc.read_text())
    except OSError:
        return None
    frequencies = [frequency_of(name) for name in sorted(linked)]
    if any(found is not None and int(found) in BAND_MHZ for found in frequencies):
        return True
    return None if None in frequencies or up - linked else False
