"""Carries out one command: precondition, sent once within its time, confirmed by what the mower then shows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from core.domain.clock import Clock
from core.domain.commands import (
    RIGHT_LOST,
    Command,
    CommandStatus,
    EmergencyStop,
    FindMower,
    ManualDrive,
    ResetBladeUsage,
    SetSchedule,
    SetSpeed,
    SkipNext,
    confirm_timeout_s,
    find_mistakes,
    find_obstacle,
    is_confirmed,
    kind_of,
)
from core.domain.errors import MowdeckError
from core.domain.ids import MowerId
from core.domain.mower import Connectivity, MowerState
from core.platform.integration import Outcome
from edge_agent.runtime.door import OpenLink
from edge_agent.runtime.drive import CANNOT_BE_DRIVEN, Conclude, DriveSeats, FindLink
from edge_agent.runtime.leash import run_until
from edge_agent.runtime.live import LiveStates
from edge_agent.runtime.ticket import OFFLINE, UNCONFIRMED, Ticket

_log = structlog.get_logger(__name__)

SEND_DEADLINE_S = 15.0
"""A link that has not said whether it handed the command over by then gets no more time."""
STOP_TRIES = 2
"""An emergency stop that may not have been heard is sent once more: stopping twice does no harm."""

_INVISIBLE = (SetSpeed, SetSchedule, SkipNext, ResetBladeUsage, FindMower)
"""Commands whose effect no state shows: only the mower's own word confirms them."""

BeginDrive = Callable[[Ticket, OpenLink], None]


class Execution:
    """Stateless but for its collaborators; `run` may serve several tickets at once."""

    def __init__(
        self,
        *,
        clock: Clock,
        live: LiveStates,
        find_link: FindLink,
        conclude: Conclude,
        seats: DriveSeats,
        begin_drive: BeginDrive,
        send_deadline_s: float = SEND_DEADLINE_S,
    ) -> None:
        self._clock = clock
        self._live = live
        self._find_link = find_link
        self._conclude = conclude
        self._seats = seats
        self._begin_drive = begin_drive
        self._send_deadline_s = send_deadline_s

    async def run(self, ticket: Ticket) -> None:
        """From the head of the queue to a final status, or to the beginning of a drive."""
        await self._seats.settle(ticket.envelope.mower_id)
        refusal = self._find_refusal(ticket)
        if refusal is not None:
            await self._conclude(ticket, *refusal)
            return
        if not await ticket.may_still():
            await self._conclude(ticket, CommandStatus.REJECTED, RIGHT_LOST)
            return
        await self._conclude(ticket, CommandStatus.ACCEPTED, None)
        await self._seats.make_way(ticket)
        # Writing it down took time: the world is looked at again before anything moves.
        refusal = self._find_refusal(ticket)
        link = self._find_link(ticket.envelope.mower_id)
        if refusal is not None or link is None:
            status, reason = refusal or (CommandStatus.FAILED, OFFLINE)
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
        """An emergency stop: sent first, written down while it is on its way."""
        refusal = self._find_refusal(ticket)
        if refusal is not None:
            await self._conclude(ticket, *refusal)
            return
        link = self._find_link(ticket.envelope.mower_id)
        if link is None:
            await self._conclude(ticket, CommandStatus.REJECTED, OFFLINE)
            return
        async with asyncio.TaskGroup() as group:
            sending = group.create_task(self._send_and_watch(ticket, link), name=f"stop {ticket.envelope.mower_id}")
            await asyncio.sleep(0)  # the send is under way before the disk is touched
            await self._conclude(ticket, CommandStatus.ACCEPTED, None)
        await self._conclude(ticket, *sending.result())

    def _find_refusal(self, ticket: Ticket) -> tuple[CommandStatus, str | None] | None:
        """Why the command may not be sent now."""
        command, mower_id = ticket.envelope.command, ticket.envelope.mower_id
        if ticket.is_cancelled:
            is_begun = ticket.status is CommandStatus.ACCEPTED
            return CommandStatus.FAILED if is_begun else CommandStatus.REJECTED, ticket.cancel_reason
        if self._clock.monotonic() >= ticket.deadline:
            return CommandStatus.EXPIRED, "its time ran out on the box"
        stranger = ticket.find_stranger()
        if stranger is not None:
            return CommandStatus.REJECTED, stranger
        link = self._find_link(mower_id)
        if link is None:
            return CommandStatus.REJECTED, OFFLINE
        if confirm_timeout_s(command, link.capabilities) is None:
            return CommandStatus.REJECTED, f"the mower cannot {kind_of(command)} over {link.kind}"
        mistakes = find_mistakes(command, link.capabilities)
        if mistakes:
            return CommandStatus.REJECTED, "; ".join(f"{m.field}: {m.reason}" for m in mistakes)
        if isinstance(command, ManualDrive) and not hasattr(link.link, "drive"):
            return CommandStatus.REJECTED, CANNOT_BE_DRIVEN
        obstacle = self._seats.find_obstacle(ticket) or find_obstacle(command, self._live.get(mower_id))
        return None if obstacle is None else (CommandStatus.REJECTED, obstacle)

    async def _send_and_watch(self, ticket: Ticket, link: OpenLink) -> tuple[CommandStatus, str | None]:
        """Sends the command once and waits for its effect to show; the final status and its reason."""
        ticket.is_sent = True
        mower_id, command = ticket.envelope.mower_id, ticket.envelope.command
        before = self._live.get(mower_id)
        confirmed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def look(_: MowerId, state: MowerState) -> None:
            if not confirmed.done() and _shows(command, before, state):
                confirmed.set_result(None)

        undo = self._live.subscribe(look, only=mower_id)
        try:
            outcome = await self._send(ticket, link)
            if outcome is None:
                return CommandStatus.FAILED, ticket.cancel_reason
            if outcome.kind == "refused":
                return CommandStatus.FAILED, outcome.reason or "the mower refused"
            if outcome.kind == "accepted" and (isinstance(command, _INVISIBLE) or self._shows_already(ticket)):
                return CommandStatus.EXECUTED, None
            if outcome.kind == "unknown" and isinstance(command, _INVISIBLE):
                return CommandStatus.FAILED, _unconfirmed(outcome.reason)
            timeout_s = confirm_timeout_s(command, link.capabilities) or 0.0
            await asyncio.wait({confirmed, ticket.cancelled}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if confirmed.done():
                return CommandStatus.EXECUTED, None
            if ticket.is_cancelled:
                return CommandStatus.FAILED, ticket.cancel_reason
            return CommandStatus.FAILED, _unconfirmed(outcome.reason)
        finally:
            undo()

    def _shows_already(self, ticket: Ticket) -> bool:
        state = self._live.get(ticket.envelope.mower_id)
        return state is not None and _shows(ticket.envelope.command, state, state)

    async def _send(self, ticket: Ticket, link: OpenLink) -> Outcome | None:
        """What the mower said; None when the command was cancelled meanwhile. Any failure on the way is `unknown`:
        nobody can tell whether the mower heard it."""
        command = ticket.envelope.command
        tries = STOP_TRIES if isinstance(command, EmergencyStop) else 1
        outcome: Outcome | None = None
        for _ in range(tries):
            outcome = await self._send_once(ticket, self._find_link(ticket.envelope.mower_id) or link, command)
            if outcome is None or outcome.kind == "accepted" or self._clock.monotonic() >= ticket.deadline:
                break
        return outcome

    async def _send_once(self, ticket: Ticket, link: OpenLink, command: Command) -> Outcome | None:
        where = f"{ticket.envelope.mower_id} send {kind_of(command)}"
        try:
            outcome: object = await run_until(
                ticket.cancelled, lambda: link.link.send(command), where=where, deadline_s=self._send_deadline_s
            )
        except MowdeckError as err:
            _log.warning("sending failed", mower_id=ticket.envelope.mower_id, code=err.code, detail=err.detail)
            return Outcome(kind="unknown", reason=err.detail or err.code)
        if outcome is None and ticket.is_cancelled:
            return None
        if isinstance(outcome, Outcome) and _is_sound(outcome):
            return outcome
        return Outcome(kind="unknown", reason=f"the link answered with a {type(outcome).__name__}")


def _is_sound(outcome: Outcome) -> bool:
    """Whether a plugin filled its answer as declared."""
    kind: object = outcome.kind
    reason: object = outcome.reason
    return kind in ("accepted", "refused", "unknown") and (reason is None or isinstance(reason, str))


def _shows(command: Command, before: MowerState | None, after: MowerState) -> bool:
    """Whether a state confirms the command; one of a mower that is out of reach confirms nothing."""
    return after.connectivity is not Connectivity.OFFLINE and is_confirmed(command, before, after)


def _unconfirmed(reason: str | None) -> str:
    return UNCONFIRMED if reason is None else f"{UNCONFIRMED}: {reason}"
