"""Which mower is which: vendor and serial on one side, our id, name and links on the other, kept for ever.

A mower that several entries see (BLE and cloud) is one mower. A relay may have given it an id before the box ever
saw it (`reserve`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import structlog

from core.domain.capabilities import Capabilities, unite
from core.domain.clock import Clock
from core.domain.errors import ConflictError, NotFoundError
from core.domain.ids import EntryId, MowerId, make_id
from core.domain.mower import Area, LinkKind, MowerDescription
from core.platform.durable_file import JsonDocument
from core.platform.integration import MowerKey, key_of

log = structlog.get_logger(__name__)

FORMAT = 1


class RegisteredMower(msgspec.Struct, frozen=True, kw_only=True):
    """One mower. `links` says which entry reaches it over what; an entry that has gone leaves the mower here."""

    mower_id: MowerId
    key: MowerKey
    name: str
    model: str | None = None
    has_given_name: bool = False
    """A person (or the fleet) named it; what the vendor calls it no longer counts."""
    is_from_fleet: bool = False
    """A relay reserved its id, so a relay may have it removed; what the household set up stays with the household."""
    links: dict[EntryId, tuple[LinkKind, ...]] = {}
    """Oldest first."""
    named_by: EntryId | None = None
    """The entry whose word for it is its name; when that has gone, the name stays."""
    areas: tuple[Area, ...] = ()
    """The mower's own: of its oldest entry that knows any, so that ids of different integrations never mix."""
    entry_areas: dict[EntryId, tuple[Area, ...]] = {}
    """As each integration last described them."""
    capabilities: Capabilities | None = None
    """Of all its links together; None until one was up."""
    abilities: dict[EntryId, Capabilities] = {}
    """Of each entry's newest link."""


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """An id that waits for the first mower of an entry. `conflict` says why it will not get one."""

    mower_id: MowerId
    entry_id: EntryId
    name: str
    conflict: str | None = None


class _Body(msgspec.Struct, frozen=True, kw_only=True):
    mowers: tuple[RegisteredMower, ...] = ()
    reservations: tuple[Reservation, ...] = ()


class MowerRegistry:
    """All mowers in memory and, once a method has returned, on the disk."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._document = JsonDocument(path, _Body, version=FORMAT, clock=clock)
        self._clock = clock
        self._mowers: dict[MowerId, RegisteredMower] = {}
        self._ids: dict[MowerKey, MowerId] = {}
        self._reservations: dict[MowerId, Reservation] = {}

    def load(self) -> None:
        """Reads the file. DatabaseNewerError; a corrupt file is moved aside and named in `problem`."""
        body = self._document.load() or _Body()
        self._mowers = {mower.mower_id: mower for mower in body.mowers}
        self._ids = {mower.key: mower.mower_id for mower in body.mowers}
        self._reservations = {reservation.mower_id: reservation for reservation in body.reservations}

    @property
    def problem(self) -> str | None:
        """What was wrong with the file when it was loaded."""
        return self._document.problem

    def mowers(self) -> Sequence[RegisteredMower]:
        """All mowers, also those that no entry reaches now."""
        return tuple(self._mowers.values())

    def get(self, mower_id: MowerId) -> RegisteredMower:
        """One mower; NotFoundError."""
        mower = self._mowers.get(mower_id)
        if mower is None:
            raise NotFoundError(f"there is no mower {mower_id!r}")
        return mower

    def id_of(self, key: MowerKey) -> MowerId | None:
        """The id of a vendor and serial."""
        return self._ids.get(key)

    def of_entry(self, entry_id: EntryId) -> Sequence[RegisteredMower]:
        """The mowers that an entry reaches."""
        return tuple(mower for mower in self._mowers.values() if entry_id in mower.links)

    def reservations(self) -> Sequence[Reservation]:
        """Ids that have found no mower yet, or never will (those with a `conflict`)."""
        return tuple(self._reservations.values())

    async def reserve(self, mower_id: MowerId, entry_id: EntryId, name: str) -> None:
        """The first new mower of that entry gets this id and name. ConflictError when the id is a mower's already or
        waits for another entry."""
        if mower_id in self._mowers:
            raise ConflictError(f"mower {mower_id!r} is there already")
        known = self._reservations.get(mower_id)
        if known is not None and known.entry_id != entry_id:
            raise ConflictError(f"mower {mower_id!r} waits for entry {known.entry_id!r}")
        self._reservations[mower_id] = Reservation(mower_id=mower_id, entry_id=entry_id, name=name)
        await self._save()

    async def adopt(
        self, description: MowerDescription, entry_id: EntryId, *, given_name: str | None = None
    ) -> MowerId:
        """The id of a mower that an entry has found: the one it has always had, or the one reserved for it, or a new
        one (with `given_name`, if people have named it before it came here). A reservation whose mower turns out to be known under another id keeps that as its `conflict`."""
        key = key_of(description)
        mower_id = self._ids.get(key)
        if mower_id is None:
            mower = self._make(description, key, entry_id, given_name)
        else:
            mower = self._mowers[mower_id]
            self._refuse_reservation(entry_id, mower)
        links = {**mower.links, entry_id: tuple(description.links)}
        is_namer = (
            mower.named_by == entry_id or not mower.links or (not mower.named_by and next(iter(links)) == entry_id)
        )
        changed = _with_areas(
            msgspec.structs.replace(
                mower,
                name=description.name if is_namer and not mower.has_given_name else mower.name,
                named_by=entry_id if is_namer else mower.named_by,
                model=(description.model or mower.model) if is_namer else (mower.model or description.model),
                links=links,
                entry_areas={**mower.entry_areas, entry_id: description.areas},
            )
        )
        is_new = self._mowers.get(changed.mower_id) != changed
        self._mowers[changed.mower_id] = changed
        self._ids[key] = changed.mower_id
        if is_new:
            await self._save()
        return changed.mower_id

    def _make(
        self, description: MowerDescription, key: MowerKey, entry_id: EntryId, given_name: str | None
    ) -> RegisteredMower:
        reserved = self._waiting(entry_id)
        if reserved is None:
            return RegisteredMower(
                mower_id=MowerId(make_id(self._clock.now())),
                key=key,
                name=given_name or description.name,
                has_given_name=given_name is not None,
            )
        del self._reservations[reserved.mower_id]
        return RegisteredMower(
            mower_id=reserved.mower_id, key=key, name=reserved.name, has_given_name=True, is_from_fleet=True
        )

    def _waiting(self, entry_id: EntryId) -> Reservation | None:
        return next(
            (found for found in self._reservations.values() if found.entry_id == entry_id and found.conflict is None),
            None,
        )

    def _refuse_reservation(self, entry_id: EntryId, mower: RegisteredMower) -> None:
        """A mower that the box knows keeps its id. Only one that this entry did not have before can be meant."""
        reserved = self._waiting(entry_id)
        if reserved is None or entry_id in mower.links:
            return
        reason = f"{mower.key} is on this box already, as mower {mower.mower_id}"
        self._reservations[reserved.mower_id] = msgspec.structs.replace(reserved, conflict=reason)
        log.warning("reserved mower is known under another id", mower_id=reserved.mower_id, known_as=mower.mower_id)

    async def rename(self, mower_id: MowerId, name: str) -> None:
        """Gives a mower a name that stays."""
        self._mowers[mower_id] = msgspec.structs.replace(self.get(mower_id), name=name, has_given_name=True)
        await self._save()

    async def note_capabilities(self, mower_id: MowerId, abilities: Mapping[EntryId, Capabilities]) -> bool:
        """Keeps what links say that the mower can do, by their entries; whether that is news. Nothing for a mower
        that has gone, and of an entry that does not reach it."""
        mower = self._mowers.get(mower_id)
        if mower is None:
            return False
        able = {**mower.abilities, **{entry: found for entry, found in abilities.items() if entry in mower.links}}
        if able == mower.abilities:
            return False
        self._mowers[mower_id] = _with_abilities(mower, able)
        await self._save()
        return True

    async def remove(self, mower_id: MowerId) -> None:
        """Forgets a mower or a reservation; nothing happens when there is neither. Found again, it is a new one."""
        mower = self._mowers.pop(mower_id, None)
        if mower is not None:
            del self._ids[mower.key]
        if self._reservations.pop(mower_id, None) is not None or mower is not None:
            await self._save()

    async def detach(self, entry_id: EntryId) -> None:
        """An entry has gone: its links end and its reservations are dropped; its mowers keep their ids, and
        with their last entry what they could do and their areas."""
        mowers = self.of_entry(entry_id)
        reserved = [found.mower_id for found in self._reservations.values() if found.entry_id == entry_id]
        for mower in mowers:
            self._mowers[mower.mower_id] = _without_entry(mower, entry_id)
        for mower_id in reserved:
            del self._reservations[mower_id]
        if mowers or reserved:
            await self._save()

    async def _save(self) -> None:
        await self._document.save(
            _Body(mowers=tuple(self._mowers.values()), reservations=tuple(self._reservations.values()))
        )


def _with_areas(mower: RegisteredMower) -> RegisteredMower:
    known = (mower.entry_areas.get(entry_id, ()) for entry_id in mower.links)
    return msgspec.structs.replace(mower, areas=next((areas for areas in known if areas), ()))


def _with_abilities(mower: RegisteredMower, abilities: dict[EntryId, Capabilities]) -> RegisteredMower:
    return msgspec.structs.replace(mower, abilities=abilities, capabilities=unite(abilities.values()))


def _without_entry(mower: RegisteredMower, entry_id: EntryId) -> RegisteredMower:
    links = {entry: kinds for entry, kinds in mower.links.items() if entry != entry_id}
    if not links:
        return msgspec.structs.replace(mower, links=links, entry_areas={}, abilities={})
    entry_areas = {entry: areas for entry, areas in mower.entry_areas.items() if entry != entry_id}
    left = _with_areas(msgspec.structs.replace(mower, links=links, entry_areas=entry_areas))
    abilities = {entry: able for entry, able in mower.abilities.items() if entry != entry_id}
    return _with_abilities(left, abilities) if abilities else msgspec.structs.replace(left, abilities={})
