"""Driving by hand: one frame of a joystick, what a frame may hold, and why a drive session ends."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from core.domain import limits
from core.domain.commands import IssuedBy
from core.domain.errors import Mistake
from core.domain.ids import CommandId, MowerId

SEQUENCE_MAX = 2**53 - 1


class DriveFrame(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`linear` (forward) and `angular` (to the left) from -1 to 1; the mower stops when no newer frame arrives within
    `ttl_ms`."""

    sequence: int
    """Grows with every frame of a session. A frame that is not newer than the last one stops the mower."""
    linear: float
    angular: float
    ttl_ms: int = limits.DRIVE_FRAME_TTL_MS
    sent_ms: int | None = None
    """The sender's own steady clock (any zero). Frames that were much longer on their way than the fastest one are
    too old to be obeyed; a host fills it in when a client leaves it out."""


class DriveEnd(StrEnum):
    """Why a drive session ended, in the words of the command's final reason."""

    DRIVER = "ended by the driver"
    PERSON = "ended by somebody else"
    TIME = "its time was over"
    IDLE = "no frames came any more"
    COMMAND = "ended by another command"
    STOP = "ended by an emergency stop"
    DISCONNECTED = "the driver's connection ended"
    RIGHT_LOST = "the driver may not drive any more"
    LEFT_MANUAL = "the mower is not driven by hand any more"
    BLADES = "the blades turned"
    LINK_LOST = "the mower is out of reach"
    REMOVED = "the mower was removed from the box"


class DriveSession(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody drives a mower by hand. The session is the life of their `manual_drive` command."""

    session_id: CommandId
    mower_id: MowerId
    driver: IssuedBy
    began_at: datetime
    ends_at: datetime
    """It does not live longer, whatever the driver does."""


def find_frame_mistakes(frame: DriveFrame) -> tuple[Mistake, ...]:
    """Every value of the frame outside what may be driven; empty when all is well."""
    lowest, highest = limits.DRIVE_FRAME_TTL_MS_MIN, limits.DRIVE_FRAME_TTL_MS_MAX
    found = []
    if not 0 <= frame.sequence <= SEQUENCE_MAX:
        found.append(Mistake(field="sequence", reason=f"must be between 0 and {SEQUENCE_MAX}"))
    for name in ("linear", "angular"):
        if not -1.0 <= getattr(frame, name) <= 1.0:  # NaN compares false and is refused
            found.append(Mistake(field=name, reason="must be between -1 and 1"))
    if not lowest <= frame.ttl_ms <= highest:
        found.append(Mistake(field="ttl_ms", reason=f"must be between {lowest} and {highest}"))
    if frame.sent_ms is not None and not 0 <= frame.sent_ms <= SEQUENCE_MAX:
        found.append(Mistake(field="sent_ms", reason=f"must be between 0 and {SEQUENCE_MAX}"))
    return tuple(found)
