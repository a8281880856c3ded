"""What a box said of itself in its last hello, as the relay keeps it."""

from __future__ import annotations

from datetime import datetime

import msgspec

from core.domain.ids import BootId, MowerId, StreamId
from core.sync.messages import Hello


class MowerNote(msgspec.Struct, frozen=True, kw_only=True):
    """A mower of the box that is not (or not fully) in the fleet, and why."""

    mower_id: MowerId
    reason: str


class EdgeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of one hello. `clock_skew_s` is the box's clock minus the relay's (transport time included)."""

    mowdeck_version: str
    wire_version: int
    boot_id: BootId
    received_at: datetime
    clock_skew_s: float
    is_clock_synchronised: bool
    stream_id: StreamId
    last_seq: int
    acked_seq: int
    has_emergency_lane: bool
    failed: tuple[MowerNote, ...] = ()
    """Registrations that the box could not set up."""
    duplicates: tuple[MowerNote, ...] = ()
    """Mowers whose vendor and serial the account has under another id."""
    refused: tuple[MowerNote, ...] = ()
    """Mowers that belong to another account or box, or did not fit any more."""
    notices: tuple[str, ...] = ()
    """What the box says of its storage."""


def facts_of(
    hello: Hello,
    received_at: datetime,
    *,
    duplicates: tuple[MowerNote, ...],
    refused: tuple[MowerNote, ...],
) -> EdgeFacts:
    """The facts of a hello that came at `received_at`."""
    return EdgeFacts(
        mowdeck_version=hello.mowdeck_version[:64],
        wire_version=hello.wire_version,
        boot_id=hello.boot_id,
        received_at=received_at,
        clock_skew_s=round((hello.sent_at - received_at).total_seconds(), 3),
        is_clock_synchronised=hello.is_clock_synchronised,
        stream_id=hello.stream_id,
        last_seq=hello.last_seq,
        acked_seq=hello.acked_seq,
        has_emergency_lane=hello.emergency_lane,
        failed=tuple(
            MowerNote(mower_id=one.mower_id, reason=one.reason[:400]) for one in hello.failed_registrations[:100]
        ),
        duplicates=duplicates,
        refused=refused,
        notices=tuple(notice[:400] for notice in hello.notices[:10]),
    )
