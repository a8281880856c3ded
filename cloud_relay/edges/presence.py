"""Which boxes are connected now, as they say themselves (`up/status` and its last will)."""

from __future__ import annotations

from datetime import datetime

from core.domain.clock import Clock
from core.domain.ids import EdgeId


class Presence:
    """In memory: the broker keeps the truth as retained messages and repeats it when the relay subscribes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._online: dict[EdgeId, bool] = {}
        self._seen_at: dict[EdgeId, datetime] = {}

    def mark(self, edge_id: EdgeId, *, is_online: bool) -> None:
        """The box said so, or its last will did."""
        if is_online:
            self.touch(edge_id)
        self._online[edge_id] = is_online

    def touch(self, edge_id: EdgeId) -> None:
        """Something came from the box."""
        self._seen_at[edge_id] = self._clock.now()

    def forget(self, edge_id: EdgeId) -> None:
        """The box is no longer linked."""
        self._online.pop(edge_id, None)
        self._seen_at.pop(edge_id, None)

    def is_online(self, edge_id: EdgeId) -> bool | None:
        """None while nobody has said."""
        return self._online.get(edge_id)

    def seen_at(self, edge_id: EdgeId) -> datetime | None:
        """When something last came from the box, within this process."""
        return self._seen_at.get(edge_id)
