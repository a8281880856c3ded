"""Entries that arrive together from another box: what has to hold before, and how they come to be all or none."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.domain.errors import ConflictError, LimitExceededError
from core.domain.ids import EntryId
from core.domain.limits import ENTRIES
from core.domain.secretive import hidden_repr
from core.platform.entry import EntryRecord, ImportedBundle
from core.platform.entry_store import EntryStore
from core.platform.secret_store import SecretStore


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Arrivals:
    """The entries of one bundle, and their secrets by entry."""

    records: Sequence[EntryRecord]
    secrets: Mapping[EntryId, Mapping[str, str]]
    bundle: ImportedBundle

    __repr__ = hidden_repr


def require_first(bundle_id: str, store: EntryStore) -> None:
    """ConflictError, which says when, for a bundle that was imported here before."""
    before = store.imported(bundle_id)
    if before is not None:
        raise ConflictError(
            f"this bundle was imported here at {before.imported_at:%Y-%m-%d %H:%M} UTC ({', '.join(before.titles)})",
            hint="A bundle is good for one import. Have a new one made if an entry is missing.",
        )


def require_importable(arrivals: Arrivals, store: EntryStore, *, known: Sequence[EntryRecord]) -> None:
    """ConflictError: imported before, or an entry of the same device or account is here (or twice in the bundle).
    LimitExceededError: too many entries."""
    require_first(arrivals.bundle.bundle_id, store)
    if len(known) + len(arrivals.records) > ENTRIES:
        raise LimitExceededError(f"at most {ENTRIES} entries")
    counts = Counter((r.domain, r.unique_id or "") for r in [*known, *arrivals.records])
    twice = [r.title for r in arrivals.records if r.unique_id and counts[r.domain, r.unique_id] > 1]
    if twice:
        raise ConflictError(
            f"this box has {', '.join(twice)} already; nothing was imported",
            hint="Remove the entry here first, or have a bundle made without it.",
        )


async def write_import(arrivals: Arrivals, store: EntryStore, secrets: SecretStore) -> None:
    """All of it on the disk, or (after an error, or a power cut and the next start) nothing. The entries and the
    memory of their bundle are one write; the secrets come before it and are found by what `begin_import` noted."""
    try:
        await store.begin_import([record.entry_id for record in arrivals.records])
        for entry_id, values in arrivals.secrets.items():
            secrets.change(entry_id, values)
        await secrets.flush()
        await store.commit_import(arrivals.records, arrivals.bundle)
    except BaseException as err:
        if not isinstance(err, asyncio.CancelledError):  # cut off, the last write may still come: the next start looks
            for entry_id in arrivals.secrets:
                secrets.remove(entry_id)
        raise
