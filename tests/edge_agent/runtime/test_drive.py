"""Drive sessions on a real ledger: begun by a command, one person's, ended by everything that should end them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.domain import limits
from core.domain.commands import (
    Command,
    CommandStatus,
    EmergencyStop,
    FindMower,
    ManualDrive,
    PauseMow,
    ResumeMow,
    ReturnToDock,
    StartMow,
)
from core.domain.drive import DriveEnd, DriveFrame
from core.domain.errors import ForbiddenError, LinkLostError
from core.domain.ids import CommandId
from core.domain.mower import Activity, Connectivity
from core.sync.messages import CommandEnvelope
from edge_agent.runtime.drive import NO_SESSION, OCCUPIED, STOP_LEAD_S
from edge_agent.runtime.ticket import CANNOT_BE_DRIVEN
from tests.edge_agent.runtime.box import MOWER, CommandBox, command_box
from tests.edge_agent.runtime.plugin import DRIVABLE, DrivableFakeLink

ACCEPTED = (CommandStatus.ACCEPTED, None)


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[CommandBox]:
    async with command_box(tmp_path) as made:
        made.capabilities = DRIVABLE
        made.link = DrivableFakeLink()
        made.show(Activity.IDLE)
        yield made


def link_of(box: CommandBox) -> DrivableFakeLink:
    assert isinstance(box.link, DrivableFakeLink)
    return box.link


async def sit_down(box: CommandBox, **who: object) -> CommandEnvelope:
    """An open session."""
    envelope = await box.send(ManualDrive(), ttl_s=2.0, **who)
    await box.idle()
    assert ManualDrive() in link_of(box).sent
    box.show(Activity.MANUAL)
    await box.idle()
    assert box.commander.seats.session(MOWER) is not None
    return envelope


async def steer(
    box: CommandBox, envelope: CommandEnvelope, sequence: int, linear: float = 0.5, ttl_ms: int = 500
) -> None:
    frame = DriveFrame(sequence=sequence, linear=linear, angular=0.0, ttl_ms=ttl_ms)
    box.commander.seats.steer(MOWER, envelope.command_id, frame, source="relay")
    await box.idle_loop()


async def pass_time(box: CommandBox, seconds: float) -> None:
    await box.wait.advance(seconds)
    await box.idle_loop()


def speeds(box: CommandBox) -> list[float]:
    return [frame.linear for frame in link_of(box).frames]


async def ended(box: CommandBox, envelope: CommandEnvelope) -> tuple[CommandStatus, str | None]:
    """How a session ended; a mower that is told to pause stands."""
    await box.idle()
    if PauseMow() in link_of(box).sent:
        box.show(Activity.IDLE)
    return await box.ended(envelope)


async def test_a_session_is_the_life_of_its_command(box: CommandBox) -> None:
    envelope = await sit_down(box)
    assert box.story(envelope) == [ACCEPTED]
    session = box.commander.seats.session(MOWER)
    assert session is not None
    assert (session.session_id, session.driver) == (envelope.command_id, envelope.issued_by)
    assert session.ends_at - session.began_at == limits.DRIVE_SESSION
    await steer(box, envelope, 1)
    await steer(box, envelope, 2, -0.25)
    assert speeds(box) == [0.5, -0.25]
    box.commander.seats.end_session(MOWER, envelope.command_id, DriveEnd.DRIVER, source="relay")
    assert await ended(box, envelope) == (CommandStatus.EXECUTED, "ended by the driver")
    assert speeds(box) == [0.5, -0.25, 0.0]
    assert link_of(box).told[-1] == PauseMow(), "it is taken out of manual mode"
    assert box.commander.seats.session(MOWER) is None
    rows = (await box.store.read_journal(0, 100)).rows
    assert [(row.row.result.status, row.row.result.reason) for row in rows] == [  # type: ignore[union-attr]
        ACCEPTED,
        (CommandStatus.EXECUTED, "ended by the driver"),
    ]


async def test_the_mower_stands_when_no_frame_comes_in_time(box: CommandBox) -> None:
    envelope = await sit_down(box)
    await steer(box, envelope, 1)
    await pass_time(box, 0.49)
    assert speeds(box) == [0.5]
    await pass_time(box, 0.01)
    assert speeds(box) == [0.5, 0.0]
    await steer(box, envelope, 2)
    assert speeds(box) == [0.5, 0.0, 0.5], "and goes on with the next frame"


async def test_frames_out_of_order_stop_it(box: CommandBox) -> None:
    envelope = await sit_down(box)
    await steer(box, envelope, 5)
    await steer(box, envelope, 5)
    assert speeds(box) == [0.5, 0.0]
    assert [frame.sequence for frame in link_of(box).frames] == [1, 2], "the mower's own numbers always grow"


async def test_a_slow_link_gets_the_newest_frame_only_and_what_is_left_of_its_time(box: CommandBox) -> None:
    envelope = await sit_down(box)
    link_of(box).drive_gate.clear()
    for sequence in range(1, 5):
        await steer(box, envelope, sequence, sequence / 10)
    box.clock.advance(0.2)
    link_of(box).drive_gate.set()
    await box.idle_loop()
    assert speeds(box) == [0.1, 0.4]
    assert [frame.ttl_ms for frame in link_of(box).frames] == [500, pytest.approx(300, abs=1)]


async def test_a_link_that_was_too_slow_hears_that_the_time_is_over(box: CommandBox) -> None:
    envelope = await sit_down(box)
    link_of(box).drive_gate.clear()
    await steer(box, envelope, 1)
    await steer(box, envelope, 2)
    box.clock.advance(0.6)
    link_of(box).drive_gate.set()
    await box.idle_loop()
    assert speeds(box) == [0.5, 0.0]


async def test_it_ends_without_frames_and_after_ten_minutes(box: CommandBox) -> None:
    envelope = await sit_down(box)
    await pass_time(box, limits.DRIVE_IDLE_S)
    assert await ended(box, envelope) == (CommandStatus.EXECUTED, "no frames came any more")
    box.show(Activity.IDLE)
    envelope = await sit_down(box)
    for sequence in range(40):
        await steer(box, envelope, sequence, 0.0)
        await pass_time(box, 15.0)
    assert await ended(box, envelope) == (CommandStatus.EXECUTED, "its time was over")
    with pytest.raises(ForbiddenError):
        await steer(box, envelope, 1000)


@pytest.mark.parametrize(
    ("activity", "fields", "why"),
    [
        (Activity.ERROR, {}, "the mower is not driven by hand any more (error)"),
        (Activity.MOWING, {}, "the mower is not driven by hand any more (mowing)"),
        (Activity.MANUAL, {"blades_on": True}, "the blades turned"),
        (Activity.MANUAL, {"connectivity": Connectivity.OFFLINE}, "the mower is out of reach"),
    ],
)
async def test_what_the_mower_shows_ends_it(
    box: CommandBox, activity: Activity, fields: dict[str, object], why: str
) -> None:
    envelope = await sit_down(box)
    await steer(box, envelope, 1)
    box.show(activity, **fields)
    assert await ended(box, envelope) == (CommandStatus.EXECUTED, why)
    assert speeds(box)[-1] == 0.0
    assert (PauseMow() in link_of(box).sent) == (why == "the blades turned")


async def test_a_link_that_does_not_take_a_frame_ends_it(box: CommandBox) -> None:
    envelope = await sit_down(box)
    link_of(box).drive_error = LinkLostError("gone")
    await steer(box, envelope, 1)
    assert await ended(box, envelope) == (CommandStatus.EXECUTED, "the mower is out of reach (link-lost)")


async def test_another_link_is_not_driven(box: CommandBox) -> None:
    envelope = await sit_down(box)
    old, box.link = link_of(box), DrivableFakeLink()
    await steer(box, envelope, 1)
    assert await ended(box, envelope) == (CommandStatus.EXECUTED, "the mower is out of reach")
    assert (old.frames, speeds(box)) == ([], [0.0]), "the new one only hears that the mower is to stand"


async def test_an_emergency_stop_ends_it_at_once_and_goes_first(box: CommandBox) -> None:
    envelope = await sit_down(box)
    link_of(box).drive_gate.clear()
    await steer(box, envelope, 1)
    stop = await box.send(EmergencyStop(), subject="somebody else")
    with pytest.raises(ForbiddenError):
        await steer(box, envelope, 2)
    link_of(box).drive_gate.set()
    await box.idle()
    assert link_of(box).told[-1] == EmergencyStop()
    await pass_time(box, STOP_LEAD_S)
    assert speeds(box) == [0.5, 0.0]
    box.show(Activity.PAUSED, blades_on=False)
    assert await box.ended(stop) == (CommandStatus.EXECUTED, None)
    assert await box.ended(envelope) == (CommandStatus.EXECUTED, "ended by an emergency stop")
    assert PauseMow() not in link_of(box).sent


async def test_a_stop_that_came_too_late_ends_it_all_the_same(box: CommandBox) -> None:
    envelope = await sit_down(box)
    late = box.envelope(EmergencyStop(), ttl_s=10.0)
    box.clock.advance(11.0)
    assert (await box.submit(late)).result is not None
    await pass_time(box, STOP_LEAD_S)
    assert await box.ended(envelope) == (CommandStatus.EXECUTED, "ended by an emergency stop")
    assert speeds(box) == [0.0]


@pytest.mark.parametrize("command", [StartMow(), ResumeMow(), ReturnToDock(), ManualDrive()])
async def test_nobody_else_moves_it_meanwhile(box: CommandBox, command: Command) -> None:
    envelope = await sit_down(box)
    other = await box.send(command, subject="somebody else")
    assert await box.ended(other) == (CommandStatus.REJECTED, OCCUPIED)
    await steer(box, envelope, 1)
    assert speeds(box) == [0.5], "the drive goes on"


async def test_the_same_name_at_the_box_is_somebody_else(box: CommandBox) -> None:
    await sit_down(box)
    other = await box.send(ManualDrive(), source="local")
    assert await box.ended(other) == (CommandStatus.REJECTED, OCCUPIED)


async def test_what_does_not_move_it_runs_alongside(box: CommandBox) -> None:
    envelope = await sit_down(box)
    assert await box.ended(await box.send(FindMower(), subject="somebody else")) == (CommandStatus.EXECUTED, None)
    await steer(box, envelope, 1)
    assert box.commander.seats.session(MOWER) is not None


async def test_anybody_may_pause_it(box: CommandBox) -> None:
    envelope = await sit_down(box)
    await steer(box, envelope, 1)
    pause = await box.send(PauseMow(), subject="somebody else")
    await box.idle()
    assert link_of(box).told[-2:] == [DriveFrame(sequence=2, linear=0.0, angular=0.0), PauseMow()]
    box.show(Activity.IDLE)
    assert await box.ended(pause) == (CommandStatus.EXECUTED, None)
    assert await box.ended(envelope) == (
        CommandStatus.EXECUTED,
        "ended by another command (pause_mow, somebody else)",
    )
    assert link_of(box).sent.count(PauseMow()) == 1


async def test_the_driver_goes_home(box: CommandBox) -> None:
    envelope = await sit_down(box)
    home = await box.send(ReturnToDock())
    await box.idle()
    box.show(Activity.RETURNING)
    assert await box.ended(home) == (CommandStatus.EXECUTED, None)
    assert await box.ended(envelope) == (CommandStatus.EXECUTED, "ended by another command (return_to_dock, u)")


async def test_the_driver_begins_again(box: CommandBox) -> None:
    first = await sit_down(box)
    await steer(box, first, 7)
    second = await box.send(ManualDrive(), ttl_s=2.0)
    assert await box.ended(first) == (CommandStatus.EXECUTED, "ended by another command (manual_drive, u)")
    await box.idle()
    with pytest.raises(ForbiddenError):
        await steer(box, first, 8)
    await steer(box, second, 1)
    assert speeds(box) == [0.5, 0.0, 0.5]


async def test_frames_of_another_session_or_from_elsewhere_drive_nothing(box: CommandBox) -> None:
    envelope = await sit_down(box)
    frame = DriveFrame(sequence=1, linear=1.0, angular=0.0)
    seats = box.commander.seats
    with pytest.raises(ForbiddenError, match=NO_SESSION):
        seats.steer(MOWER, CommandId("another"), frame, source="relay")
    with pytest.raises(ForbiddenError, match=NO_SESSION):
        seats.steer(MOWER, envelope.command_id, frame, source="local")
    with pytest.raises(ForbiddenError, match=NO_SESSION):
        seats.end_session(MOWER, envelope.command_id, DriveEnd.DRIVER, source="local")
    await box.idle()
    assert speeds(box) == []


async def test_a_link_to_the_relay_that_ends_takes_the_drive_with_it(box: CommandBox) -> None:
    envelope = await sit_down(box)
    box.account = None
    with pytest.raises(ForbiddenError):
        await steer(box, envelope, 1)
    status, reason = await ended(box, envelope)
    assert (status, str(reason)) == (
        CommandStatus.EXECUTED,
        "the driver may not drive any more (not a mower of this box)",
    )
    assert speeds(box) == [0.0]


async def test_nothing_is_driven_after_a_restart(box: CommandBox) -> None:
    envelope = await sit_down(box)
    await steer(box, envelope, 1)
    await box.restart()
    assert box.story(envelope)[-1] == (CommandStatus.FAILED, "interrupted")
    box.show(Activity.MANUAL)
    with pytest.raises(ForbiddenError):
        await steer(box, envelope, 2)
    assert speeds(box) == [0.5]


async def test_a_mower_with_turning_blades_is_not_driven(box: CommandBox) -> None:
    envelope = await box.send(ManualDrive())
    await box.idle()
    box.show(Activity.MANUAL, blades_on=True)
    with pytest.raises(ForbiddenError):
        await steer(box, envelope, 1)


async def test_a_link_without_frames_refuses(box: CommandBox) -> None:
    from tests.edge_agent.runtime.plugin import FakeLink

    box.link = FakeLink(DRIVABLE)
    assert await box.ended(await box.send(ManualDrive())) == (CommandStatus.REJECTED, CANNOT_BE_DRIVEN)
    assert box.link.sent == []


async def test_a_removed_mower_is_not_driven(box: CommandBox) -> None:
    envelope = await sit_down(box)
    box.commander.forget(MOWER)
    assert await box.ended(envelope) == (CommandStatus.EXECUTED, "the mower was removed from the box")
    assert speeds(box) == [0.0]


async def test_what_follows_a_drive_waits_until_the_mower_has_left_manual_mode(box: CommandBox) -> None:
    envelope = await sit_down(box)
    box.commander.seats.end_session(MOWER, envelope.command_id, DriveEnd.DRIVER)
    start = await box.send(StartMow())
    await box.idle()
    assert StartMow() not in link_of(box).sent
    box.show(Activity.IDLE)
    await box.until(lambda: ACCEPTED in box.story(start))
    await box.idle()
    assert link_of(box).told[-2:] == [PauseMow(), StartMow()]
