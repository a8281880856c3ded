"""Motion that must not happen: late by a relay's wrong clock, after a stop that came to nothing, after the link ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from core.domain.commands import CommandStatus, EmergencyStop, FindMower, StartMow
from core.domain.mower import Activity
from core.storage.command_ledger import LedgerEntry
from core.sync.messages import CommandEnvelope
from edge_agent.runtime import ticket
from edge_agent.runtime.ledger import Ledger
from tests.edge_agent.runtime.box import OTHER, CommandBox, command_box
from tests.edge_agent.runtime.plugin import CAPABILITIES, FakeLink


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[CommandBox]:
    async with command_box(tmp_path) as made:
        made.show(Activity.DOCKED)
        yield made


def link_of(box: CommandBox) -> FakeLink:
    assert box.link is not None
    return box.link


def measure_relay(box: CommandBox) -> None:
    now = box.clock.monotonic()
    box.keeper.measure(sent_monotonic=now, received_monotonic=now, relay_at=box.clock.now())


def shifted(envelope: CommandEnvelope, seconds: float) -> CommandEnvelope:
    """As a relay whose clock is `seconds` ahead would have signed it."""
    ahead = timedelta(seconds=seconds)
    return msgspec.structs.replace(
        envelope, issued_at=envelope.issued_at + ahead, expires_at=envelope.expires_at + ahead
    )


async def hold_up(box: CommandBox) -> CommandEnvelope:
    """A command that is being sent and does not return, so that others wait behind it."""
    link_of(box).gate.clear()
    envelope = await box.send(FindMower())
    await link_of(box).arrived.wait()
    return envelope


async def test_a_relays_clock_that_jumps_ahead_gives_no_command_a_longer_life(box: CommandBox) -> None:
    measure_relay(box)
    await hold_up(box)
    late = shifted(box.envelope(StartMow(duration_s=60), ttl_s=30.0), 3_600.0)
    await box.submit(late)
    box.clock.advance(31.0)
    link_of(box).gate.set()
    assert (await box.ended(late))[0] is CommandStatus.EXPIRED
    assert box.starts() == []


async def test_what_was_given_before_a_stop_that_found_no_mower_does_not_run_later(box: CommandBox) -> None:
    early = box.envelope(StartMow(duration_s=60))
    box.clock.advance(1.0)
    box.capabilities = None
    stop = await box.send(EmergencyStop())
    assert (await box.ended(stop)) == (CommandStatus.REJECTED, ticket.OFFLINE)
    box.capabilities = CAPABILITIES
    await box.submit(early)
    assert (await box.ended(early)) == (CommandStatus.REJECTED, ticket.OLDER_THAN_STOP)
    assert box.starts() == []


async def test_a_stop_that_came_too_late_still_ends_what_waits(box: CommandBox) -> None:
    await hold_up(box)
    waiting = await box.send(StartMow(duration_s=60), ttl_s=300.0)
    stop = box.envelope(EmergencyStop(), ttl_s=10.0)
    box.clock.advance(11.0)
    await box.submit(stop)
    link_of(box).gate.set()
    assert (await box.ended(stop))[0] is CommandStatus.EXPIRED
    assert (await box.ended(waiting)) == (CommandStatus.REJECTED, ticket.CANCELLED_BY_STOP)
    assert box.starts() == []


@pytest.mark.parametrize("jump_s", [3_600.0, -3_600.0])
async def test_a_wall_clock_that_is_set_loses_no_stop(box: CommandBox, jump_s: float) -> None:
    measure_relay(box)
    stop = box.envelope(EmergencyStop(), ttl_s=10.0)
    box.clock.jump(jump_s)
    await box.submit(stop)
    assert (await box.ended(stop))[0] is CommandStatus.EXECUTED
    assert link_of(box).sent == [EmergencyStop()]


async def test_what_waits_when_the_link_ends_does_not_run(box: CommandBox) -> None:
    await hold_up(box)
    waiting = await box.send(StartMow(duration_s=60))
    box.account = None
    link_of(box).gate.set()
    assert (await box.ended(waiting))[0] is CommandStatus.REJECTED
    assert box.starts() == []


class StuckLedger:
    """A disk that takes nothing and says nothing."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.free = asyncio.Event()

    async def admit(self, envelope: CommandEnvelope, *, seen_at: datetime) -> LedgerEntry | None:
        await self.free.wait()
        return await self._ledger.admit(envelope, seen_at=seen_at)

    def __getattr__(self, name: str) -> object:
        return getattr(self._ledger, name)


async def test_a_stop_does_not_wait_for_the_disk_of_the_stop_before(box: CommandBox) -> None:
    """The emergency lane hands stops over one after the other."""
    stuck: list[StuckLedger] = []

    def wrap(ledger: Ledger) -> Ledger:
        stuck.append(StuckLedger(ledger))
        return stuck[-1]  # type: ignore[return-value]

    box.wrap = wrap
    await box.restart()
    try:
        async with asyncio.timeout(3):
            await box.send(EmergencyStop())
            await box.send(EmergencyStop(), mower_id=OTHER)
        await box.idle_loop()
        assert link_of(box).sent == [EmergencyStop(), EmergencyStop()]
    finally:
        stuck[-1].free.set()
