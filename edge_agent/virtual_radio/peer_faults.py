"""What can be wrong with an emulated mower's firmware, on demand. Faults of the air are in `RadioPath`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class PeerFaults:
    """All off by default. Counters count down; set them again for more."""

    lose_notifications: int = 0
    """The next so many notifications are not sent."""
    corrupt_notifications: int = 0
    """The next so many have their last byte inverted."""
    is_merging: bool = False
    """Notifications that wait together go out as one, as far as the MTU allows."""
    hang_up_after: int | None = None
    """The link is cut right after so many more notifications: 1 with a two-part answer is a drop mid-frame."""
    answer_delay_s: float = 0.0
    """Notifications leave this much later."""
    is_mute: bool = False
    """Writes are acknowledged and then ignored."""
    is_pairing_closed: bool = False
    """Refuses to pair, whatever the mower's own policy says."""
    is_occupied: bool = False
    """A phone holds the only connection: nobody else can connect. Call `refresh` after changing it."""
    is_heard_while_occupied: bool = False
    """It then still advertises, not connectable, as some mowers do."""
