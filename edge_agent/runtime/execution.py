"""Carries out one command: precondition, sent once within its time, confirmed by what the mower then shows.

Over which of the mower's links it goes is decided once, just before it is sent. Whatever that link then says, or does
not say, no other link gets the command: the mower's state shows what became of it, or it is `failed: unconfirmed`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from core.domain.clock import Clock
from core.domain.commands import (
    RIGHT_LOST,
    CommandStatus,
    FindMower,
    ManualDrive,
    ResetBladeUsage,
    SetSchedule,
    SetSpeed,
    SkipNext,
    confirm_timeout_s,
    find_mistakes,
    find_obstacle,
)
from core.domain.ids import MowerId
from core.domain.mower import Area
from edge_agent.runtime.carrier import OpenLink, find_carrier
from edge_agent.runtime.drive import Conclude, DriveSeats, FindLinks
from edge_agent.runtime.live import LiveStates
from edge_agent.runtime.sending import SEND_DEADLINE_S, Sender, unconfirmed
from edge_agent.runtime.stopping import Stopping
from edge_agent.runtime.ticket import Ticket

_INVISIBLE = (SetSpeed, SetSchedule, SkipNext, ResetBladeUsage, FindMower)
"""Commands whose effect no state shows: only the mower's own word confirms them."""

BeginDrive = Callable[[Ticket, OpenLink], None]
_Refusal = tuple[CommandStatus, str | None]


class Execution:
    """Stateless but for its collaborators; `run` may serve several tickets at once."""

    def __init__(
        self,
        *,
        clock: Clock,
        live: LiveStates,
        find_links: FindLinks,
        areas: Callable[[MowerId], Sequence[Area]],
        conclude: Conclude,
        seats: DriveSeats,
        begin_drive: BeginDrive,
        send_deadline_s: float = SEND_DEADLINE_S,
    ) -> None:
        self._clock = clock
        self._live = live
        self._find_links = find_links
        self._areas = areas
        self._conclude = conclude
        self._seats = seats
        self._begin_drive = begin_drive
        self._sender = Sender(live=live, send_deadline_s=send_deadline_s)
        self._stopping = Stopping(clock=clock, sender=self._sender, find_links=find_links, conclude=conclude)

    async def run(self, ticket: Ticket) -> None:
        """From the head of the queue to a final status, or to the beginning of a drive."""
        await self._seats.settle(ticket.envelope.mower_id)
        decided = self._decide(ticket)
        if not isinstance(decided, OpenLink):
            await self._conclude(ticket, *decided)
            return
        if not await ticket.may_still():
            await self._conclude(ticket, CommandStatus.REJECTED, RIGHT_LOST)
            return
        await self._conclude(ticket, CommandStatus.ACCEPTED, None)
        await self._seats.make_way(ticket)
        # Writing it down took time: the world is looked at again before anything moves.
        link = self._decide(ticket)
        if not isinstance(link, OpenLink):
            status, reason = link
            await self._conclude(ticket, CommandStatus.FAILED if status is CommandStatus.REJECTED else status, reason)
            return
        status, reason = await self._send_and_watch(ticket, link)
        is_begun = isinstance(ticket.envelope.command, ManualDrive) and status is CommandStatus.EXECUTED
        if not is_begun:
            await self._conclude(ticket, status, reason)
        elif ticket.is_cancelled:
            await self._conclude(ticket, CommandStatus.FAILED, ticket.cancel_reason)
        else:
            self._begin_drive(ticket, link)

    async def stop(self, ticket: Ticket) -> None:
        """An emergency stop: sent first, over every link, and written down while it is on its way."""
        decided = self._decide(ticket)
        if isinstance(decided, OpenLink):
            await self._stopping.run(ticket)
        else:
            await self._conclude(ticket, *decided)

    def _decide(self, ticket: Ticket) -> OpenLink | _Refusal:
        """The link that the command goes over now, or why it may not be sent."""
        command, mower_id = ticket.envelope.command, ticket.envelope.mower_id
        if ticket.is_cancelled:
            is_begun = ticket.status is CommandStatus.ACCEPTED
            return CommandStatus.FAILED if is_begun else CommandStatus.REJECTED, ticket.cancel_reason
        if self._clock.monotonic() >= ticket.deadline:
            return CommandStatus.EXPIRED, "its time ran out on the box"
        stranger = ticket.find_stranger()
        if stranger is not None:
            return CommandStatus.REJECTED, stranger
        link = find_carrier(command, self._find_links(mower_id), self._areas(mower_id))
        if isinstance(link, str):
            return CommandStatus.REJECTED, link
        mistakes = find_mistakes(command, link.capabilities)
        if mistakes:
            return CommandStatus.REJECTED, "; ".join(f"{m.field}: {m.reason}" for m in mistakes)
        obstacle = self._seats.find_obstacle(ticket) or find_obstacle(command, self._live.get(mower_id))
        return link if obstacle is None else (CommandStatus.REJECTED, obstacle)

    async def _send_and_watch(self, ticket: Ticket, link: OpenLink) -> tuple[CommandStatus, str | None]:
        """Sends the command once and waits for its effect to show; the final status and its reason."""
        command = ticket.envelope.command
        with self._sender.watching(ticket) as confirmed:
            outcome = await self._sender.send(ticket, link, ticket.cancelled)
            if outcome is None:
                return CommandStatus.FAILED, ticket.cancel_reason
            if outcome.kind == "refused":
                return CommandStatus.FAILED, outcome.reason or "the mower refused"
            if outcome.kind == "accepted" and (isinstance(command, _INVISIBLE) or self._sender.shows_already(ticket)):
                return CommandStatus.EXECUTED, None
            if outcome.kind == "unknown" and isinstance(command, _INVISIBLE):
                return CommandStatus.FAILED, unconfirmed(outcome.reason)
            timeout_s = confirm_timeout_s(command, link.capabilities) or 0.0
            await asyncio.wait({confirmed, ticket.cancelled}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if confirmed.done():
                return CommandStatus.EXECUTED, None
            if ticket.is_cancelled:
                return CommandStatus.FAILED, ticket.cancel_reason
            return CommandStatus.FAILED, unconfirmed(outcome.reason)
