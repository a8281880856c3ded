"""Commands of the household's own API: `core.web.ports.CommandDesk` over the commander."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

from core.access.authorizer import Authorizer
from core.domain.access import ObjectRef, ObjectType
from core.domain.capabilities import Capabilities
from core.domain.clock import Clock
from core.domain.commands import Command, IssuedBy, confirm_timeout_s, find_mistakes, kind_of, priority_of, relation_of
from core.domain.errors import ConflictError, InvalidInputError, NotFoundError, StorageError, UnavailableError
from core.domain.ids import AccountId, CommandId, EdgeId, MowerId, make_id
from core.identity.principal import Principal
from core.storage.command_ledger import LedgerEntry
from core.sync.messages import CommandEnvelope
from core.web.ports import CommandView
from edge_agent.runtime.commander import Commander
from edge_agent.runtime.ledger import SafeLedger


class LocalCommandDesk:
    """Issues commands on the box itself, without the relay and without a signature: the API has already asked who
    it is and what they may do."""

    def __init__(
        self,
        *,
        commander: Commander,
        ledger: SafeLedger,
        clock: Clock,
        edge_id: Callable[[], EdgeId],
        capabilities: Callable[[MowerId], Capabilities | None],
        authorizer: Authorizer,
    ) -> None:
        self._commander = commander
        self._ledger = ledger
        self._clock = clock
        self._edge_id = edge_id
        self._capabilities = capabilities
        self._authorizer = authorizer

    async def submit(
        self, who: Principal, mower_id: MowerId, command: Command, *, time_to_live: timedelta, correlation_id: str
    ) -> CommandView:
        """Issues the command. InvalidInputError (values), ConflictError (the mower cannot), UnavailableError (the
        box starts). Any other refusal is the command's own `rejected` result."""
        able = self._capabilities(mower_id)
        if able is not None and confirm_timeout_s(command, able) is None:
            raise ConflictError(f"this mower cannot {kind_of(command)}")
        mistakes = () if able is None else find_mistakes(command, able)
        if mistakes:
            raise InvalidInputError(mistakes=mistakes)
        now = self._clock.now()
        envelope = CommandEnvelope(
            command_id=CommandId(make_id(now)),
            account_id=who.account_id,
            edge_id=self._edge_id(),
            mower_id=mower_id,
            command=command,
            priority=priority_of(command),
            issued_by=IssuedBy(kind=who.kind, subject=who.subject, display=who.name),
            issued_at=now,
            expires_at=now + time_to_live,
            correlation_id=correlation_id,
        )
        submission = await self._commander.submit(
            envelope, source="local", may_still=lambda: self._may_still(who, command, mower_id)
        )
        entry = LedgerEntry(envelope=envelope, updated_at=now)
        result = submission.result
        if result is None:
            return _view(entry)
        return _view(LedgerEntry(envelope=envelope, status=result.status, reason=result.reason, updated_at=result.at))

    async def _may_still(self, who: Principal, command: Command, mower_id: MowerId) -> bool:
        """Whether the right that the API found is still there. While nobody can say, it counts: an outage takes no
        rights away."""
        what = ObjectRef(type=ObjectType.MOWER, id=mower_id)
        try:
            return await self._authorizer.check(who, relation_of(command), what)
        except (UnavailableError, StorageError):
            return True

    async def command(self, account_id: AccountId, command_id: CommandId) -> CommandView:
        """One command of the household; NotFoundError for one of another account or none."""
        entry = await self._ledger.entry(command_id)
        if entry is None or entry.envelope.account_id != account_id:
            raise NotFoundError(f"no command {command_id}")
        return _view(entry)

    async def commands(
        self, account_id: AccountId, mower_id: MowerId, *, before: CommandId | None, limit: int
    ) -> Sequence[CommandView]:
        """Newest first, older than `before` (keyset paging)."""
        entries = await self._ledger.entries(mower_id, before=before, limit=limit)
        return [_view(entry) for entry in entries if entry.envelope.account_id == account_id]


def _view(entry: LedgerEntry) -> CommandView:
    envelope = entry.envelope
    return CommandView(
        command_id=envelope.command_id,
        mower_id=envelope.mower_id,
        command=envelope.command,
        status=entry.status,
        reason=entry.reason,
        issued_by=envelope.issued_by,
        issued_at=envelope.issued_at,
        expires_at=envelope.expires_at,
        updated_at=entry.updated_at,
    )
