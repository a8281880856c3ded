"""Positions out of the NMEA 0183 sentences of a receiver: GGA and RMC, each with its checksum. Pure: bytes in, fixes out.

Only what was measured counts: a receiver that reckons on, simulates or repeats a place that somebody typed says so in
its sentences, and gives no fix here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LINE_BYTES = 256
"""Three times what the standard allows; a line that is longer is noise."""
_SENTENCE = re.compile(rb"\$([A-Z0-9]{2}(?:GGA|RMC)),([ -~]*)\*([0-9A-Fa-f]{2})")
_ANGLE = re.compile(r"(\d{2,3})(\d{2}(?:\.\d+)?)")
_MEASURED = frozenset("123459")
"""Qualities of GGA: autonomous, differential, PPS, RTK fixed, RTK float, and 9 (SBAS at some makers); not 6 estimated,
7 typed in, 8 simulated."""
_MEASURED_MODES = frozenset("ADFRP")
"""Modes of RMC: autonomous, differential, float, RTK, precise; not E, M, S or N."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """WGS84 degrees; satellites where the sentence says."""

    lat: float
    lon: float
    satellites: int | None = None


class NmeaReader:
    """Takes bytes however they are cut; holds back at most one unfinished line."""

    def __init__(self) -> None:
        self._rest = b""
        self.refused = 0
        """Sentences of ours with a wrong checksum or an impossible field."""

    def feed(self, data: bytes) -> list[Fix]:
        """The fixes of the sentences that are whole now."""
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest if len(rest) <= LINE_BYTES else b""
        found = [self._read(line) for line in lines if len(line) <= LINE_BYTES]
        return [fix for fix in found if fix is not None]

    def _read(self, line: bytes) -> Fix | None:
        sentence = _SENTENCE.fullmatch(line.strip())
        if sentence is None:
            return None
        kind, fields, checksum = sentence[1], sentence[2], sentence[3]
        if checksum_of(kind + b"," + fields) != int(checksum, 16):
            self.refused += 1
            return None
        words = fields.decode("ascii").split(",")
        try:
            return _gga(words) if kind.endswith(b"GGA") else _rmc(words)
        except ValueError:
            self.refused += 1
            return None


def checksum_of(body: bytes) -> int:
    """XOR of all bytes between `$` and `*`."""
    total = 0
    for byte in body:
        total ^= byte
    return total


def _gga(words: list[str]) -> Fix | None:
    """time, lat, N|S, lon, E|W, quality, satellites, ..."""
    if len(words) < 7 or words[5] not in _MEASURED:
        return None
    satellites = int(words[6]) if words[6].isdigit() else None
    return Fix(
        lat=_degrees(words[1], words[2], "NS", 90), lon=_degrees(words[3], words[4], "EW", 180), satellites=satellites
    )


def _rmc(words: list[str]) -> Fix | None:
    """time, A|V, lat, N|S, lon, E|W, speed, course, date, variation, E|W, mode (since NMEA 2.3), ..."""
    if len(words) < 6 or words[1] != "A" or (len(words) > 11 and words[11] not in _MEASURED_MODES):
        return None
    return Fix(lat=_degrees(words[2], words[3], "NS", 90), lon=_degrees(words[4], words[5], "EW", 180))


def _degrees(angle: str, side: str, sides: str, limit: int) -> float:
    """`ddmm.mmmm` and a side of the world as signed degrees; ValueError for what is none."""
    parts = _ANGLE.fullmatch(angle)
    if parts is None or len(side) != 1 or side not in sides:
        raise ValueError(angle)
    minutes = float(parts[2])
    degrees = int(parts[1]) + minutes / 60.0
    if minutes >= 60.0 or degrees > limit:
        raise ValueError(angle)
    return degrees if side == sides[0] else -degrees
