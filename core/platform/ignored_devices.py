"""Discovered devices that a person does not want to be offered."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from core.domain.clock import Clock
from core.platform.entry import IgnoredDevice
from core.platform.entry_store import EntryStore


class IgnoredDevices:
    """Kept with the config entries, so they survive a restart. Adding an entry for a device ends its ignoring."""

    def __init__(self, store: EntryStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._on_removed: list[Callable[[], None]] = []

    def list(self) -> Sequence[IgnoredDevice]:
        """All of them, oldest first."""
        return tuple(sorted(self._store.ignored(), key=lambda device: device.ignored_at))

    def holds(self, domain: str, unique_id: str) -> bool:
        """Whether discovery must not offer this device."""
        return self._store.is_ignored(domain, unique_id)

    async def add(self, domain: str, unique_id: str, title: str) -> None:
        """Discovery never offers this device again."""
        device = IgnoredDevice(domain=domain, unique_id=unique_id, title=title, ignored_at=self._clock.now())
        await self._store.ignore(device)

    async def remove(self, domain: str, unique_id: str) -> None:
        """Discovery may offer it again; NotFoundError when it was not ignored."""
        await self._store.unignore(domain, unique_id)
        for callback in self._on_removed:
            callback()

    def on_removed(self, callback: Callable[[], None]) -> None:
        """Calls back once a device may be offered again."""
        self._on_removed.append(callback)
