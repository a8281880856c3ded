"""Issues commands: checked against what the mower can do, signed, published once, never again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec
import structlog

from cloud_relay.commands.ledger import CommandLedger, pending_view
from cloud_relay.commands.tenure import OpenCommand, Tenure
from cloud_relay.edges.signing_key import SigningKey
from core.domain.clock import Clock
from core.domain.commands import (
    Command,
    CommandResult,
    CommandStatus,
    IssuedBy,
    Priority,
    answer_timeout_s,
    does_advance,
    find_mistakes,
    kind_of,
    priority_of,
)
from core.domain.errors import (
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    MowdeckError,
    NotPublishedError,
    StorageError,
    UnavailableError,
)
from core.domain.ids import AccountId, CommandId, EdgeId, MowerId, make_id
from core.identity.principal import Principal
from core.sync.envelope import sign
from core.sync.messages import CommandEnvelope
from core.web.ports import CommandView, MowerCatalog

log = structlog.get_logger(__name__)

NOT_PUBLISHED = "not published"
STOP_LEAD_S = 0.5
"""How long the emergency lane may take before a stop also goes the normal way."""
BOOK_S = 2.0
"""How long the books may take before the person who pressed stop gets an answer."""
HELD_RESULTS = 16
"""Results kept per command whose row is not written yet; a command has two."""
LATE_MAX = 256
"""Stops that wait to be written down; the oldest is given up beyond it (the timeline has what its box says)."""

Publish = Callable[[EdgeId, MowerId, bytes], Awaitable[None]]
"""Hands a signed envelope to the broker; NotPublishedError when it did not take it."""
Announce = Callable[[AccountId, CommandResult], None]
"""Tells the people who are looking."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Late:
    """A stop whose row is not written yet."""

    envelope: CommandEnvelope
    confirm_s: float


class CommandService:
    """Implements `CommandDesk`. Authorisation has happened before; what may wait in a box's queue is checked once
    more when it is written down, so that no right is lost unnoticed between the two."""

    def __init__(
        self,
        *,
        ledger: CommandLedger,
        catalog: MowerCatalog,
        tenure: Tenure,
        key: SigningKey,
        publish: Publish,
        publish_stop: Publish,
        announce: Announce,
        clock: Clock,
        book_s: float = BOOK_S,
    ) -> None:
        """`publish_stop` uses the emergency lane: a connection of its own that waits behind nothing."""
        self._ledger = ledger
        self._catalog = catalog
        self._tenure = tenure
        self._key = key
        self._publish = publish
        self._publish_stop = publish_stop
        self._announce = announce
        self._clock = clock
        self._book_s = book_s
        self._late: dict[CommandId, _Late] = {}
        self._unwritten: dict[CommandId, list[tuple[EdgeId, CommandResult]]] = {}
        """What boxes said of late stops."""
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Until cancelled: lets stops be written down behind the answers to the people who sent them."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self._group = None

    async def submit(
        self, who: Principal, mower_id: MowerId, command: Command, *, time_to_live: timedelta, correlation_id: str
    ) -> CommandView:
        """Issues the command; it expires with its giver's right at the latest. NotFoundError (mower),
        InvalidInputError (values), ConflictError (it cannot do it, or has no box), ForbiddenError (the right was lost
        just now), NotPublishedError (the row is then failed; nothing is sent later)."""
        mower = await self._catalog.mower(who.account_id, mower_id)
        if mower.edge_id is None:
            raise ConflictError("no box is linked for this mower", hint="Link its box to this account again.")
        confirm_s = answer_timeout_s(command, mower.capabilities)
        if confirm_s is None:
            raise ConflictError(f"this mower cannot {kind_of(command)}", hint="Its page lists what it can do.")
        mistakes = find_mistakes(command, mower.capabilities)
        if mistakes:
            raise InvalidInputError(mistakes=mistakes)
        now = self._clock.now()
        expires_at = now + time_to_live
        if priority_of(command) is not Priority.EMERGENCY:  # a stop waits for nothing
            expires_at = min(expires_at, await self._tenure.end_of(who, mower_id, command))
        envelope = self._envelope(who, mower_id, mower.edge_id, command, now, expires_at, correlation_id)
        signed = sign(envelope, self._key.private, self._key.key_id)
        if envelope.priority is Priority.EMERGENCY:
            return await self._submit_stop(envelope, signed, confirm_s)
        session_id = who.session_id if who.kind == "user" else None
        view = await self._ledger.add(envelope, confirm_timeout_s=confirm_s, session_id=session_id)
        try:
            await self._demand_still(envelope, session_id)
            await self._publish(envelope.edge_id, mower_id, signed)
        except (UnavailableError, StorageError):  # NotPublishedError is one: none of them sent anything
            await self._fail(envelope)
            raise
        _log_issued(envelope)
        return view

    async def _demand_still(self, envelope: CommandEnvelope, session_id: str | None) -> None:
        """Once the row is there, whoever takes a right away finds it. What was taken before that is found here: the
        row is then rejected, and ForbiddenError."""
        one = OpenCommand(
            command_id=envelope.command_id,
            account_id=envelope.account_id,
            edge_id=envelope.edge_id,
            mower_id=envelope.mower_id,
            command=envelope.command,
            issued_by=envelope.issued_by,
            session_id=session_id,
            expires_at=envelope.expires_at,
        )
        reason = (await self._tenure.losses([one])).get(envelope.command_id)
        if reason is not None:
            await self._apply(self._end(envelope, CommandStatus.REJECTED, reason), None)
            raise ForbiddenError(reason)

    async def command(self, account_id: AccountId, command_id: CommandId) -> CommandView:
        late = self._late.get(command_id)
        if late is not None and late.envelope.account_id == account_id:
            return self._late_view(late)
        return await self._ledger.get(account_id, command_id)

    async def commands(
        self, account_id: AccountId, mower_id: MowerId, *, before: CommandId | None, limit: int
    ) -> Sequence[CommandView]:
        return await self._ledger.page(account_id, mower_id, before=before, limit=limit)

    async def take_result(self, edge_id: EdgeId, result: CommandResult) -> None:
        """A result from a box (live or by the journal); late and repeated ones change nothing."""
        held = self._unwritten.get(result.command_id)
        if held is not None:
            if len(held) < HELD_RESULTS:
                held.append((edge_id, result))
            return
        await self._apply(result, edge_id)

    def _late_view(self, late: _Late) -> CommandView:
        view = pending_view(late.envelope)
        for edge_id, result in self._unwritten.get(late.envelope.command_id, ()):
            if edge_id == late.envelope.edge_id and does_advance(view.status, view.reason, result.status):
                view = msgspec.structs.replace(view, status=result.status, reason=result.reason, updated_at=result.at)
        return view

    async def sweep(self) -> None:
        """Writes down late stops; closes commands whose answer is overdue."""
        await self.sweep_late()
        for account_id, result in await self._ledger.close_silent(self._clock.now()):
            log.info("command without answer", command_id=result.command_id, status=result.status, reason=result.reason)
            self._announce(account_id, result)

    async def _submit_stop(self, envelope: CommandEnvelope, signed: bytes, confirm_s: float) -> CommandView:
        """First the emergency lane, then the normal topic (the box takes a command id once), then the books: a
        database that is busy or full neither keeps a stop from leaving nor its person from hearing that it left."""
        late = _Late(envelope=envelope, confirm_s=confirm_s)
        self._remember_late(late)
        try:
            is_sent = await self._send_stop(envelope, signed)
        except BaseException:
            self._forget_late(envelope.command_id)
            raise
        if not is_sent:
            await self.take_result(envelope.edge_id, self._end(envelope, CommandStatus.FAILED, NOT_PUBLISHED))
        if envelope.command_id in self._late:  # else the sweep was faster, while the lanes were slow
            await self._try_write_down(late)
        if not is_sent:
            raise NotPublishedError("the stop did not leave the relay")
        _log_issued(envelope)
        return pending_view(envelope)

    async def _try_write_down(self, late: _Late) -> None:
        """Waits for the books, but not long: the machine is being told to stop, and its person must not hear of an
        error, or of nothing at all. A write on its way to a locked database cannot be called back, so it goes on."""
        if self._group is None:
            await self._book(late)
            return
        writing = self._group.create_task(self._book(late), name=f"book {late.envelope.command_id}")
        await asyncio.wait({writing}, timeout=self._book_s)

    async def _book(self, late: _Late) -> None:
        try:
            await self._write_down(late)
        except MowdeckError as err:
            log.error("stop not written down yet", command_id=late.envelope.command_id, error=err.detail)
        except Exception:  # fire door: a defect in the books must not end the desk
            log.exception("stop not written down", command_id=late.envelope.command_id)

    async def sweep_late(self) -> None:
        """Writes down the stops that could not be when they were sent."""
        for late in list(self._late.values()):
            try:
                await self._write_down(late)
            except (StorageError, UnavailableError) as err:
                log.warning("stops not written down yet", count=len(self._late), error=err.detail)
                return

    async def _write_down(self, late: _Late) -> None:
        """The row, and then what the box has said meanwhile."""
        command_id = late.envelope.command_id
        try:
            await self._ledger.add(late.envelope, confirm_timeout_s=late.confirm_s)
        except ConflictError:  # a write that was cut off had arrived after all
            log.info("stop was written down already", command_id=command_id)
        for edge_id, result in self._forget_late(command_id):
            await self._apply(result, edge_id)

    def _remember_late(self, late: _Late) -> None:
        while len(self._late) >= LATE_MAX:
            lost = next(iter(self._late))
            self._forget_late(lost)
            log.error("stop was never written down", command_id=lost)
        self._late[late.envelope.command_id] = late
        self._unwritten[late.envelope.command_id] = []

    def _forget_late(self, command_id: CommandId) -> list[tuple[EdgeId, CommandResult]]:
        self._late.pop(command_id, None)
        return self._unwritten.pop(command_id, [])

    async def _send_stop(self, envelope: CommandEnvelope, signed: bytes) -> bool:
        """Over the emergency lane, and then the other; one that hangs does not hold up the next, nor the answer when
        the other took it. Whether any did."""
        async with asyncio.TaskGroup() as group:
            first = group.create_task(self._try_publish(self._publish_stop, envelope, signed), name="stop lane")
            await asyncio.wait({first}, timeout=STOP_LEAD_S)
            second = group.create_task(self._try_publish(self._publish, envelope, signed), name="stop main")
            lanes = {first, second}
            while not any(lane.done() and lane.result() for lane in lanes) and not all(lane.done() for lane in lanes):
                await asyncio.wait({lane for lane in lanes if not lane.done()}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait(lanes, timeout=STOP_LEAD_S)
            for lane in lanes:
                lane.cancel()
        return any(not lane.cancelled() and lane.result() for lane in lanes)

    async def _try_publish(self, publish: Publish, envelope: CommandEnvelope, signed: bytes) -> bool:
        try:
            await publish(envelope.edge_id, envelope.mower_id, signed)
        except NotPublishedError as err:
            log.warning("one lane of the stop failed", command_id=envelope.command_id, error=err.detail)
            return False
        return True

    async def _fail(self, envelope: CommandEnvelope) -> None:
        await self._apply(self._end(envelope, CommandStatus.FAILED, NOT_PUBLISHED), None)

    def _end(self, envelope: CommandEnvelope, status: CommandStatus, reason: str) -> CommandResult:
        return CommandResult(
            command_id=envelope.command_id,
            mower_id=envelope.mower_id,
            status=status,
            at=self._clock.now(),
            reason=reason,
        )

    async def _apply(self, result: CommandResult, edge_id: EdgeId | None) -> None:
        account_id = await self._ledger.advance(result, now=self._clock.now(), edge_id=edge_id)
        if account_id is not None:
            self._announce(account_id, result)

    def _envelope(
        self,
        who: Principal,
        mower_id: MowerId,
        edge_id: EdgeId,
        command: Command,
        now: datetime,
        expires_at: datetime,
        correlation_id: str,
    ) -> CommandEnvelope:
        return CommandEnvelope(
            command_id=CommandId(make_id(now)),
            account_id=who.account_id,
            edge_id=edge_id,
            mower_id=mower_id,
            command=command,
            priority=priority_of(command),
            issued_by=IssuedBy(kind=who.kind, subject=who.subject, display=who.name),
            issued_at=now,
            expires_at=expires_at,
            correlation_id=correlation_id,
        )


def _log_issued(envelope: CommandEnvelope) -> None:
    log.info(
        "command issued",
        command_id=envelope.command_id,
        kind=kind_of(envelope.command),
        mower_id=envelope.mower_id,
        subject=envelope.issued_by.subject,
    )
