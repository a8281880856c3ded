"""The book of commands that the box has seen, so that none runs twice, and the way around a disk that is full.

`Ledger` is the port (core/storage/command_ledger.py implements it). `SafeLedger` goes on in memory while the store
fails: a full disk never stops a command, and least of all a stop.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import msgspec
import structlog

from core.domain.commands import CommandResult
from core.domain.errors import StorageError
from core.domain.ids import CommandId, MowerId
from core.storage.command_ledger import LedgerEntry
from core.sync.messages import CommandEnvelope

_log = structlog.get_logger(__name__)

MEMORY_ENTRIES = 1_000
"""Commands that are remembered while the disk takes none; the oldest are forgotten beyond it."""


class Ledger(Protocol):
    """Durable; every method raises StorageError when the disk fails."""

    async def admit(self, envelope: CommandEnvelope, *, seen_at: datetime) -> LedgerEntry | None:
        """Enters the command as pending, durable on return. When it was seen before, nothing changes and the
        earlier entry is returned."""
        ...

    async def conclude(self, result: CommandResult) -> None:
        """One transition: the entry and its timeline row in one transaction, durable on return. Nothing is written
        when the command is that far already."""
        ...

    async def entry(self, command_id: CommandId) -> LedgerEntry | None:
        """What is known of a command."""
        ...

    async def entries(self, mower_id: MowerId, *, before: CommandId | None, limit: int) -> Sequence[LedgerEntry]:
        """Commands of a mower, newest id first, older than `before`."""
        ...

    async def recent(self, since: datetime) -> Sequence[LedgerEntry]:
        """Commands first seen after `since`, and older ones without a final status, oldest first."""
        ...


class SafeLedger:
    """A Ledger that never fails: what the disk does not take is kept in memory and written when it is back."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._memory: OrderedDict[CommandId, LedgerEntry] = OrderedDict()
        self._unwritten: list[LedgerEntry | CommandResult] = []
        self.lost = 0
        """Transitions that memory had no room for."""

    @property
    def unwritten(self) -> int:
        """Transitions that wait for the disk."""
        return len(self._unwritten)

    async def admit(self, envelope: CommandEnvelope, *, seen_at: datetime) -> LedgerEntry | None:
        known = self._memory.get(envelope.command_id)
        if known is not None:
            return known
        entry = LedgerEntry(envelope=envelope, updated_at=seen_at)
        try:
            await self._catch_up()
            return await self._ledger.admit(envelope, seen_at=seen_at)
        except StorageError as err:
            self._keep(entry, entry, err)
            return None

    async def conclude(self, result: CommandResult) -> None:
        known = self._memory.get(result.command_id)
        if known is not None:
            self._memory[result.command_id] = msgspec.structs.replace(
                known, status=result.status, reason=result.reason, updated_at=result.at
            )
        try:
            await self._catch_up()
            await self._ledger.conclude(result)
        except StorageError as err:
            self._keep(None, result, err)

    async def entry(self, command_id: CommandId) -> LedgerEntry | None:
        return self._memory.get(command_id) or await self._ledger.entry(command_id)

    async def entries(self, mower_id: MowerId, *, before: CommandId | None, limit: int) -> Sequence[LedgerEntry]:
        kept = {
            entry.envelope.command_id: entry
            for entry in self._memory.values()
            if entry.envelope.mower_id == mower_id and (before is None or entry.envelope.command_id < before)
        }
        for entry in await self._ledger.entries(mower_id, before=before, limit=limit):
            kept.setdefault(entry.envelope.command_id, entry)
        return [kept[command_id] for command_id in sorted(kept, reverse=True)][:limit]

    async def recent(self, since: datetime) -> Sequence[LedgerEntry]:
        try:
            return await self._ledger.recent(since)
        except (StorageError, msgspec.MsgspecError) as err:  # the latter: written by another version
            _log.error("earlier commands cannot be read", error=str(err))
            return ()

    async def catch_up(self) -> bool:
        """Writes what waits; whether nothing waits any more."""
        try:
            await self._catch_up()
        except StorageError:
            return False
        return True

    async def _catch_up(self) -> None:
        while self._unwritten:
            first = self._unwritten[0]
            if isinstance(first, LedgerEntry):
                await self._ledger.admit(first.envelope, seen_at=first.updated_at)
            else:
                await self._ledger.conclude(first)
            if self._unwritten and self._unwritten[0] is first:
                self._unwritten.pop(0)
            if not self._unwritten:
                _log.info("commands are recorded again")

    def _keep(self, entry: LedgerEntry | None, what: LedgerEntry | CommandResult, err: StorageError) -> None:
        if not self._unwritten:
            _log.error("commands cannot be recorded and are kept in memory", code=err.code, detail=err.detail)
        if entry is not None:
            self._memory[entry.envelope.command_id] = entry
            while len(self._memory) > MEMORY_ENTRIES:
                self._memory.popitem(last=False)
        self._unwritten.append(what)
        while len(self._unwritten) > MEMORY_ENTRIES:
            self._unwritten.pop(0)
            self.lost += 1
