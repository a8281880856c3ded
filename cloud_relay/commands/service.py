"""Issues commands: checked against what the mower can do, signed, published once, never again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

import structlog

from cloud_relay.commands.ledger import CommandLedger, pending_view
from cloud_relay.edges.signing_key import SigningKey
from core.domain.clock import Clock
from core.domain.commands import (
    Command,
    CommandResult,
    CommandStatus,
    IssuedBy,
    Priority,
    confirm_timeout_s,
    find_mistakes,
    kind_of,
    priority_of,
)
from core.domain.errors import ConflictError, InvalidInputError, NotPublishedError, StorageError, UnavailableError
from core.domain.ids import AccountId, CommandId, EdgeId, MowerId, make_id
from core.identity.principal import Principal
from core.sync.envelope import sign
from core.sync.messages import CommandEnvelope
from core.web.ports import CommandView, MowerCatalog

log = structlog.get_logger(__name__)

NOT_PUBLISHED = "not published"
STOP_LEAD_S = 0.5
"""How long the emergency lane may take before a stop also goes the normal way."""
HELD_RESULTS = 16
"""Results kept per command whose row is not written yet; a command has two."""

Publish = Callable[[EdgeId, MowerId, bytes], Awaitable[None]]
"""Hands a signed envelope to the broker; NotPublishedError when it did not take it."""
Announce = Callable[[AccountId, CommandResult], None]
"""Tells the people who are looking."""


class CommandService:
    """Implements `CommandDesk`. Authorisation has happened before."""

    def __init__(
        self,
        *,
        ledger: CommandLedger,
        catalog: MowerCatalog,
        key: SigningKey,
        publish: Publish,
        publish_stop: Publish,
        announce: Announce,
        clock: Clock,
    ) -> None:
        """`publish_stop` uses the emergency lane: a connection of its own that waits behind nothing."""
        self._ledger = ledger
        self._catalog = catalog
        self._key = key
        self._publish = publish
        self._publish_stop = publish_stop
        self._announce = announce
        self._clock = clock
        self._unwritten: dict[CommandId, list[tuple[EdgeId, CommandResult]]] = {}

    async def submit(
        self, who: Principal, mower_id: MowerId, command: Command, *, time_to_live: timedelta, correlation_id: str
    ) -> CommandView:
        """Issues the command. NotFoundError (mower), InvalidInputError (values), ConflictError (it cannot do it, or
        has no box), NotPublishedError (the row is then failed; nothing is sent later)."""
        mower = await self._catalog.mower(who.account_id, mower_id)
        if mower.edge_id is None:
            raise ConflictError("no box is linked for this mower", hint="Link its box to this account again.")
        confirm_s = confirm_timeout_s(command, mower.capabilities)
        if confirm_s is None:
            raise ConflictError(f"this mower cannot {kind_of(command)}", hint="Its page lists what it can do.")
        mistakes = find_mistakes(command, mower.capabilities)
        if mistakes:
            raise InvalidInputError(mistakes=mistakes)
        envelope = self._envelope(who, mower_id, mower.edge_id, command, time_to_live, correlation_id)
        signed = sign(envelope, self._key.private, self._key.key_id)
        if envelope.priority is Priority.EMERGENCY:
            return await self._submit_stop(envelope, signed, confirm_s)
        view = await self._ledger.add(envelope, confirm_timeout_s=confirm_s)
        try:
            await self._publish(envelope.edge_id, mower_id, signed)
        except NotPublishedError:
            await self._fail(envelope)
            raise
        _log_issued(envelope)
        return view

    async def command(self, account_id: AccountId, command_id: CommandId) -> CommandView:
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

    async def sweep(self) -> None:
        """Closes commands whose answer is overdue."""
        for account_id, result in await self._ledger.close_silent(self._clock.now()):
            log.info("command without answer", command_id=result.command_id, status=result.status, reason=result.reason)
            self._announce(account_id, result)

    async def _submit_stop(self, envelope: CommandEnvelope, signed: bytes, confirm_s: float) -> CommandView:
        """First the emergency lane, then the normal topic (the box takes a command id once), then the books: a
        database that is busy or full does not keep a stop from leaving."""
        self._unwritten[envelope.command_id] = []
        try:
            is_sent = await self._send_stop(envelope, signed)
            try:
                view = await self._ledger.add(envelope, confirm_timeout_s=confirm_s)
            except (StorageError, UnavailableError) as err:
                if not is_sent:
                    raise NotPublishedError("the stop did not leave the relay") from err
                # The machine is being told to stop; an error here would tell its person that it is not.
                log.error("stop sent but not written down", command_id=envelope.command_id, error=err.detail)
                view = pending_view(envelope)
        finally:
            held = self._unwritten.pop(envelope.command_id)
        if not is_sent:
            await self._fail(envelope)
            raise NotPublishedError("the stop did not leave the relay")
        for edge_id, result in held:
            await self._apply(result, edge_id)
        _log_issued(envelope)
        return view

    async def _send_stop(self, envelope: CommandEnvelope, signed: bytes) -> bool:
        """Over the emergency lane, and then the other; one that hangs does not hold up the next. Whether any took it."""
        async with asyncio.TaskGroup() as group:
            first = group.create_task(self._try_publish(self._publish_stop, envelope, signed), name="stop lane")
            await asyncio.wait({first}, timeout=STOP_LEAD_S)
            second = group.create_task(self._try_publish(self._publish, envelope, signed), name="stop main")
        return first.result() or second.result()

    async def _try_publish(self, publish: Publish, envelope: CommandEnvelope, signed: bytes) -> bool:
        try:
            await publish(envelope.edge_id, envelope.mower_id, signed)
        except NotPublishedError as err:
            log.warning("one lane of the stop failed", command_id=envelope.command_id, error=err.detail)
            return False
        return True

    async def _fail(self, envelope: CommandEnvelope) -> None:
        result = CommandResult(
            command_id=envelope.command_id,
            mower_id=envelope.mower_id,
            status=CommandStatus.FAILED,
            at=self._clock.now(),
            reason=NOT_PUBLISHED,
        )
        await self._apply(result, None)

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
        time_to_live: timedelta,
        correlation_id: str,
    ) -> CommandEnvelope:
        now = self._clock.now()
        return CommandEnvelope(
            command_id=CommandId(make_id(now)),
            account_id=who.account_id,
            edge_id=edge_id,
            mower_id=mower_id,
            command=command,
            priority=priority_of(command),
            issued_by=IssuedBy(kind=who.kind, subject=who.subject, display=who.name),
            issued_at=now,
            expires_at=now + time_to_live,
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
