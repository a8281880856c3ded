"""The links of one mower as the API shows them: what is up, in the order of use, then what is not and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from core.domain.ids import EntryId
from core.domain.mower import LinkKind
from core.platform.registry import RegisteredMower
from core.web.ports import MowerLinkView
from edge_agent.runtime.carrier import OpenLink, key_of_link
from edge_agent.runtime.door import DoorStatus, Phase
from edge_agent.runtime.supervisor import Supervisor

OUT_OF_REACH = "it says that the mower is offline"
NOT_LOADED = "its integration is not set up yet"

EntryWords = Callable[[EntryId], tuple[str | None, str | None]]
"""The domain of an entry, and what is wrong with it."""


class LinkBoard:
    """Reads the supervisor; changes nothing."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    def views(self, mower: RegisteredMower, entry_words: EntryWords) -> tuple[MowerLinkView, ...]:
        """One per entry that reaches the mower, or would."""
        doors = {door.entry_id: door for door in self._supervisor.statuses() if door.mower_id == mower.mower_id}
        return views_of(mower.links, doors, self._supervisor.open_links(mower.mower_id), entry_words)


def views_of(
    links: Mapping[EntryId, Sequence[LinkKind]],
    doors: Mapping[EntryId, DoorStatus],
    open_links: Sequence[OpenLink],
    entry_words: EntryWords,
) -> tuple[MowerLinkView, ...]:
    """`open_links` in the order of use; `links` are those that the registry knows."""
    up = [
        MowerLinkView(
            kind=link.kind,
            entry_id=link.entry_id,
            domain=entry_words(link.entry_id)[0],
            state="up" if link.has_reported else "connecting",
            reason=OUT_OF_REACH if link.says_offline else None,
            is_active=number == 0,
        )
        for number, link in enumerate(open_links)
    ]
    known = {view.entry_id for view in up}
    down = [
        _down(min(kinds, key=lambda kind: key_of_link(kind, entry_id)), entry_id, doors.get(entry_id), entry_words)
        for entry_id, kinds in links.items()
        if entry_id not in known and kinds
    ]
    return (*up, *sorted(down, key=lambda view: key_of_link(view.kind, view.entry_id)))


def _down(kind: LinkKind, entry_id: EntryId, door: DoorStatus | None, entry_words: EntryWords) -> MowerLinkView:
    domain, trouble = entry_words(entry_id)
    if door is None:
        return MowerLinkView(kind=kind, entry_id=entry_id, domain=domain, state="down", reason=trouble or NOT_LOADED)
    return MowerLinkView(
        kind=kind,
        entry_id=entry_id,
        domain=domain,
        state="connecting" if door.phase is Phase.CONNECTING else "down",
        reason=door.detail or door.code or trouble,
    )
