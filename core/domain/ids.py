"""Identifiers: one NewType per thing, one maker and one parser for all of them.

An id is 26 characters of Crockford base32 (a ULID, lower case): 48 bits of milliseconds, then 80 random
bits, so ids sort by age. Foreign ids (from the wire) only need to be safe as an MQTT topic level.
"""

from __future__ import annotations

import re
import secrets
from datetime import datetime
from typing import NewType

from core.domain.errors import InvalidInputError

AccountId = NewType("AccountId", str)
SiteId = NewType("SiteId", str)
GroupId = NewType("GroupId", str)
MowerId = NewType("MowerId", str)
EdgeId = NewType("EdgeId", str)
UserId = NewType("UserId", str)
CommandId = NewType("CommandId", str)
EntryId = NewType("EntryId", str)
FlowId = NewType("FlowId", str)
StreamId = NewType("StreamId", str)
"""One life of a box's database; a restored or reset database gets a new one."""
BootId = NewType("BootId", str)
"""One boot of the box's kernel; monotonic stamps compare only within it."""

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_SAFE = re.compile(r"[A-Za-z0-9_-]{1,64}")


def make_id(now: datetime, randomness: bytes | None = None) -> str:
    """A new id for an aware `now`. `randomness` is 10 bytes, by default from the system."""
    noise = secrets.token_bytes(10) if randomness is None else randomness
    if len(noise) != 10:
        raise ValueError("randomness must be 10 bytes")
    number = (int(now.timestamp() * 1000) << 80) | int.from_bytes(noise)
    return "".join(_ALPHABET[(number >> shift) & 31] for shift in range(125, -1, -5))


def is_safe_id(text: str) -> bool:
    """Whether `text` can be an id: `[A-Za-z0-9_-]`, 1 to 64 characters (safe in topics of every broker)."""
    return _SAFE.fullmatch(text) is not None


def parse_id(text: str, field: str = "id") -> str:
    """`text` if it can be an id, else InvalidInputError naming `field`."""
    if not is_safe_id(text):
        raise InvalidInputError.of(field, "must be 1 to 64 letters, digits, '-' or '_'")
    return text
