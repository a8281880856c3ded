"""The household's mowers as others ask for them: the API (`MowerCatalog`) and the relay (inventory)."""

from __future__ import annotations

from collections.abc import Sequence

from core.domain.capabilities import Capabilities
from core.domain.errors import NotFoundError
from core.domain.ids import AccountId, EntryId, MowerId
from core.domain.mower import Area, LinkKind, MowerDescription
from core.platform.entries import ConfigEntries
from core.platform.entry import EntryState, EntryView
from core.platform.registry import MowerRegistry, RegisteredMower
from core.sync.messages import FailedRegistration, InventoryItem
from core.web.ports import MowerView
from edge_agent.household.account import HouseholdAccount
from edge_agent.household.link_views import LinkBoard

_TROUBLE = {
    EntryState.RETRY,
    EntryState.AUTH_FAILED,
    EntryState.ERROR,
    EntryState.MIGRATION_ERROR,
    EntryState.UNLOAD_FAILED,
}
NO_ENTRY = "no integration reaches this mower any more"


class Roster:
    """Reads registry and entries; changes nothing."""

    def __init__(
        self, registry: MowerRegistry, entries: ConfigEntries, account: HouseholdAccount, links: LinkBoard
    ) -> None:
        self._registry = registry
        self._entries = entries
        self._account = account
        self._links = links

    async def mower(self, account_id: AccountId, mower_id: MowerId) -> MowerView:
        """NotFoundError for one of another account or none."""
        if account_id != self._account.account_id:
            raise NotFoundError("no such mower")
        return self._view(self._registry.get(mower_id))

    async def mowers(self, account_id: AccountId) -> Sequence[MowerView]:
        """All of the household."""
        if account_id != self._account.account_id:
            return []
        return [self._view(mower) for mower in self._registry.mowers()]

    def capabilities(self, mower_id: MowerId) -> Capabilities | None:
        """What the mower can do, as far as any link has ever said."""
        try:
            return self._registry.get(mower_id).capabilities
        except NotFoundError:
            return None

    def areas(self, mower_id: MowerId) -> tuple[Area, ...]:
        """The mower's areas as people see them."""
        try:
            return self._registry.get(mower_id).areas
        except NotFoundError:
            return ()

    def is_known(self, mower_id: MowerId) -> bool:
        """Whether it is a mower of this box."""
        return any(mower.mower_id == mower_id for mower in self._registry.mowers())

    def inventory(self) -> tuple[InventoryItem, ...]:
        """What the relay is told: every mower that an entry reaches and whose capabilities are known."""
        return tuple(
            InventoryItem(
                mower_id=mower.mower_id,
                description=_description(mower),
                capabilities=mower.capabilities,
                entry_id=next(iter(mower.links)),
            )
            for mower in self._registry.mowers()
            if mower.links and mower.capabilities is not None
        )

    def failed_registrations(self) -> tuple[FailedRegistration, ...]:
        """Mowers that the relay asked for and the box does not have, and why."""
        found = []
        for reservation in self._registry.reservations():
            reason = reservation.conflict or _why_no_mower(self._entry(reservation.entry_id))
            if reason is not None:
                found.append(FailedRegistration(mower_id=reservation.mower_id, reason=reason))
        return tuple(found)

    def _view(self, mower: RegisteredMower) -> MowerView:
        vendor, _, serial = mower.key.partition(":")
        entry = self._best_entry(mower)
        return MowerView(
            mower_id=mower.mower_id,
            name=mower.name,
            domain=entry.domain if entry is not None else None,
            vendor=vendor,
            serial=serial,
            model=mower.model,
            links=_links(mower),
            link_states=self._links.views(mower, self._entry_words),
            areas=mower.areas,
            capabilities=mower.capabilities or Capabilities(),
            setup_error=_trouble(entry),
        )

    def _best_entry(self, mower: RegisteredMower) -> EntryView | None:
        """Of several entries that reach it, the first that is well."""
        entries = [entry for entry_id in mower.links if (entry := self._entry(entry_id)) is not None]
        return next((entry for entry in entries if _trouble(entry) is None), entries[0] if entries else None)

    def _entry_words(self, entry_id: EntryId) -> tuple[str | None, str | None]:
        entry = self._entry(entry_id)
        return None if entry is None else entry.domain, _trouble(entry)

    def _entry(self, entry_id: EntryId) -> EntryView | None:
        try:
            return self._entries.view(entry_id)
        except NotFoundError:
            return None


def _trouble(entry: EntryView | None) -> str | None:
    if entry is None:
        return NO_ENTRY
    if entry.is_disabled:
        return "its integration is switched off"
    return entry.reason or entry.state.value if entry.state in _TROUBLE else None


def _why_no_mower(entry: EntryView | None) -> str | None:
    """Why an entry that the relay asked for has brought no mower; None while it is on its way."""
    if entry is None:
        return None
    if entry.state is EntryState.LOADED and not entry.mowers:
        return "its integration reaches no mower"
    return _trouble(entry)


def _links(mower: RegisteredMower) -> tuple[LinkKind, ...]:
    return tuple(dict.fromkeys(kind for kinds in mower.links.values() for kind in kinds))


def _description(mower: RegisteredMower) -> MowerDescription:
    vendor, _, serial = mower.key.partition(":")
    return MowerDescription(
        vendor=vendor, serial=serial, name=mower.name, model=mower.model, links=_links(mower), areas=mower.areas
    )
