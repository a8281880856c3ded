"""Which of a mower's links carries a command: pure, and the same for what people are shown as the active link.

The order: a link over which the mower can be reached before one that says it cannot; the machine's own radio and
the house before the vendor's cloud; then the oldest entry. A command goes over the first link that can do it, and
over no other, whatever becomes of it. Only an emergency stop goes over all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from core.domain.capabilities import Capabilities
from core.domain.commands import Command, ManualDrive, SetSchedule, StartMow, confirm_timeout_s, kind_of
from core.domain.ids import EntryId
from core.domain.mower import Area, LinkKind
from core.platform.integration import MowerLink
from edge_agent.runtime.ticket import CANNOT_BE_DRIVEN, OFFLINE

LOCAL_FIRST = (LinkKind.BLE, LinkKind.LAN, LinkKind.SIM, LinkKind.CLOUD)

UNKNOWN_AREAS = "the areas are not those of a link that is up"

LinkKey = tuple[int, EntryId, LinkKind]
"""One path to a mower, as long as its entry lives; they sort by preference."""


def key_of_link(kind: LinkKind, entry_id: EntryId) -> LinkKey:
    """The path of an entry's link."""
    return LOCAL_FIRST.index(kind), entry_id, kind


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLink:
    """A link that runs now. `areas` are those that its own entry describes."""

    kind: LinkKind
    entry_id: EntryId
    link: MowerLink
    capabilities: Capabilities
    areas: tuple[Area, ...] = ()
    says_offline: bool = False
    """It is up, and says that the mower is out of its reach."""
    has_reported: bool = True
    """Whether it has met the mower yet; commands may go over it before, and wait in it."""

    @property
    def key(self) -> LinkKey:
        return key_of_link(self.kind, self.entry_id)


def preference(key: LinkKey, *, says_offline: bool) -> tuple[bool, LinkKey]:
    """Sorts links, the first to be used first."""
    return says_offline, key


def find_carrier(command: Command, links: Sequence[OpenLink], areas: Sequence[Area]) -> OpenLink | str:
    """The link that a command would go over now, of those that are up in their order; or why there is none. `areas`
    are the mower's as people see them."""
    if not links:
        return OFFLINE
    able = able_links(command, links)
    if not able:
        return f"the mower cannot {kind_of(command)} over {' or '.join(dict.fromkeys(link.kind for link in links))}"
    if isinstance(command, ManualDrive):
        drivable = [link for link in able if hasattr(link.link, "drive")]
        return drivable[0] if drivable else CANNOT_BE_DRIVEN
    knowing = [link for link in able if _means_the_same(_area_ids(command), link.areas, areas)]
    return knowing[0] if knowing else UNKNOWN_AREAS


def able_links(command: Command, links: Iterable[OpenLink]) -> list[OpenLink]:
    """Those that can do it at all."""
    return [link for link in links if confirm_timeout_s(command, link.capabilities) is not None]


def _area_ids(command: Command) -> frozenset[str]:
    match command:
        case StartMow(area_ids=area_ids):
            return frozenset(area_ids)
        case SetSchedule(windows=windows):
            return frozenset(area_id for window in windows for area_id in window.area_ids)
        case _:
            return frozenset()


def _means_the_same(area_ids: frozenset[str], own: Sequence[Area], shown: Sequence[Area]) -> bool:
    """Whether the ids name the same areas for the link as for the person who chose them: two entries may number
    theirs alike. What neither knows is the mower's to refuse."""
    mine = {area.area_id: area.name for area in own}
    theirs = {area.area_id: area.name for area in shown}
    return all(mine.get(area_id) == theirs.get(area_id) for area_id in area_ids)
