"""The box's memory of commands: none twice, each transition with its timeline row, both durable."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from core.domain.commands import CommandResult, CommandStatus, IssuedBy, Priority, StartMow
from core.domain.ids import AccountId, CommandId, EdgeId, MowerId
from core.storage.command_ledger import LedgerEntry
from core.storage.sqlite_store import SqliteTelemetryStore
from core.sync.messages import CommandEnvelope
from tests.contract.telemetry_parts import EVER, HOME, MOWER, SECOND, at, journal, settle
from tests.fakes.clock import ManualClock


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteTelemetryStore]:
    async with opened(tmp_path) as found:
        await settle(found)
        yield found


@contextlib.asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[SqliteTelemetryStore]:
    found = SqliteTelemetryStore(folder / "box.db", clock=ManualClock(), is_journal=True)
    await found.open()
    try:
        yield found
    finally:
        await found.close()


def envelope(number: int, mower: MowerId = MOWER) -> CommandEnvelope:
    return CommandEnvelope(
        command_id=CommandId(f"c{number:03}"),
        account_id=AccountId("home"),
        edge_id=EdgeId("edge"),
        mower_id=mower,
        command=StartMow(area_ids=("front",)),
        priority=Priority.NORMAL,
        issued_by=IssuedBy(kind="user", subject="u1", display="Ada"),
        issued_at=at(number),
        expires_at=at(number + 30),
        correlation_id="corr",
    )


def result(number: int, status: CommandStatus, seconds: float = 1.0, reason: str | None = None) -> CommandResult:
    return CommandResult(
        command_id=CommandId(f"c{number:03}"), mower_id=MOWER, status=status, at=at(number + seconds), reason=reason
    )


async def test_a_command_is_admitted_once(store: SqliteTelemetryStore, tmp_path: Path) -> None:
    ledger = store.command_ledger
    assert await ledger.admit(envelope(1), seen_at=at(1)) is None
    seen = LedgerEntry(envelope=envelope(1), updated_at=at(1))
    assert await ledger.admit(envelope(1), seen_at=at(5)) == seen
    await store.close()
    async with opened(tmp_path) as again:
        assert await again.command_ledger.admit(envelope(1), seen_at=at(9)) == seen
        assert await again.command_ledger.entry(CommandId("c001")) == seen
        assert await again.command_ledger.entry(CommandId("c002")) is None


async def test_transitions_move_the_entry_and_the_timeline_together(store: SqliteTelemetryStore) -> None:
    ledger = store.command_ledger
    await ledger.admit(envelope(1), seen_at=at(1))
    accepted = result(1, CommandStatus.ACCEPTED)
    failed = result(1, CommandStatus.FAILED, 3.0, "blocked")
    await ledger.conclude(accepted)
    await ledger.conclude(failed)
    assert await ledger.entry(CommandId("c001")) == LedgerEntry(
        envelope=envelope(1), status=CommandStatus.FAILED, reason="blocked", updated_at=at(4)
    )
    rows, _ = await store.timeline(HOME, MOWER, *EVER, limit=9)
    assert [row.result for row in rows] == [accepted, failed]
    assert [item.row for item in await journal(store)] == list(rows)


async def test_no_transition_goes_back(store: SqliteTelemetryStore) -> None:
    ledger = store.command_ledger
    await ledger.admit(envelope(1), seen_at=at(1))
    await ledger.conclude(result(1, CommandStatus.EXECUTED))
    for late in (CommandStatus.PENDING, CommandStatus.ACCEPTED, CommandStatus.EXECUTED, CommandStatus.FAILED):
        await ledger.conclude(result(1, late, 5.0))
    found = await ledger.entry(CommandId("c001"))
    assert found is not None
    assert found.status is CommandStatus.EXECUTED
    assert len((await store.timeline(HOME, MOWER, *EVER, limit=9))[0]) == 1


async def test_a_command_that_was_never_admitted_only_gets_its_row(store: SqliteTelemetryStore) -> None:
    await store.command_ledger.conclude(result(1, CommandStatus.REJECTED, reason="signature"))
    assert await store.command_ledger.entry(CommandId("c001")) is None
    assert len((await store.timeline(HOME, MOWER, *EVER, limit=9))[0]) == 1


async def test_open_commands_are_found_after_a_crash(store: SqliteTelemetryStore) -> None:
    ledger = store.command_ledger
    for number in (1, 2, 3, 4):
        await ledger.admit(envelope(number), seen_at=at(number))
    await ledger.conclude(result(2, CommandStatus.ACCEPTED))
    await ledger.conclude(result(3, CommandStatus.EXECUTED))
    found = await ledger.recent(at(1_000_000))
    assert [(entry.envelope.command_id, entry.status.value) for entry in found] == [
        ("c001", "pending"),
        ("c002", "accepted"),
        ("c004", "pending"),
    ]
    assert [entry.envelope.command_id for entry in await ledger.recent(at(3))] == ["c001", "c002", "c003", "c004"]


async def test_entries_page_from_the_newest(store: SqliteTelemetryStore) -> None:
    ledger = store.command_ledger
    for number in range(5):
        await ledger.admit(envelope(number, SECOND if number == 3 else MOWER), seen_at=at(number))
    first = await ledger.entries(MOWER, before=None, limit=2)
    assert [entry.envelope.command_id for entry in first] == ["c004", "c002"]
    rest = await ledger.entries(MOWER, before=CommandId("c002"), limit=9)
    assert [entry.envelope.command_id for entry in rest] == ["c001", "c000"]


async def test_retention_forgets_ended_commands_only(store: SqliteTelemetryStore) -> None:
    ledger = store.command_ledger
    for number in (1, 2):
        await ledger.admit(envelope(number), seen_at=at(number))
    await ledger.conclude(result(1, CommandStatus.EXPIRED))
    await store.retain(at(0) + timedelta(hours=25))
    assert len(await ledger.entries(MOWER, before=None, limit=9)) == 2
    deleted = await store.retain(at(10) + timedelta(days=30))
    assert deleted["command_ledger"] == 1
    assert [entry.envelope.command_id for entry in await ledger.entries(MOWER, before=None, limit=9)] == ["c002"]


async def test_purging_a_mower_takes_its_commands(store: SqliteTelemetryStore) -> None:
    await store.command_ledger.admit(envelope(1), seen_at=at(1))
    await store.command_ledger.admit(envelope(2, SECOND), seen_at=at(1))
    await store.purge_mower(MOWER)
    assert await store.command_ledger.entry(CommandId("c001")) is None
    assert await store.command_ledger.entry(CommandId("c002")) is not None
