"""The newest state of every mower, in memory, and those who want to hear of each new one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from core.domain import limits
from core.domain.errors import LimitExceededError
from core.domain.ids import AccountId, MowerId
from core.domain.mower import MowerState
from core.web.ports import LiveState

_log = structlog.get_logger(__name__)

SUBSCRIBERS = 256
"""Listeners at once (the recorder, the relay's lane, running commands); more is a leak."""

Listener = Callable[[MowerId, MowerState], None]
Undo = Callable[[], None]


class LiveStates:
    """`put` is called by the intake; listeners are called at once, in order, and must not block.

    Implements `core.web.ports.LiveStates` for the one account of the box.
    """

    def __init__(self, *, account_id: Callable[[], AccountId]) -> None:
        self._account_id = account_id
        self._states: dict[MowerId, MowerState] = {}
        self._listeners: dict[int, tuple[Listener, MowerId | None]] = {}
        self._next = 0

    def put(self, mower_id: MowerId, state: MowerState) -> None:
        """The newest state of a mower."""
        if mower_id not in self._states and len(self._states) >= limits.LAST_VALUES:
            raise LimitExceededError(f"more than {limits.LAST_VALUES} mowers")
        self._states[mower_id] = state
        for listener, only in list(self._listeners.values()):
            if only is not None and only != mower_id:
                continue
            try:
                listener(mower_id, state)
            except Exception:  # noqa: BLE001  (one listener's defect must not keep the state from the others)
                _log.exception("a listener failed", mower_id=mower_id)

    def forget(self, mower_id: MowerId) -> None:
        """The mower was removed."""
        self._states.pop(mower_id, None)

    def get(self, mower_id: MowerId) -> MowerState | None:
        return self._states.get(mower_id)

    def all(self) -> dict[MowerId, MowerState]:
        """A copy of what is known."""
        return dict(self._states)

    def subscribe(self, listener: Listener, *, only: MowerId | None = None) -> Undo:
        """Calls `listener` with each new state (of one mower, if named). Returns the undo, which may be called
        more than once. LimitExceededError beyond SUBSCRIBERS."""
        if len(self._listeners) >= SUBSCRIBERS:
            raise LimitExceededError(f"more than {SUBSCRIBERS} listeners")
        number, self._next = self._next, self._next + 1
        self._listeners[number] = (listener, only)
        return lambda: _drop(self._listeners, number)

    async def last(self, account_id: AccountId, mower_ids: Sequence[MowerId]) -> Sequence[LiveState]:
        """The newest states of the named mowers; nothing for an account that is not this box's."""
        if account_id != self._account_id():
            return ()
        return [
            LiveState(mower_id=mower_id, account_id=account_id, state=self._states[mower_id])
            for mower_id in mower_ids
            if mower_id in self._states
        ]


def _drop(listeners: dict[int, tuple[Listener, MowerId | None]], number: int) -> None:
    listeners.pop(number, None)
