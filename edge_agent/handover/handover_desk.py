"""Packs chosen config entries for another box, and takes such a bundle in: checked, once, all of it or nothing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import structlog

from core.domain.clock import Clock
from core.domain.errors import (
    ConflictError,
    MowdeckError,
    NotFoundError,
    RequirementMissingError,
    UnavailableError,
)
from core.domain.ids import EntryId, make_id
from core.platform.entries import ConfigEntries
from core.platform.entry import EntryRecord, ImportedBundle, plain
from core.platform.entry_import import Arrivals, require_first, require_importable
from core.platform.handover.bundle import (
    BundleContent,
    BundleHeader,
    HandedEntry,
    HandedMower,
    pack,
    unpack,
)
from core.platform.handover.recipient import decode_key
from core.platform.handover.sealed_box import public_of
from core.platform.loader import Loader
from core.platform.registry import MowerRegistry
from edge_agent.handover.handover_key import HandoverKey

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """An integration that this box cannot use now, and what to do."""

    domain: str
    reason: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What is in a bundle, and what stands in the way."""

    header: BundleHeader
    content: BundleContent
    missing: tuple[Missing, ...]


class HandoverDesk:
    """`has_bond(address)`: whether this box has a Bluetooth bond with a peer. `is_clock_right`: whether an expiry can
    be judged."""

    def __init__(
        self,
        *,
        entries: ConfigEntries,
        registry: MowerRegistry,
        loader: Loader,
        clock: Clock,
        is_clock_right: Callable[[], bool],
        has_bond: Callable[[str], bool],
        box_name: str,
    ) -> None:
        self._entries = entries
        self._registry = registry
        self._loader = loader
        self._clock = clock
        self._is_clock_right = is_clock_right
        self._has_bond = has_bond
        self._box_name = box_name
        self._key = HandoverKey(entries.secrets)
        self._importing = asyncio.Lock()

    async def public_key(self) -> bytes:
        """What bundles for this box are sealed with."""
        return public_of(await self._key.private())

    # -- giving

    def export(self, entry_ids: Sequence[EntryId], *, recipient: str, keeps: timedelta) -> tuple[BundleHeader, str]:
        """Header and text of a bundle for the box that showed `recipient`. Nothing changes here. NotFoundError,
        InvalidInputError (the key), ConflictError (secrets that cannot be read), LimitExceededError (too large)."""
        self._require_clock()
        content = BundleContent(
            from_box=self._box_name,
            entries=tuple(self._handed(self._entries.record(entry_id)) for entry_id in dict.fromkeys(entry_ids)),
        )
        header, text = pack(
            content, recipient=decode_key(recipient), now=self._clock.now(), keeps=keeps, random=os.urandom
        )
        _log.info("entries packed", bundle_id=header.bundle_id, entries=len(content.entries), for_box=header.recipient)
        return header, text

    def _handed(self, record: EntryRecord) -> HandedEntry:
        if not self._entries.secrets.is_readable(record.entry_id):
            raise ConflictError(
                f"the secrets of {record.title} cannot be opened on this machine",
                hint="Enter its credentials anew first (the entry asks for them), then export again.",
            )
        mowers = self._registry.of_entry(record.entry_id)
        return HandedEntry(
            domain=record.domain,
            title=record.title,
            unique_id=record.unique_id,
            data=record.data,
            options=record.options,
            version=record.version,
            is_disabled=record.is_disabled,
            is_bonded=record.needs_pairing or self._is_bonded(record.data),
            secrets=dict(self._entries.secrets.read(record.entry_id)),
            mowers=tuple(
                HandedMower(key=m.key, name=m.name, given_name=m.name if m.has_given_name else None) for m in mowers
            ),
        )

    def _is_bonded(self, data: Mapping[str, Any]) -> bool:
        return any(isinstance(value, str) and self._has_bond(value) for value in data.values())

    # -- taking

    async def look(self, text: str) -> Look:
        """What an import would bring. Raises what stands in its way for good (see `unpack`; ConflictError: imported
        before)."""
        self._require_clock()
        header, content = unpack(text, private=await self._key.private(), now=self._clock.now())
        require_first(header.bundle_id, self._entries.store)
        missing = [await self._find_missing(entry) for entry in content.entries]
        named = {one.domain: one for one in missing if one is not None}
        return Look(header=header, content=content, missing=tuple(named.values()))

    async def take(self, text: str, *, even_if_missing: bool) -> tuple[Look, tuple[EntryId, ...]]:
        """Imports a bundle; the new entries. As `look`, and ConflictError: the box has a mower or an entry of it
        already, or lacks an integration (unless `even_if_missing`: its entries then say so). Then nothing was done."""
        async with self._importing:
            look = await self.look(text)
            if look.missing and not even_if_missing:
                raise ConflictError(
                    "; ".join(f"{one.domain}: {one.reason}" for one in look.missing),
                    hint=" ".join(dict.fromkeys(one.remedy for one in look.missing)),
                )
            self._require_new_mowers(look.content.entries)
            arrivals = await self._arrivals(look)
            require_importable(arrivals, self._entries.store, known=self._entries.records())
            await self._entries.add_imported(arrivals)
        entry_ids = tuple(record.entry_id for record in arrivals.records)
        _log.info("bundle imported", bundle_id=look.header.bundle_id, entries=len(entry_ids))
        return look, entry_ids

    def _require_clock(self) -> None:
        if not self._is_clock_right():
            raise UnavailableError(
                "this box does not know the time, so it cannot tell when a bundle ends",
                hint="Connect it to the network, wait a minute and try again.",
            )

    async def _find_missing(self, entry: HandedEntry) -> Missing | None:
        try:
            loaded = await self._loader.load(entry.domain)
        except RequirementMissingError as err:
            command = err.detail.partition("run: ")[2]
            return Missing(domain=entry.domain, reason=err.detail, remedy=f"Run: {command} and restart the box.")
        except NotFoundError:
            remedy = "Run: pip install --upgrade mowdeck, or copy its folder to the box's integrations, and restart."
            return Missing(domain=entry.domain, reason="this box does not have the integration", remedy=remedy)
        except MowdeckError as err:
            return Missing(domain=entry.domain, reason=err.detail, remedy=err.advice)
        if entry.version > loaded.entry_version:
            reason = f"the entry has version {entry.version}, the integration here {loaded.entry_version}"
            return Missing(domain=entry.domain, reason=reason, remedy="Run: pip install --upgrade mowdeck")
        return None

    def _require_new_mowers(self, handed: Sequence[HandedEntry]) -> None:
        """A mower whose entry was removed is known and free: it gets its records back."""
        entries = {record.entry_id for record in self._entries.records()}
        taken = {m.key: m.name for m in self._registry.mowers() if entries & m.links.keys()}
        for mower in (mower for entry in handed for mower in entry.mowers):
            if mower.key in taken:
                raise ConflictError(
                    f"this box has the mower {taken[mower.key]} already; nothing was imported",
                    hint="Remove its entry here first, or have a bundle made without it.",
                )

    async def _arrivals(self, look: Look) -> Arrivals:
        records = [await self._record(entry) for entry in look.content.entries]
        secrets = {r.entry_id: h.secrets for r, h in zip(records, look.content.entries, strict=True) if h.secrets}
        bundle = ImportedBundle(
            bundle_id=look.header.bundle_id,
            imported_at=self._clock.now(),
            expires_at=look.header.expires_at,
            titles=tuple(record.title for record in records),
        )
        return Arrivals(records=records, secrets=secrets, bundle=bundle)

    async def _record(self, entry: HandedEntry) -> EntryRecord:
        return EntryRecord(
            entry_id=EntryId(make_id(self._clock.now())),
            domain=entry.domain,
            title=entry.title,
            source="import",
            created_at=self._clock.now(),
            unique_id=entry.unique_id,
            data=plain(entry.data, "data"),
            options=plain(entry.options, "options"),
            version=entry.version,
            is_disabled=entry.is_disabled,
            needs_pairing=entry.is_bonded and await self._can_pair(entry.domain),
            mower_names={m.key: m.given_name for m in entry.mowers if m.given_name is not None},
        )

    async def _can_pair(self, domain: str) -> bool:
        """Whether its entry can ask for pairing later; one that cannot is set up as it is and says itself what is
        wrong. An integration that is missing now counts as able: it comes later."""
        try:
            flow = (await self._loader.load(domain)).flow_class
        except MowdeckError:
            return True
        return flow is not None and hasattr(flow, "step_reauth")
