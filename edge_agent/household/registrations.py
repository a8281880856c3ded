"""Carries out what the fleet says of this box's mowers: adds those it registered, names them, removes them."""

from __future__ import annotations

import structlog
import voluptuous as vol

from core.domain.clock import Clock
from core.domain.errors import ConflictError, InvalidInputError, Mistake, MowdeckError
from core.domain.ids import EntryId, MowerId, make_id
from core.platform import fire_door
from core.platform.entries import ConfigEntries
from core.platform.loader import Loader
from core.platform.registry import MowerRegistry, RegisteredMower
from core.sync.messages import FailedRegistration, Registration, Registrations
from edge_agent.household.mower_keeper import MowerKeeper

_log = structlog.get_logger(__name__)

REASON_LENGTH = 300
"""Characters of a plugin's words that travel to the relay."""


class FleetRegistrations:
    """Applying the same registrations again changes nothing; a box that was killed in the middle goes on."""

    def __init__(
        self,
        *,
        registry: MowerRegistry,
        entries: ConfigEntries,
        loader: Loader,
        keeper: MowerKeeper,
        clock: Clock,
    ) -> None:
        self._registry = registry
        self._entries = entries
        self._loader = loader
        self._keeper = keeper
        self._clock = clock
        self._refused: dict[MowerId, str] = {}

    def refused(self) -> tuple[FailedRegistration, ...]:
        """Registrations that could not even become an entry, and why."""
        return tuple(FailedRegistration(mower_id=m, reason=r) for m, r in self._refused.items())

    async def apply(self, registrations: Registrations) -> None:
        """Carries all of it out; one that cannot be is noted and keeps no other from it."""
        wanted = {registration.mower_id for registration in registrations.mowers}
        self._refused = {mower_id: reason for mower_id, reason in self._refused.items() if mower_id in wanted}
        for registration in registrations.mowers:
            try:
                await self._apply(registration)
            except MowdeckError as err:
                self._refused[registration.mower_id] = err.detail[:REASON_LENGTH]
                _log.warning("a registration failed", mower_id=registration.mower_id, detail=err.detail)
            else:
                self._refused.pop(registration.mower_id, None)
        for mower_id in registrations.removed:
            try:
                await self._remove(mower_id, frozenset(registrations.removed))
            except MowdeckError as err:
                _log.warning("a mower could not be removed", mower_id=mower_id, detail=err.detail)

    async def _apply(self, registration: Registration) -> None:
        mower_id, domain = registration.mower_id, registration.domain
        known = next((m for m in self._registry.mowers() if m.mower_id == mower_id), None)
        if known is not None:
            if known.name != registration.name:
                await self._registry.rename(mower_id, registration.name)
            return
        if domain is None:
            return  # it was adopted from this box, and the box has forgotten it
        reserved = next((r for r in self._registry.reservations() if r.mower_id == mower_id), None)
        entry_id = reserved.entry_id if reserved is not None else EntryId(make_id(self._clock.now()))
        if any(record.entry_id == entry_id for record in self._entries.records()):
            return  # its entry is on its way, or says why not
        data = await self._check(domain, registration.connection or {})
        await self._registry.reserve(mower_id, entry_id, registration.name)
        await self._entries.add(domain=domain, title=registration.name, source="relay", data=data, entry_id=entry_id)
        _log.info("mower added for the fleet", mower_id=mower_id, domain=domain)

    async def _check(self, domain: str, connection: dict[str, object]) -> dict[str, object]:
        """The connection as the integration takes it; MowdeckError says what is wrong."""
        loaded = await self._loader.load(domain)
        if loaded.connection_schema is None:
            raise ConflictError(f"{domain} cannot be added from afar: it has to be set up at the box")
        schema = loaded.connection_schema
        return fire_door.call_now(lambda: _checked(schema, connection), where=f"{domain} connection")

    async def _remove(self, mower_id: MowerId, removed: frozenset[MowerId]) -> None:
        """Only what the fleet itself added: what the household set up stays with the household."""
        reserved = next((r for r in self._registry.reservations() if r.mower_id == mower_id), None)
        if reserved is not None:
            await self._remove_entry(reserved.entry_id)
            await self._registry.remove(mower_id)
            return
        mower = next((m for m in self._registry.mowers() if m.mower_id == mower_id), None)
        if mower is None:
            return
        reason = self._why_it_stays(mower, removed)
        if reason is not None:
            _log.info("the fleet has removed a mower that stays on this box", mower_id=mower_id, reason=reason)
            return
        for entry_id in list(mower.links):
            await self._remove_entry(entry_id)
            await self._registry.detach(entry_id)
        await self._keeper.remove(mower_id)
        _log.info("mower removed for the fleet", mower_id=mower_id)

    def _why_it_stays(self, mower: RegisteredMower, removed: frozenset[MowerId]) -> str | None:
        if not mower.is_from_fleet:
            return "the household added it"
        records = {record.entry_id: record for record in self._entries.records()}
        for entry_id in mower.links:
            if entry_id in records and records[entry_id].source != "relay":
                return "the household reaches it by an entry of its own"
            if any(other.mower_id not in removed for other in self._registry.of_entry(entry_id)):
                return "its entry reaches other mowers too"
        return None

    async def _remove_entry(self, entry_id: EntryId) -> None:
        if any(record.entry_id == entry_id for record in self._entries.records()):
            await self._entries.remove(entry_id)


def _checked(schema: vol.Schema, connection: dict[str, object]) -> dict[str, object]:
    try:
        return dict(schema(connection))
    except vol.Invalid as err:
        one_by_one = err.errors if isinstance(err, vol.MultipleInvalid) else [err]
        mistakes = (Mistake(field=".".join(map(str, e.path)) or "connection", reason=e.msg) for e in one_by_one)
        raise InvalidInputError(mistakes=tuple(mistakes)) from err
