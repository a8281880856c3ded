"""What the intake knows of one mower: its links' lanes, and what each link has told, which makes its one state."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import msgspec

from core.domain import limits
from core.domain.clock import EPOCH
from core.domain.ids import EntryId
from core.domain.mower import MOVING, Connectivity, LinkKind, MowerState, Signals
from core.telemetry.merging import Share, Standing, merge
from edge_agent.runtime.carrier import LinkKey, preference
from edge_agent.runtime.lane import Lane

View = tuple[dict[LinkKey, Standing], LinkKind | None]
"""What a state depends on beside the reports: how far each link is believed, and which one commands would use."""


@dataclass(slots=True)
class Feed:
    """Times are monotonic seconds unless they say otherwise."""

    lanes: dict[LinkKey, Lane] = field(default_factory=dict)
    """Of the links that are open."""
    ended: deque[Lane] = field(default_factory=deque)
    """Closed lanes whose last reports are not taken yet."""
    speaking: dict[LinkKey, Lane] = field(default_factory=dict)
    """Lanes whose newest report reached the mower: while there is one, the mower is online."""
    last: MowerState | None = None
    """The newest state as handed on, overlay included."""
    published_at: float = 0.0
    lost_at: float | None = None
    """Since when no link reaches the mower."""
    view: View | None = None
    """As of the last state."""
    _shares: dict[LinkKey, Share] = field(default_factory=dict)
    _down_at: dict[LinkKey, float] = field(default_factory=dict)
    _leaving: set[EntryId] = field(default_factory=set)

    def take(self, lane: Lane, state: MowerState, now: datetime, monotonic: float) -> None:
        """A report. What a link repeats of a mower that is out of its reach is as old as its last sight of it."""
        key, before = lane.key, self._shares.get(lane.key)
        self._leaving.discard(key[1])
        if state.connectivity is Connectivity.OFFLINE:
            at = EPOCH if before is None else before.at
            self.speaking.pop(key, None)
            self._down_at.setdefault(key, monotonic)
        else:
            at = min(state.observed_at, now)
            self.speaking[key] = lane
            self._down_at.pop(key, None)
        share = Share(at=at, sequence=0 if before is None else before.sequence + 1, state=state, told=lane.told)
        self._shares[key] = share if before is None else before.join(share)
        self._drop_outlived()

    def hush(self, lane: Lane, monotonic: float) -> bool:
        """The lane has ended and said its last; whether that leaves nobody who reaches the mower."""
        if self.speaking.get(lane.key) is lane:
            del self.speaking[lane.key]
            self._down_at[lane.key] = monotonic
        is_awaited = any(
            not other.says_offline and (other.said is not None or other.key == lane.key)
            for other in (*self.lanes.values(), *self.ended)
        )
        return not self.speaking and not is_awaited

    def look(self, monotonic: float) -> View:
        """How things stand now."""
        standing = {key: self._standing(key, monotonic) for key in self._shares}
        lanes = self.lanes or self.speaking
        first = min(lanes.values(), key=lambda lane: preference(lane.key, says_offline=lane.says_offline), default=None)
        return standing, None if first is None else first.key[2]

    def merged(self, view: View) -> MowerState:
        """The one state of all that was told. While no link reaches the mower, the last sight of it counts whole."""
        standing, active = view
        state = merge(self._shares, standing if self.speaking else {})
        return msgspec.structs.replace(
            state,
            connectivity=Connectivity.ONLINE if self.speaking else Connectivity.OFFLINE,
            signals=msgspec.structs.replace(state.signals or Signals(), active_link=active),
        )

    def shift(self, seconds: float) -> None:
        """The wall clock was set: what was seen before is as old as it was."""
        step = timedelta(seconds=seconds)
        self._shares = {key: replace(share, at=share.at + step) for key, share in self._shares.items()}

    def forget_entry(self, entry_id: EntryId) -> None:
        """The entry has gone: what it told goes as soon as another link has told something newer."""
        self._leaving.add(entry_id)
        self._drop_outlived()

    def _drop_outlived(self) -> None:
        newest = max((share.at for key, share in self._shares.items() if key[1] not in self._leaving), default=EPOCH)
        for key in [key for key, share in self._shares.items() if key[1] in self._leaving and share.at < newest]:
            del self._shares[key]
            self._down_at.pop(key, None)

    def _standing(self, key: LinkKey, monotonic: float) -> Standing:
        lane = self.speaking.get(key)
        if lane is not None:
            is_silent = monotonic - lane.heard_at >= limits.SILENT_AFTER_S
            return Standing.DOUBTED if is_silent and self._shares[key].state.activity in MOVING else Standing.UP
        is_old = monotonic - self._down_at.get(key, monotonic) >= limits.STALE_AFTER_S
        return Standing.DOUBTED if is_old else Standing.DOWN
