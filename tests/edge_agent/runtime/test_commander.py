"""Commands on a real ledger: admitted in order, sent once, never late, and stopped by a stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from core.domain import limits
from core.domain.capabilities import Capabilities
from core.domain.commands import (
    CommandStatus,
    EmergencyStop,
    FindMower,
    PauseMow,
    ReturnToDock,
    SetBladeHeight,
    StartMow,
)
from core.domain.errors import LinkLostError, StorageFullError, UnavailableError
from core.domain.ids import AccountId, MowerId
from core.domain.mower import Activity, BladeHeight, Connectivity, MowerError
from core.platform.integration import Outcome
from edge_agent.clock.kernel import ClockQuality
from edge_agent.runtime import ticket
from tests.edge_agent.runtime.box import MOWER, OURS, CommandBox, command_box
from tests.edge_agent.runtime.plugin import FakeLink

ACCEPTED, EXECUTED = (CommandStatus.ACCEPTED, None), (CommandStatus.EXECUTED, None)


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[CommandBox]:
    async with command_box(tmp_path) as made:
        made.show(Activity.DOCKED)
        yield made


def link_of(box: CommandBox) -> FakeLink:
    assert box.link is not None
    return box.link


async def timeline(box: CommandBox) -> list[tuple[str, CommandStatus]]:
    head = await box.store.read_journal(0, 1000)
    return [(row.row.result.command_id, row.row.result.status) for row in head.rows]  # type: ignore[union-attr]


async def test_accepted_then_executed_when_the_state_shows_it(box: CommandBox) -> None:
    envelope = await box.send(StartMow())
    await link_of(box).arrived.wait()
    assert box.story(envelope) == [ACCEPTED]
    box.show(Activity.LEAVING)
    assert await box.ended(envelope) == EXECUTED
    assert await timeline(box) == [
        (envelope.command_id, CommandStatus.ACCEPTED),
        (envelope.command_id, CommandStatus.EXECUTED),
    ]


async def test_unconfirmed_when_the_state_never_shows_it(box: CommandBox) -> None:
    assert await box.ended(await box.send(StartMow())) == (CommandStatus.FAILED, "unconfirmed")


async def test_a_state_of_a_mower_out_of_reach_confirms_nothing(box: CommandBox) -> None:
    envelope = await box.send(StartMow())
    await link_of(box).arrived.wait()
    box.show(Activity.MOWING, connectivity=Connectivity.OFFLINE)
    assert await box.ended(envelope) == (CommandStatus.FAILED, "unconfirmed")


@pytest.mark.parametrize(
    ("answer", "final"),
    [
        (Outcome(kind="refused", reason="lifted"), (CommandStatus.FAILED, "lifted")),
        (Outcome(kind="unknown"), (CommandStatus.FAILED, "unconfirmed")),
        (LinkLostError("gone"), (CommandStatus.FAILED, "unconfirmed: gone")),
    ],
)
async def test_what_the_mower_says(box: CommandBox, answer: Outcome, final: object) -> None:
    link_of(box).answer = answer
    assert await box.ended(await box.send(StartMow())) == final
    assert len(link_of(box).sent) == 1


async def test_a_defect_of_the_plugin_is_unconfirmed(box: CommandBox) -> None:
    link_of(box).answer = ValueError("bug")
    status, reason = await box.ended(await box.send(StartMow()))
    assert status is CommandStatus.FAILED
    assert reason is not None
    assert reason.startswith("unconfirmed: ")


async def test_an_unknown_outcome_is_executed_when_the_state_shows_it(box: CommandBox) -> None:
    link_of(box).answer = LinkLostError("gone")
    link_of(box).gate.clear()
    envelope = await box.send(StartMow())
    await link_of(box).arrived.wait()
    box.show(Activity.MOWING)
    link_of(box).gate.set()
    assert await box.ended(envelope) == EXECUTED


async def test_an_invisible_command_is_confirmed_by_the_mowers_word_only(box: CommandBox) -> None:
    assert await box.ended(await box.send(FindMower())) == EXECUTED
    link_of(box).answer = Outcome(kind="unknown")
    envelope = await box.send(FindMower())
    box.show(Activity.DOCKED)
    assert await box.ended(envelope) == (CommandStatus.FAILED, "unconfirmed")


async def test_a_send_that_hangs_is_cut(box: CommandBox) -> None:
    link_of(box).gate.clear()
    status, reason = await box.ended(await box.send(FindMower()))
    assert (status, str(reason)[:11]) == (CommandStatus.FAILED, "unconfirmed")


async def test_refusals_in_order(box: CommandBox) -> None:
    """Each envelope is wrong in one more, later way; the first reason is the one that counts."""
    late = box.envelope(SetBladeHeight(height_mm=5), ttl_s=-1)
    foreign = msgspec.structs.replace(late, mower_id=MowerId("x"), account_id=AccountId("theirs"))
    submitted = await box.submit(foreign)
    assert submitted.result is not None
    assert submitted.result.reason == "not a mower of this box"
    theirs = msgspec.structs.replace(late, account_id=AccountId("theirs"))
    submitted = await box.submit(theirs)
    assert submitted.result is not None
    assert submitted.result.reason == "the mower belongs to another account"
    assert box.results == []  # not this household's: nothing is written down
    box.capabilities = Capabilities()
    submitted = await box.submit(late)
    assert submitted.result is not None
    assert submitted.result.status is CommandStatus.EXPIRED
    envelope = await box.send(SetBladeHeight(height_mm=5))
    assert await box.ended(envelope) == (CommandStatus.REJECTED, "the mower cannot set_blade_height")
    box.capabilities = link_of(box).capabilities
    envelope = await box.send(SetBladeHeight(height_mm=5))
    assert await box.ended(envelope) == (CommandStatus.REJECTED, "height_mm: must be between 20 and 60")
    envelope = await box.send(PauseMow())
    assert await box.ended(envelope) == (CommandStatus.REJECTED, "nothing to pause: the mower is docked")
    assert link_of(box).sent == []


async def test_offline(box: CommandBox) -> None:
    box.link = None
    assert await box.ended(await box.send(StartMow())) == (CommandStatus.REJECTED, "mower is offline")
    assert await box.ended(await box.send(EmergencyStop())) == (CommandStatus.REJECTED, "mower is offline")


async def test_motion_needs_a_known_state(box: CommandBox) -> None:
    box.live.forget(MOWER)
    link_of(box)
    assert await box.ended(await box.send(StartMow())) == (CommandStatus.REJECTED, "the mower's state is unknown")
    box.show(Activity.DOCKED, error=MowerError(code="42"))
    assert await box.ended(await box.send(StartMow())) == (CommandStatus.REJECTED, "the mower reports an error (42)")


async def test_one_at_a_time_in_order(box: CommandBox) -> None:
    link_of(box).gate.clear()
    first = await box.send(StartMow(duration_s=60))
    second = await box.send(SetBladeHeight(height_mm=30))
    await link_of(box).arrived.wait()
    await box.idle()
    assert len(link_of(box).sent) == 1
    assert box.story(second) == []
    box.show(Activity.MOWING)
    link_of(box).gate.set()
    assert await box.ended(first) == EXECUTED
    await box.until(lambda: box.story(second) == [ACCEPTED])
    box.show(Activity.MOWING, blade_height=BladeHeight(value=30))
    assert await box.ended(second) == EXECUTED


async def test_other_mowers_do_not_wait(box: CommandBox) -> None:
    link_of(box).gate.clear()
    await box.send(StartMow())
    other = await box.send(FindMower(), mower_id=MowerId("n"))
    await box.until(lambda: box.story(other) == [ACCEPTED])


async def test_the_queue_is_bounded(box: CommandBox) -> None:
    link_of(box).gate.clear()
    await box.send(FindMower())
    await link_of(box).arrived.wait()
    for _ in range(limits.COMMAND_QUEUE):
        await box.send(FindMower())
    too_much = await box.send(FindMower())
    assert await box.ended(too_much) == (CommandStatus.REJECTED, "16 commands are waiting already")


async def test_expired_while_queued(box: CommandBox) -> None:
    link_of(box).gate.clear()
    await box.send(FindMower())
    late = await box.send(FindMower(), ttl_s=10)
    await link_of(box).arrived.wait()
    box.clock.advance(11)
    link_of(box).gate.set()
    assert (await box.ended(late))[0] is CommandStatus.EXPIRED
    assert len(link_of(box).sent) == 1


async def test_a_stop_ends_what_runs_and_what_waits(box: CommandBox) -> None:
    link_of(box).gate.clear()
    running = await box.send(StartMow())
    await link_of(box).arrived.wait()
    waiting = [await box.send(ReturnToDock()) for _ in range(3)]
    box.clock.advance(1)
    link_of(box).gate.set()
    stop = await box.send(EmergencyStop())
    box.show(Activity.PAUSED)
    assert await box.ended(stop) == EXECUTED
    status, reason = await box.ended(running)
    assert status is CommandStatus.FAILED
    assert reason == ticket.CANCELLED_BY_STOP
    for envelope in waiting:
        assert await box.ended(envelope) == (CommandStatus.REJECTED, ticket.CANCELLED_BY_STOP)
    assert [type(command) for command in link_of(box).sent] == [StartMow, EmergencyStop]


async def test_a_stop_does_not_wait_for_a_send_that_hangs(box: CommandBox) -> None:
    link_of(box).gate.clear()
    running = await box.send(StartMow())
    await link_of(box).arrived.wait()
    box.clock.advance(1)
    await box.send(EmergencyStop())
    assert [type(command) for command in link_of(box).sent] == [StartMow, EmergencyStop]
    assert (await box.ended(running))[0] is CommandStatus.FAILED


async def test_a_stop_that_may_not_have_been_heard_is_sent_again(box: CommandBox) -> None:
    link_of(box).answer = LinkLostError("gone")
    await box.ended(await box.send(EmergencyStop()))
    assert len(link_of(box).sent) == 2


async def test_what_was_given_before_a_stop_does_not_run_after_it(box: CommandBox) -> None:
    late = box.envelope(StartMow())
    box.clock.advance(1)
    stop = await box.send(EmergencyStop())
    box.show(Activity.PAUSED)
    await box.ended(stop)
    await box.submit(late)
    assert await box.ended(late) == (CommandStatus.REJECTED, ticket.OLDER_THAN_STOP)
    await box.restart()
    later = msgspec.structs.replace(late, command_id="another")
    await box.submit(later)
    assert await box.ended(later) == (CommandStatus.REJECTED, ticket.OLDER_THAN_STOP)


async def test_a_local_stop_covers_older_commands_of_the_relay(box: CommandBox) -> None:
    late = box.envelope(StartMow())
    box.clock.advance(1)
    await box.ended(await box.send(EmergencyStop(), source="local"))
    await box.submit(late, source="relay")
    assert await box.ended(late) == (CommandStatus.REJECTED, ticket.OLDER_THAN_STOP)


async def test_a_new_command_after_a_stop_runs_after_it(box: CommandBox) -> None:
    link_of(box).gate.clear()
    await box.send(EmergencyStop())
    box.clock.advance(1)
    start = await box.send(StartMow())
    await box.idle()
    assert [type(command) for command in link_of(box).sent] == [EmergencyStop]
    box.show(Activity.PAUSED)
    link_of(box).gate.set()
    await box.until(lambda: box.story(start) == [ACCEPTED])


async def test_the_same_id_runs_once_and_answers_alike(box: CommandBox) -> None:
    envelope = box.envelope(FindMower())
    both = await asyncio.gather(box.submit(envelope), box.submit(envelope))
    assert [submission.is_repeat for submission in both] == [False, True]
    await box.ended(envelope)
    count = len(box.results)
    box.clock.advance(3_600)  # long expired, and still the known answer
    again = await box.submit(envelope)
    assert again.result is not None
    assert again.result.status is CommandStatus.EXECUTED
    await box.restart()
    again = await box.submit(envelope)
    assert again.is_repeat
    assert again.result is not None
    assert again.result.status is CommandStatus.EXECUTED
    assert len(link_of(box).sent) == 1
    assert len(box.results) == count
    elsewhere = msgspec.structs.replace(envelope, mower_id=MowerId("n"))
    refused = await box.submit(elsewhere)
    assert refused.result is not None
    assert refused.result.reason == ticket.SEEN_ELSEWHERE


async def test_the_same_stop_on_both_lanes(box: CommandBox) -> None:
    envelope = box.envelope(EmergencyStop())
    await asyncio.gather(box.submit(envelope), box.submit(envelope))
    await box.ended(envelope)
    assert len(link_of(box).sent) == 1


async def test_interrupted_by_a_crash(box: CommandBox) -> None:
    link_of(box).gate.clear()
    running = await box.send(StartMow())
    waiting = await box.send(ReturnToDock())
    await link_of(box).arrived.wait()
    box.results.clear()
    await box.restart()
    assert box.story(running) == [(CommandStatus.FAILED, "interrupted")]
    assert box.story(waiting) == [(CommandStatus.FAILED, "interrupted")]
    link_of(box).gate.set()
    await box.idle()
    assert len(link_of(box).sent) == 1
    await box.restart()
    assert len(box.results) == 2


async def test_memory_alone_forgets_but_the_ledger_does_not(box: CommandBox) -> None:
    envelope = await box.send(FindMower())
    await box.ended(envelope)
    box.commander._seen.clear()
    again = await box.submit(envelope)
    assert again.result is not None
    assert again.result.status is CommandStatus.EXECUTED
    await box.idle()
    assert len(link_of(box).sent) == 1


async def test_without_a_clock_only_a_stop_is_taken(box: CommandBox) -> None:
    box.quality = ClockQuality.UNSYNCHRONISED
    box.clock.advance(10)
    assert await box.ended(await box.send(StartMow())) == (
        CommandStatus.REJECTED,
        "the box does not know the time yet",
    )
    await box.ended(await box.send(EmergencyStop()))
    assert len(link_of(box).sent) == 1
    box.clock.advance(1)
    local = await box.send(FindMower(), source="local")  # given and carried out by the same clock
    assert await box.ended(local) == EXECUTED


async def test_a_command_that_lives_longer_than_the_memory_is_refused(box: CommandBox) -> None:
    days = limits.SEEN_COMMANDS + timedelta(hours=1)
    envelope = await box.send(FindMower(), ttl_s=days.total_seconds())
    assert (await box.ended(envelope))[0] is CommandStatus.REJECTED


async def test_a_removed_mower(box: CommandBox) -> None:
    link_of(box).gate.clear()
    running = await box.send(StartMow())
    waiting = await box.send(FindMower())
    await link_of(box).arrived.wait()
    box.commander.forget(MOWER)
    assert await box.ended(running) == (CommandStatus.FAILED, ticket.REMOVED)
    assert await box.ended(waiting) == (CommandStatus.REJECTED, ticket.REMOVED)


async def test_not_before_the_start_and_not_after_the_end(box: CommandBox) -> None:
    await box.stop()
    with pytest.raises(UnavailableError):
        await box.send(StartMow())


class FullDisk:
    """A ledger on a disk that is full until `is_full` is cleared."""

    def __init__(self, ledger: object) -> None:
        self._ledger = ledger
        self.is_full = True

    def __getattr__(self, name: str) -> object:
        async def call(*args: object, **fields: object) -> object:
            if self.is_full:
                raise StorageFullError("no room")
            return await getattr(self._ledger, name)(*args, **fields)

        return call


async def test_a_full_disk_stops_no_command_and_is_caught_up_with(box: CommandBox) -> None:
    box.wrap = FullDisk  # type: ignore[assignment]
    await box.restart()
    disk = box.safe._ledger
    assert isinstance(disk, FullDisk)
    box.show(Activity.DOCKED)
    envelope = await box.send(FindMower())
    assert await box.ended(envelope) == EXECUTED
    again = await box.submit(envelope)
    assert again.is_repeat
    assert box.safe.unwritten == 3
    disk.is_full = False
    assert await box.safe.catch_up()
    assert [status for _, status in await timeline(box)] == [CommandStatus.ACCEPTED, CommandStatus.EXECUTED]
    entry = await box.store.command_ledger.entry(envelope.command_id)
    assert entry is not None
    assert entry.status is CommandStatus.EXECUTED
    assert entry.envelope.account_id == OURS
