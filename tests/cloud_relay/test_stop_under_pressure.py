"""Emergency stops while the relay itself is in trouble: the stop leaves, its person hears so soon, the books follow."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cloud_relay.commands.service import LATE_MAX
from core.domain import limits
from core.domain.commands import CommandResult, CommandStatus, EmergencyStop
from core.domain.errors import NotFoundError, NotPublishedError
from core.domain.ids import AccountId, MowerId
from tests.cloud_relay.relay_parts import hello, item

M1 = MowerId("mower-1")
SOON_S = 2.0


@pytest.fixture
async def owner(parts: Any) -> Any:
    return await parts.person("acc-a")


@pytest.fixture
async def box(parts: Any, owner: Any) -> Any:
    grant = await parts.link(owner)
    await parts.inventory.take(grant.edge_id, hello(parts.clock, item(M1)))
    parts.desk._book_s = 0.1
    async with asyncio.TaskGroup() as group:
        running = group.create_task(parts.desk.run(), name="desk")
        await asyncio.sleep(0)
        yield grant
        running.cancel()


async def stop(parts: Any, who: Any) -> Any:
    ttl = limits.EMERGENCY_TTL
    async with asyncio.timeout(SOON_S):
        return await parts.desk.submit(who, M1, EmergencyStop(), time_to_live=ttl, correlation_id="c")


@contextmanager
def locked(tmp_path: Path) -> Iterator[None]:
    """Another process writes into the relay's database, and does not end."""
    other = sqlite3.connect(tmp_path / "relay.sqlite3", isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        yield
    finally:
        other.close()


def executed(view: Any) -> CommandResult:
    return CommandResult(
        command_id=view.command_id, mower_id=M1, status=CommandStatus.EXECUTED, at=view.issued_at, reason=None
    )


async def test_a_locked_database_keeps_nobody_waiting(parts: Any, owner: Any, box: Any, tmp_path: Path) -> None:
    with locked(tmp_path):
        view = await stop(parts, owner)
        assert [topic for topic, _, _ in parts.broker.sent] == ["stop", "command"]
        await parts.desk.take_result(box.edge_id, executed(view))
        seen = await parts.desk.command(AccountId("acc-a"), view.command_id)
        assert seen.status is CommandStatus.EXECUTED
        with pytest.raises(NotFoundError):
            await parts.desk.command(AccountId("acc-b"), view.command_id)
    await parts.desk.sweep()
    [kept] = await parts.desk.commands(AccountId("acc-a"), M1, before=None, limit=10)
    assert (kept.command_id, kept.status) == (view.command_id, CommandStatus.EXECUTED)
    assert [result.status for _, result in parts.announced] == [CommandStatus.EXECUTED]
    await parts.desk.sweep()
    assert len(parts.announced) == 1


async def test_what_another_box_says_of_a_stop_that_is_not_written_yet(
    parts: Any, owner: Any, box: Any, tmp_path: Path
) -> None:
    with locked(tmp_path):
        view = await stop(parts, owner)
        await parts.desk.take_result("another", executed(view))
        assert (await parts.desk.command(AccountId("acc-a"), view.command_id)).status is CommandStatus.PENDING
    await parts.desk.sweep()
    assert (await parts.desk.command(AccountId("acc-a"), view.command_id)).status is CommandStatus.PENDING


async def test_a_main_connection_that_is_stuck_keeps_nobody_waiting(parts: Any, owner: Any, box: Any) -> None:
    async def hang(*_: object) -> None:
        await asyncio.Event().wait()

    parts.desk._publish = hang
    view = await stop(parts, owner)
    assert [topic for topic, _, _ in parts.broker.sent] == ["stop"]
    assert (await parts.desk.command(AccountId("acc-a"), view.command_id)).status is CommandStatus.PENDING


@pytest.mark.parametrize("is_away", [False, True])
async def test_a_sweep_while_the_lanes_are_slow(parts: Any, owner: Any, box: Any, is_away: bool) -> None:
    send = parts.broker.publish_stop

    async def sweep_first(*what: Any) -> None:
        await parts.desk.sweep()
        await send(*what)

    parts.desk._publish_stop = sweep_first
    parts.broker.is_away = is_away
    if is_away:
        with pytest.raises(NotPublishedError):
            await stop(parts, owner)
    else:
        await stop(parts, owner)
    [kept] = await parts.desk.commands(AccountId("acc-a"), M1, before=None, limit=10)
    assert kept.status is (CommandStatus.FAILED if is_away else CommandStatus.PENDING)


async def test_a_stop_that_did_not_leave_is_told_soon(parts: Any, owner: Any, box: Any, tmp_path: Path) -> None:
    parts.broker.is_away = True
    with locked(tmp_path), pytest.raises(NotPublishedError):
        await stop(parts, owner)
    await parts.desk.sweep()
    [kept] = await parts.desk.commands(AccountId("acc-a"), M1, before=None, limit=10)
    assert kept.status is CommandStatus.FAILED


async def test_stops_that_cannot_be_written_are_bounded(parts: Any, owner: Any, box: Any) -> None:
    async with parts.database.write() as connection:
        await connection.exec_driver_sql("ALTER TABLE fleet_commands RENAME TO lost")
    for _ in range(LATE_MAX + 5):
        await stop(parts, owner)
    assert len(parts.desk._late) == len(parts.desk._unwritten) == LATE_MAX
    await parts.desk.sweep_late()
