"""Config entries on the disk: one JSON file, small, replaced whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from core.domain.clock import Clock
from core.domain.errors import NotFoundError
from core.domain.ids import EntryId
from core.platform.durable_file import JsonDocument
from core.platform.entry import EntryRecord, IgnoredDevice, ImportedBundle

FORMAT = 2
"""2: with the bundles that were imported; an older Mowdeck would forget them and import one again."""
IMPORTS_KEPT = 500


class _Body(msgspec.Struct, frozen=True, kw_only=True):
    entries: tuple[EntryRecord, ...] = ()
    ignored: tuple[IgnoredDevice, ...] = ()
    imported: tuple[ImportedBundle, ...] = ()
    importing: tuple[EntryId, ...] = ()
    """Entries of an import that has begun. Those that are not among `entries` never will be."""


class EntryStore:
    """All entries in memory and, once a method has returned, on the disk. StorageError: neither has changed."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._document = JsonDocument(path, _Body, version=FORMAT, clock=clock)
        self._entries: dict[EntryId, EntryRecord] = {}
        self._ignored: dict[tuple[str, str], IgnoredDevice] = {}
        self._imported: dict[str, ImportedBundle] = {}
        self._importing: tuple[EntryId, ...] = ()

    def load(self) -> None:
        """Reads the file. DatabaseNewerError; a corrupt file is moved aside and named in `problem`."""
        body = self._document.load() or _Body()
        self._entries = {entry.entry_id: entry for entry in body.entries}
        self._ignored = {(device.domain, device.unique_id): device for device in body.ignored}
        self._imported = {bundle.bundle_id: bundle for bundle in body.imported}
        self._importing = tuple(entry_id for entry_id in body.importing if entry_id not in self._entries)

    @property
    def problem(self) -> str | None:
        """What was wrong with the file when it was loaded."""
        return self._document.problem

    def entries(self) -> Sequence[EntryRecord]:
        return tuple(self._entries.values())

    def ignored(self) -> Sequence[IgnoredDevice]:
        return tuple(self._ignored.values())

    def is_ignored(self, domain: str, unique_id: str) -> bool:
        return (domain, unique_id) in self._ignored

    async def put(self, entry: EntryRecord) -> None:
        """Adds or replaces an entry; adding one ends the ignoring of its device."""
        before, ignored = self._entries.get(entry.entry_id), dict(self._ignored)
        self._entries[entry.entry_id] = entry
        self._ignored.pop((entry.domain, entry.unique_id or ""), None)
        try:
            await self._save()
        except BaseException:
            self._ignored = ignored
            if before is None:
                self._entries.pop(entry.entry_id, None)
            else:
                self._entries[entry.entry_id] = before
            raise

    async def remove(self, entry_id: EntryId) -> None:
        """Forgets an entry; nothing happens when there is none."""
        before = self._entries.pop(entry_id, None)
        if before is None:
            return
        try:
            await self._save()
        except BaseException:
            self._entries[entry_id] = before
            raise

    async def ignore(self, device: IgnoredDevice) -> None:
        """Remembers a device that discovery shall not offer again."""
        self._ignored[device.domain, device.unique_id] = device
        await self._save()

    def imported(self, bundle_id: str) -> ImportedBundle | None:
        """When a bundle was imported; None when it never was."""
        return self._imported.get(bundle_id)

    def unfinished(self) -> Sequence[EntryId]:
        """Entries of an import that was cut off before anything of it counted; their secrets may be left."""
        return self._importing

    async def begin_import(self, entry_ids: Sequence[EntryId]) -> None:
        """Remembers the entries that are about to come, so that a box that is cut off finds what it left."""
        self._importing = tuple(entry_ids)
        await self._save()

    async def commit_import(self, records: Sequence[EntryRecord], bundle: ImportedBundle) -> None:
        """All entries and the memory of their bundle, in one step."""
        before = self._entries, self._ignored, self._imported, self._importing
        kept = sorted(self._imported.values(), key=lambda one: one.expires_at)[-(IMPORTS_KEPT - 1) :]
        self._entries = {**self._entries, **{record.entry_id: record for record in records}}
        gone = {(record.domain, record.unique_id or "") for record in records}
        self._ignored = {key: device for key, device in self._ignored.items() if key not in gone}
        self._imported = {one.bundle_id: one for one in [*kept, bundle]}
        self._importing = ()
        try:
            await self._save()
        except BaseException:
            self._entries, self._ignored, self._imported, self._importing = before
            raise

    async def unignore(self, domain: str, unique_id: str) -> None:
        """Forgets that a device was ignored; NotFoundError when it was not."""
        device = self._ignored.pop((domain, unique_id), None)
        if device is None:
            raise NotFoundError(f"{unique_id!r} of {domain} is not ignored")
        try:
            await self._save()
        except BaseException:
            self._ignored[domain, unique_id] = device
            raise

    async def _save(self) -> None:
        body = _Body(
            entries=tuple(self._entries.values()),
            ignored=tuple(self._ignored.values()),
            imported=tuple(self._imported.values()),
            importing=self._importing,
        )
        await self._document.save(body)
