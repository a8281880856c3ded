"""Cancels of the relay: what waits is rejected, what was sent stays, and neither order of the two moves anything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.domain import limits
from core.domain.commands import CommandStatus, EmergencyStop, FindMower, PauseMow, SetBladeHeight, StartMow
from core.domain.ids import AccountId, CommandId, EdgeId, MowerId
from core.domain.mower import Activity
from core.sync.messages import CancelEnvelope, CommandEnvelope
from edge_agent.runtime import ticket
from edge_agent.runtime.early_cancels import EARLY_CANCELS, EarlyCancels
from tests.edge_agent.runtime.box import CommandBox, command_box
from tests.edge_agent.runtime.plugin import FakeLink
from tests.fakes.clock import START

REASON = "taken back"
ACCEPTED, EXECUTED = (CommandStatus.ACCEPTED, None), (CommandStatus.EXECUTED, None)
TAKEN = (CommandStatus.REJECTED, REASON)


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[CommandBox]:
    async with command_box(tmp_path) as made:
        made.show(Activity.DOCKED)
        yield made


def link_of(box: CommandBox) -> FakeLink:
    assert box.link is not None
    return box.link


def cancel_of(envelope: CommandEnvelope, **changes: str) -> CancelEnvelope:
    cancel = CancelEnvelope(
        command_id=envelope.command_id,
        account_id=envelope.account_id,
        edge_id=envelope.edge_id,
        mower_id=envelope.mower_id,
        reason=REASON,
        issued_at=envelope.issued_at,
    )
    return msgspec.structs.replace(cancel, **changes)


async def busy(box: CommandBox) -> CommandEnvelope:
    """A command that is being sent, so that others wait behind it."""
    link_of(box).gate.clear()
    envelope = await box.send(FindMower())
    await link_of(box).arrived.wait()
    return envelope


async def test_what_waits_is_rejected_at_once_for_good(box: CommandBox) -> None:
    running = await busy(box)
    waiting, behind = await box.send(StartMow()), await box.send(FindMower())
    box.commander.cancel(cancel_of(waiting))
    box.commander.cancel(cancel_of(waiting))
    assert await box.ended(waiting) == TAKEN  # while the other still runs
    assert box.story(running) == [ACCEPTED]
    link_of(box).gate.set()
    assert await box.ended(behind) == EXECUTED
    assert await box.ended(running) == EXECUTED
    assert link_of(box).sent == [FindMower(), FindMower()]
    assert box.story(waiting) == [TAKEN]
    entry = await box.store.command_ledger.entry(waiting.command_id)
    assert entry is not None
    assert (entry.status, entry.reason) == TAKEN
    rows = (await box.store.read_journal(0, 100)).rows
    assert waiting.command_id in {row.row.result.command_id for row in rows}  # type: ignore[union-attr]
    await box.restart()
    again = await box.submit(waiting)
    assert again.result is not None
    assert (again.result.status, again.result.reason) == TAKEN


async def test_its_place_is_free_again(box: CommandBox) -> None:
    await busy(box)
    waiting = [await box.send(FindMower()) for _ in range(limits.COMMAND_QUEUE)]
    box.commander.cancel(cancel_of(waiting[3]))
    another = await box.send(FindMower())
    link_of(box).gate.set()
    assert await box.ended(another) == EXECUTED
    assert await box.ended(waiting[3]) == TAKEN


async def test_what_was_sent_cannot_be_taken_back(box: CommandBox) -> None:
    running = await busy(box)
    box.commander.cancel(cancel_of(running))
    await box.idle()
    assert box.story(running) == [ACCEPTED]
    link_of(box).gate.set()
    assert await box.ended(running) == EXECUTED
    box.commander.cancel(cancel_of(running))  # long over
    await box.idle()
    assert box.story(running) == [ACCEPTED, EXECUTED]
    assert len(box.commander._early) == 0


async def test_while_it_waits_for_its_effect_it_goes_on(box: CommandBox) -> None:
    start = await box.send(StartMow())
    await link_of(box).arrived.wait()
    box.commander.cancel(cancel_of(start))
    box.show(Activity.LEAVING)
    assert await box.ended(start) == EXECUTED


async def test_what_is_just_being_begun_is_not_sent(box: CommandBox) -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    async def may_still() -> bool:
        asked.set()
        await answer.wait()
        return True

    start = box.envelope(StartMow())
    await box.commander.submit(start, source="relay", may_still=may_still)
    await asked.wait()
    box.commander.cancel(cancel_of(start))
    answer.set()
    assert await box.ended(start) == (CommandStatus.FAILED, REASON)
    assert link_of(box).sent == []


async def test_one_that_comes_after_its_cancel(box: CommandBox) -> None:
    start = box.envelope(StartMow())
    box.commander.cancel(cancel_of(start))
    await box.submit(start)
    assert await box.ended(start) == TAKEN
    assert link_of(box).sent == []
    other = await box.send(FindMower())
    assert await box.ended(other) == EXECUTED


async def test_a_stop_is_never_cancelled(box: CommandBox) -> None:
    stop = box.envelope(EmergencyStop())
    box.commander.cancel(cancel_of(stop))
    box.show(Activity.MOWING)
    link_of(box).gate.clear()
    await box.submit(stop)
    box.commander.cancel(cancel_of(stop))
    await link_of(box).arrived.wait()
    box.commander.cancel(cancel_of(stop))
    box.show(Activity.PAUSED)
    link_of(box).gate.set()
    assert await box.ended(stop) == EXECUTED
    assert link_of(box).sent == [EmergencyStop()]


async def test_a_stop_that_came_first_keeps_its_reason(box: CommandBox) -> None:
    await busy(box)
    waiting = await box.send(StartMow())
    box.clock.advance(1)
    await box.send(EmergencyStop())
    box.commander.cancel(cancel_of(waiting))
    link_of(box).gate.set()
    assert await box.ended(waiting) == (CommandStatus.REJECTED, ticket.CANCELLED_BY_STOP)


async def test_the_household_is_not_the_relays_to_cancel(box: CommandBox) -> None:
    early = box.envelope(FindMower())
    box.commander.cancel(cancel_of(early))
    await box.submit(early, source="local")
    assert await box.ended(early) == EXECUTED
    await busy(box)
    waiting = await box.send(FindMower(), source="local")
    box.commander.cancel(cancel_of(waiting))
    link_of(box).gate.set()
    assert await box.ended(waiting) == EXECUTED


@pytest.mark.parametrize("field", ["account_id", "edge_id", "mower_id"])
async def test_a_cancel_must_name_the_command_in_full(box: CommandBox, field: str) -> None:
    await busy(box)
    waiting, late = await box.send(FindMower()), box.envelope(FindMower())
    for envelope in (waiting, late):
        box.commander.cancel(cancel_of(envelope, **{field: "other"}))
    await box.submit(late)
    link_of(box).gate.set()
    assert await box.ended(waiting) == EXECUTED
    assert await box.ended(late) == EXECUTED


async def test_while_the_box_starts_or_ends(box: CommandBox) -> None:
    await box.stop()
    start = box.envelope(StartMow())
    box.commander.cancel(cancel_of(start))
    assert link_of(box).sent == []


STEPS = st.lists(st.tuples(st.sampled_from(["submit", "cancel", "idle"]), st.integers(0, 3)), max_size=14)
COMMANDS = (StartMow(duration_s=60), PauseMow(), SetBladeHeight(height_mm=30), FindMower())


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, opens_at=st.integers(0, 14))
async def test_in_any_order_a_cancel_moves_nothing(
    box: CommandBox, steps: list[tuple[str, int]], opens_at: int
) -> None:
    """One final result each at most; what was rejected was never sent, nothing is sent twice or after its cancel."""
    link = link_of(box)
    link.sent.clear()
    link.gate.clear()
    envelopes = [box.envelope(command) for command in COMMANDS]
    submitted: set[int] = set()
    sent_at_cancel: dict[int, bool] = {}
    for number, (step, which) in enumerate(steps):
        if number == opens_at:
            link.gate.set()
        if step == "submit":
            submitted.add(which)
            await box.submit(envelopes[which])
        elif step == "cancel":
            known = box.commander._tickets.get(envelopes[which].command_id)
            is_on_its_way = known is not None and known.is_sent
            sent_at_cancel.setdefault(which, is_on_its_way or COMMANDS[which] in link.sent)
            box.commander.cancel(cancel_of(envelopes[which]))
        else:
            await box.idle_loop()
    link.gate.set()
    for which in submitted:
        await box.ended(envelopes[which])
    for which, envelope in enumerate(envelopes):
        final = [status for status, _ in box.story(envelope) if status is not CommandStatus.ACCEPTED]
        assert len(final) == (which in submitted)
        assert link.sent.count(COMMANDS[which]) <= 1
        if sent_at_cancel.get(which) is False or final == [CommandStatus.REJECTED]:
            assert COMMANDS[which] not in link.sent


def _cancel(number: int) -> CancelEnvelope:
    return CancelEnvelope(
        command_id=CommandId(f"c{number}"),
        account_id=AccountId("a"),
        edge_id=EdgeId("e"),
        mower_id=MowerId("m"),
        reason=REASON,
        issued_at=START,
    )


def test_early_cancels_are_bounded_in_number_and_time() -> None:
    kept = EarlyCancels()
    for number in range(EARLY_CANCELS + 5):
        kept.put(_cancel(number), 0)
    assert len(kept) == EARLY_CANCELS
    kept.put(_cancel(10_000), 10)
    kept.put(_cancel(1_000), 10)  # said again: kept longer
    kept.put(_cancel(10_001), limits.SEEN_COMMANDS.total_seconds())
    assert len(kept) == 3
