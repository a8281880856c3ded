"""Whether a command sent a mower home, asked of a real ledger of commands."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from core.domain.clock import to_us
from core.domain.commands import Command, CommandStatus, ReturnToDock, StartMow
from core.domain.ids import MowerId
from core.storage.sqlite_sessions import COMMANDS_LOOKED_AT, was_sent_home
from core.storage.sqlite_store import SqliteTelemetryStore
from tests.contract.telemetry_parts import MOWER, SECOND, at, settle
from tests.core.storage.test_command_ledger import envelope, opened, result


class Ledger:
    """The box's ledger, and the question."""

    def __init__(self, store: SqliteTelemetryStore) -> None:
        self.store = store

    async def give(
        self, number: int, command: Command, *statuses: CommandStatus, mower: MowerId = MOWER, seconds: float = 1.0
    ) -> None:
        """Command `number` is seen at second `number`; its last transition comes `seconds` later."""
        asked = msgspec.structs.replace(envelope(number, mower), command=command)
        await self.store.command_ledger.admit(asked, seen_at=at(number))
        for status in statuses:
            await self.store.command_ledger.conclude(
                msgspec.structs.replace(result(number, status, seconds), mower_id=mower)
            )

    async def says(self, since_s: float, until_s: float, mower: MowerId = MOWER) -> bool:
        return await self.store._database.read(
            lambda connection: was_sent_home(connection, mower, to_us(at(since_s)), to_us(at(until_s)))
        )


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[Ledger]:
    async with opened(tmp_path) as store:
        await settle(store)
        yield Ledger(store)


async def test_a_return_that_was_taken_or_carried_out_sent_it_home(ledger: Ledger) -> None:
    assert not await ledger.says(0, 100), "no command at all"
    await ledger.give(10, ReturnToDock(), CommandStatus.ACCEPTED)
    assert await ledger.says(0, 100)
    await ledger.give(10, ReturnToDock(), CommandStatus.EXECUTED, seconds=2)
    assert await ledger.says(0, 100)


@pytest.mark.parametrize("status", [CommandStatus.REJECTED, CommandStatus.FAILED, CommandStatus.EXPIRED])
async def test_a_return_that_came_to_nothing_did_not(ledger: Ledger, status: CommandStatus) -> None:
    await ledger.give(10, ReturnToDock(), status)
    assert not await ledger.says(0, 100)


async def test_a_return_that_was_only_seen_did_not(ledger: Ledger) -> None:
    await ledger.give(10, ReturnToDock())
    assert not await ledger.says(0, 100)


async def test_other_commands_and_other_mowers_do_not_count(ledger: Ledger) -> None:
    await ledger.give(10, StartMow(area_ids=("front",)), CommandStatus.EXECUTED)
    await ledger.give(20, ReturnToDock(), CommandStatus.EXECUTED, mower=SECOND)
    assert not await ledger.says(0, 100)
    assert await ledger.says(0, 100, SECOND)


async def test_only_between_the_two_instants_both_included(ledger: Ledger) -> None:
    await ledger.give(10, ReturnToDock(), CommandStatus.ACCEPTED)
    assert await ledger.says(11, 11)
    assert not await ledger.says(12, 100)
    assert not await ledger.says(0, 10)


async def test_a_return_behind_many_newer_commands_is_not_looked_for(ledger: Ledger) -> None:
    await ledger.give(10, ReturnToDock(), CommandStatus.EXECUTED)
    for number in range(11, 10 + COMMANDS_LOOKED_AT):
        await ledger.give(number, StartMow(area_ids=("front",)), CommandStatus.EXECUTED)
    assert await ledger.says(0, 100)
    await ledger.give(100, StartMow(area_ids=("front",)), CommandStatus.EXECUTED)
    assert not await ledger.says(0, 100)
