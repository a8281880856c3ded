"""Tells listeners, after the commit, whose rights changed."""

from __future__ import annotations

from collections.abc import Callable

import structlog

Listener = Callable[[frozenset[str] | None], None]
"""Gets the subjects (or sessions) touched; None means that it could be anybody."""

_log = structlog.get_logger(__name__)


class Notifier:
    """Listeners are called in the order in which they came, within this process."""

    def __init__(self, name: str) -> None:
        """`name` is for the log, e.g. `grants.changed`."""
        self._name = name
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Adds a listener; the answer removes it (again and again is fine)."""
        self._listeners.append(listener)

        def undo() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return undo

    def notify(self, touched: frozenset[str] | None) -> None:
        """Call it after the commit, never before: a listener would read, and keep, the old rights."""
        for listener in tuple(self._listeners):
            try:
                listener(touched)
            except Exception:  # noqa: BLE001  (fire door: the change is committed, the other listeners must hear of it)
                _log.exception("listener failed", notifier=self._name)
