"""Takes commands from the relay and from the household, and sees each through to one final result.

One command at a time per mower; an emergency stop waits for nobody and ends what runs and what waits. A command
runs at most once, never late, and never because the box started again: what a crash interrupted is failed.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import structlog

from core.domain import limits
from core.domain.commands import FINAL, CommandResult, CommandStatus, EmergencyStop, does_advance, kind_of
from core.domain.drive import DriveEnd
from core.domain.errors import UnavailableError
from core.domain.ids import CommandId, MowerId
from core.domain.mower import Area
from core.storage.command_ledger import LedgerEntry
from core.sync.messages import CancelEnvelope, CommandEnvelope
from edge_agent.clock.keeper import ClockKeeper
from edge_agent.runtime.admission import Admission, Refusal, StopMark, Times
from edge_agent.runtime.carrier import OpenLink
from edge_agent.runtime.drive import DriveSeats, FindLinks, Wait, wait_for
from edge_agent.runtime.early_cancels import EarlyCancels, does_cancel
from edge_agent.runtime.execution import Execution
from edge_agent.runtime.ledger import SafeLedger
from edge_agent.runtime.live import LiveStates
from edge_agent.runtime.sending import SEND_DEADLINE_S
from edge_agent.runtime.ticket import (
    CANCELLED_BY_STOP,
    INTERRUPTED,
    REMOVED,
    SEEN_ELSEWHERE,
    Source,
    Submission,
    Ticket,
    nobody_asks,
)

_log = structlog.get_logger(__name__)

SEEN_MAX = 20_000
"""Command ids kept in memory; the disk knows more, and what is forgotten here has expired long ago."""
CATCH_UP_S = 10.0
"""How often results that wait for the disk are tried again."""

STOP_WRITE_S = 0.25
"""How long a stop waits for the disk before its lane may go on to the next stop."""

OnResult = Callable[[CommandResult], None]


def _set_event() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


@dataclass(slots=True)
class _Desk:
    """The commands of one mower."""

    waiting: deque[Ticket] = field(default_factory=deque)
    running: Ticket | None = None
    stopping: set[Ticket] = field(default_factory=set)
    worker: asyncio.Task[None] | None = None
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    calm: asyncio.Event = field(default_factory=_set_event)
    """Clear while an emergency stop is being carried out."""


class Commander:
    """`run` is its life; `submit` may come from any task of the same loop."""

    def __init__(
        self,
        *,
        ledger: SafeLedger,
        admission: Admission,
        clock: ClockKeeper,
        live: LiveStates,
        find_links: FindLinks,
        areas: Callable[[MowerId], Sequence[Area]],
        on_result: OnResult,
        send_deadline_s: float = SEND_DEADLINE_S,
        drive_wait: Wait = wait_for,
    ) -> None:
        self._ledger = ledger
        self._admission = admission
        self._clock = clock
        self._on_result = on_result
        self.seats = DriveSeats(clock=clock, live=live, find_links=find_links, wait=drive_wait)
        """Who drives by hand."""
        self._execution = Execution(
            clock=clock,
            live=live,
            find_links=find_links,
            areas=areas,
            conclude=self._conclude,
            seats=self.seats,
            begin_drive=self._begin_drive,
            send_deadline_s=send_deadline_s,
        )
        self._desks: dict[MowerId, _Desk] = {}
        self._tickets: dict[CommandId, Ticket] = {}
        self._seen: OrderedDict[CommandId, CommandResult] = OrderedDict()
        self._marks: dict[MowerId, StopMark] = {}
        self._early = EarlyCancels()
        self._group: asyncio.TaskGroup | None = None
        self._ready = asyncio.Event()
        self._counts: Counter[str] = Counter()

    # -- life

    async def run(self) -> None:
        """Fails what the last life left unfinished, then serves until cancelled."""
        async with asyncio.TaskGroup() as group:
            try:
                await self._recover()
                self._group = group
                self._ready.set()
                while True:
                    await asyncio.sleep(CATCH_UP_S)
                    await self._ledger.catch_up()
            finally:
                self._group = None
                self._ready.clear()

    @property
    def counts(self) -> dict[str, int]:
        """Results by status since the start, and commands that were not this household's (`stranger`)."""
        return dict(self._counts)

    async def wait_ready(self) -> None:
        """Returns once commands are taken."""
        await self._ready.wait()

    async def _recover(self) -> None:
        for entry in await self._ledger.recent(self._clock.now() - limits.SEEN_COMMANDS):
            self._remember(entry.as_result())
            if isinstance(entry.envelope.command, EmergencyStop):
                self._mark(entry.envelope, None, "relay")
            if entry.status not in FINAL:
                await self._interrupt(entry)

    async def _interrupt(self, entry: LedgerEntry) -> None:
        result = CommandResult(
            command_id=entry.envelope.command_id,
            mower_id=entry.envelope.mower_id,
            status=CommandStatus.FAILED,
            at=self._clock.now(),
            reason=INTERRUPTED,
        )
        await self._ledger.conclude(result)
        self._publish(result)

    def forget(self, mower_id: MowerId) -> None:
        """The mower was removed: what runs and waits for it ends."""
        desk = self._desks.pop(mower_id, None)
        self._marks.pop(mower_id, None)
        self.seats.end(mower_id, DriveEnd.REMOVED)
        if desk is not None:
            self._clear(desk, REMOVED)
            desk.arrived.set()

    # -- commands in

    async def submit(
        self, envelope: CommandEnvelope, *, source: Source, may_still: Callable[[], Awaitable[bool]] = nobody_asks
    ) -> Submission:
        """Takes a command whose sender was authenticated. Returns once it is written down (a stop: under way, and
        written down unless the disk is slow); what becomes of it goes to `on_result`. `may_still` is asked again when its turn comes. UnavailableError while the box starts or ends."""
        group = self._group
        if group is None:
            raise UnavailableError("the box is not ready for commands")
        repeat = self._find_repeat(envelope)
        if repeat is not None:
            return repeat
        stranger = self._admission.find_stranger(envelope, source)
        if stranger is not None:
            return Submission(result=self._strange(envelope, stranger), is_untold=True)
        times = self._admission.times(envelope, source)
        mark = self._marks.get(envelope.mower_id)
        refusal = self._admission.find_refusal(envelope, times, source, mark)
        if source == "relay" and refusal is None:
            refusal = self._find_early_cancel(envelope)
        now = self._clock.monotonic()
        ticket = Ticket(
            envelope=envelope,
            deadline=times.deadline if times is not None else now,
            source=source,
            may_still=may_still,
            find_stranger=lambda: _reason(self._admission.find_stranger(envelope, source)),
        )
        self._tickets[envelope.command_id] = ticket
        is_stop = isinstance(envelope.command, EmergencyStop)
        if is_stop:
            self._halt(envelope, times, source)
        if refusal is None:
            refusal = self._begin(ticket, group)
        writing = group.create_task(self._enter(ticket, refusal), name=f"enter {envelope.command_id}")
        await asyncio.wait({writing}, timeout=STOP_WRITE_S if is_stop else None)
        return Submission(result=ticket.result)

    def cancel(self, cancel: CancelEnvelope) -> None:
        """The relay takes one of its commands back; its sender was authenticated. What waits is `rejected`, what is
        just being begun ends unsent, and one that was not seen yet is rejected when it comes.

        What was sent to a machine cannot be taken back: then this does nothing, and a person can stop it. Nor does
        it touch an emergency stop or a command of the household. It never starts or changes motion."""
        ticket = self._tickets.get(cancel.command_id)
        if ticket is None:
            if cancel.command_id not in self._seen:
                self._early.put(cancel, self._clock.monotonic())
            return
        if ticket.source != "relay" or ticket.is_sent or not does_cancel(cancel, ticket.envelope):
            return
        ticket.cancel(cancel.reason)
        desk = self._desks.get(cancel.mower_id)
        if self._group is None or desk is None or ticket not in desk.waiting:
            return  # whoever has it now looks before anything is sent
        desk.waiting.remove(ticket)
        self._group.create_task(
            self._conclude(ticket, CommandStatus.REJECTED, ticket.cancel_reason), name=f"cancel {cancel.command_id}"
        )

    def _find_early_cancel(self, envelope: CommandEnvelope) -> Refusal | None:
        early = self._early.find(envelope, self._clock.monotonic())
        return None if early is None else Refusal(reason=early.reason)

    def _find_repeat(self, envelope: CommandEnvelope) -> Submission | None:
        """The answer to an id that was seen: the same id on both lanes is normal, and runs once."""
        ticket = self._tickets.get(envelope.command_id)
        known = ticket.result if ticket is not None else self._seen.get(envelope.command_id)
        if ticket is None and known is None:
            return None
        mower_id = ticket.envelope.mower_id if ticket is not None else known.mower_id if known else None
        if mower_id != envelope.mower_id:
            return Submission(
                result=self._strange(envelope, Refusal(reason=SEEN_ELSEWHERE)), is_repeat=True, is_untold=True
            )
        return Submission(result=known, is_repeat=True, is_untold=known is not None)

    def _halt(self, envelope: CommandEnvelope, times: Times | None, source: Source) -> None:
        """A stop was asked for. Whatever becomes of it, nothing that was given before it moves the mower now."""
        self._mark(envelope, times, source)
        self.seats.end(envelope.mower_id, DriveEnd.STOP)
        desk = self._desks.get(envelope.mower_id)
        if desk is not None:
            self._clear(desk, CANCELLED_BY_STOP)

    def _begin(self, ticket: Ticket, group: asyncio.TaskGroup) -> Refusal | None:
        """Puts the command on its way, without waiting for anything."""
        mower_id = ticket.envelope.mower_id
        desk = self._desks.setdefault(mower_id, _Desk())
        if isinstance(ticket.envelope.command, EmergencyStop):
            if len(desk.stopping) >= limits.COMMAND_QUEUE:
                return Refusal(reason="an emergency stop is being carried out")
            desk.stopping.add(ticket)
            desk.calm.clear()
            group.create_task(self._stop(desk, ticket), name=f"emergency stop {mower_id}")
            return None
        if len(desk.waiting) >= limits.COMMAND_QUEUE:
            return Refusal(reason=f"{limits.COMMAND_QUEUE} commands are waiting already")
        desk.waiting.append(ticket)
        desk.arrived.set()
        if desk.worker is None:
            desk.worker = group.create_task(self._work(mower_id, desk), name=f"commands {mower_id}")
        return None

    def _mark(self, envelope: CommandEnvelope, times: Times | None, source: Source) -> None:
        known = times or self._admission.times(envelope, source)
        issued = known.issued if known is not None else self._clock.monotonic()
        before = self._marks.get(envelope.mower_id)
        if before is None or before.issued <= issued:
            self._marks[envelope.mower_id] = StopMark(issued=issued, issued_at=envelope.issued_at, source=source)

    def _clear(self, desk: _Desk, reason: str) -> None:
        for ticket in (desk.running, *desk.waiting):
            if ticket is not None:
                ticket.cancel(reason)

    async def _enter(self, ticket: Ticket, refusal: Refusal | None) -> None:
        """Writes the command down; the worker sends nothing before that."""
        known = await self._ledger.admit(ticket.envelope, seen_at=self._clock.now())
        if known is not None:
            # Memory had forgotten it. It does not run (again), and its result stays what it was.
            ticket.result, ticket.status = known.as_result(), known.status
            ticket.cancel(INTERRUPTED)
            self._finish(ticket)
        ticket.entered.set()
        if known is None and refusal is not None:
            await self._conclude(ticket, refusal.status, refusal.reason)

    # -- commands at work

    async def _work(self, mower_id: MowerId, desk: _Desk) -> None:
        """One mower's commands, one after the other."""
        while self._desks.get(mower_id) is desk or desk.waiting:
            while desk.waiting:
                ticket = desk.running = desk.waiting.popleft()
                await ticket.entered.wait()
                await desk.calm.wait()  # nothing overtakes a stop that is still on its way
                if ticket.status not in FINAL:
                    await self._guard(self._execution.run, ticket)
                desk.running = None
            desk.arrived.clear()
            if self._desks.get(mower_id) is desk:
                await desk.arrived.wait()

    async def _stop(self, desk: _Desk, ticket: Ticket) -> None:
        try:
            await self._guard(self._execution.stop, ticket)
        finally:
            desk.stopping.discard(ticket)
            if not desk.stopping:
                desk.calm.set()

    def _begin_drive(self, ticket: Ticket, link: OpenLink) -> None:
        """The mower is in manual mode: somebody drives it from now on, and the next command has its turn."""
        seat = self.seats.open(ticket, link)
        if self._group is None:  # the box is ending; its next life says that this was interrupted
            self.seats.close(seat)
            return
        occupied = self._guard(lambda _: self.seats.occupy(seat, self._conclude), ticket)
        self._group.create_task(occupied, name=f"drive {ticket.envelope.mower_id}")

    async def _guard(self, execute: Callable[[Ticket], Awaitable[None]], ticket: Ticket) -> None:
        try:
            await execute(ticket)
        except Exception:  # noqa: BLE001  (fire door: what one mower's data breaks must not end the commander)
            _log.exception("carrying out a command failed", command_id=ticket.envelope.command_id)
            await self._conclude(ticket, CommandStatus.FAILED, "a defect of the box; see its log")

    async def _conclude(self, ticket: Ticket, status: CommandStatus, reason: str | None) -> None:
        """One transition: on disk first, then told. A transition that does not advance is none."""
        await ticket.entered.wait()
        if not does_advance(ticket.status, None, status):
            return
        envelope = ticket.envelope
        result = CommandResult(
            command_id=envelope.command_id,
            mower_id=envelope.mower_id,
            status=status,
            at=self._clock.now(),
            reason=reason,
        )
        ticket.status, ticket.result = status, result
        await self._ledger.conclude(result)
        if status in FINAL:
            self._finish(ticket)
        _log.info(
            "command",
            command_id=envelope.command_id,
            mower_id=envelope.mower_id,
            kind=kind_of(envelope.command),
            status=status.value,
            reason=reason,
        )
        self._publish(result)

    def _finish(self, ticket: Ticket) -> None:
        self._tickets.pop(ticket.envelope.command_id, None)
        if ticket.result is not None:
            self._remember(ticket.result)

    def _remember(self, result: CommandResult) -> None:
        self._seen[result.command_id] = result
        while len(self._seen) > SEEN_MAX:
            self._seen.popitem(last=False)

    def _publish(self, result: CommandResult) -> None:
        self._counts[result.status.value] += 1
        if result.status in FINAL:
            self._remember(result)
        try:
            self._on_result(result)
        except Exception:  # noqa: BLE001  (a listener's defect must not end the commander)
            _log.exception("a listener of results failed", command_id=result.command_id)

    def _strange(self, envelope: CommandEnvelope, refusal: Refusal) -> CommandResult:
        """An answer that is not written down: the command is not one of this household's."""
        self._counts["stranger"] += 1
        _log.warning("command refused", command_id=envelope.command_id, reason=refusal.reason)
        return CommandResult(
            command_id=envelope.command_id,
            mower_id=envelope.mower_id,
            status=refusal.status,
            at=self._clock.now(),
            reason=refusal.reason,
        )


def _reason(refusal: Refusal | None) -> str | None:
    return None if refusal is None else refusal.reason
