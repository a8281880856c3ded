"""One mower, two links: where a command goes, what is never sent twice, and what a stop does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from core.domain.capabilities import Capabilities, Range, Simple
from core.domain.commands import (
    CommandStatus,
    EmergencyStop,
    FindMower,
    ManualDrive,
    PauseMow,
    ReturnToDock,
    SetBladeHeight,
    StartMow,
)
from core.domain.drive import DriveEnd, DriveFrame
from core.domain.errors import AuthFailedError, LinkLostError
from core.domain.mower import Activity, Area, Connectivity, LinkKind
from core.platform.integration import Outcome
from edge_agent.household.link_views import views_of
from edge_agent.runtime.carrier import UNKNOWN_AREAS
from edge_agent.runtime.door import Phase
from tests.edge_agent.runtime.box import MOWER
from tests.edge_agent.runtime.linked_box import LinkedBox, linked_box
from tests.edge_agent.runtime.plugin import CAPABILITIES, DRIVABLE
from tests.fakes.scripted_path import ScriptedPath

pytestmark = pytest.mark.timeout(30)
EXECUTED = (CommandStatus.EXECUTED, None)
UNCONFIRMED = (CommandStatus.FAILED, "unconfirmed")


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[LinkedBox]:
    async with linked_box(tmp_path) as made:
        yield made


async def two(box: LinkedBox, **fields: object) -> tuple[ScriptedPath, ScriptedPath]:
    """Over Bluetooth and over the cloud, both up, the mower docked."""
    ble, cloud = box.path_to(LinkKind.BLE, **fields), box.path_to(LinkKind.CLOUD, **fields)  # type: ignore[arg-type]
    await box.up(ble, cloud)
    await box.seen(cloud, Activity.DOCKED)
    box.clock.advance(1)
    await box.seen(ble, Activity.DOCKED)
    return ble, cloud


# -- links


async def test_both_links_are_up_and_the_local_one_is_used(box: LinkedBox) -> None:
    cloud, ble = box.path_to(LinkKind.CLOUD), box.path_to(LinkKind.BLE)
    await box.up(cloud, ble)
    assert [link.kind for link in box.supervisor.open_links(MOWER)] == [LinkKind.BLE, LinkKind.CLOUD]
    state = await box.seen(cloud, Activity.DOCKED)
    assert state.signals is not None
    assert state.signals.active_link is LinkKind.BLE, "whoever reported"
    start = await box.send(StartMow())
    await ble.arrived.wait()
    await box.seen(cloud, Activity.MOWING)
    assert await box.ended(start) == EXECUTED, "seen over the other link"
    assert cloud.sent == []


async def test_one_failing_link_never_disturbs_the_other(box: LinkedBox) -> None:
    ble, cloud = box.path_to(LinkKind.BLE), box.path_to(LinkKind.CLOUD)
    ble.fault = AuthFailedError("wrong PIN")
    await box.up(cloud)
    first = cloud.link
    await box.until(lambda: {door.phase for door in box.supervisor.statuses()} == {Phase.PARKED, Phase.ONLINE})
    await box.seen(cloud, Activity.DOCKED)
    for _ in range(3):
        box.supervisor.resume(MOWER)
        await box.idle_loop()
    assert cloud.link is first
    assert box.states[-1].connectivity is Connectivity.ONLINE
    await box.send(StartMow())
    await cloud.arrived.wait()


async def test_links_come_and_go_at_run_time(box: LinkedBox) -> None:
    ble, cloud = await two(box)
    await box.supervisor.remove(MOWER, ble.entry_id)
    await box.until(lambda: box.states[-1].signals is not None and box.states[-1].signals.active_link == "cloud")
    assert box.states[-1].connectivity is Connectivity.ONLINE
    assert [link.kind for link in box.supervisor.open_links(MOWER)] == [LinkKind.CLOUD]
    await box.supervisor.remove(MOWER, cloud.entry_id)
    await box.until(lambda: box.states[-1].connectivity is Connectivity.OFFLINE)
    assert box.states[-1].activity is Activity.DOCKED
    lan = box.path_to(LinkKind.LAN)
    await box.up(lan)
    await box.seen(lan, Activity.PAUSED)
    assert (box.states[-1].activity, box.states[-1].connectivity) == (Activity.PAUSED, Connectivity.ONLINE)


async def test_a_link_that_does_not_reach_the_mower_is_not_used(box: LinkedBox) -> None:
    ble, cloud = await two(box)
    await box.seen(ble, Activity.DOCKED, connectivity=Connectivity.OFFLINE)
    assert box.states[-1].connectivity is Connectivity.ONLINE
    assert box.states[-1].signals is not None
    assert box.states[-1].signals.active_link is LinkKind.CLOUD
    await box.send(StartMow())
    await cloud.arrived.wait()
    assert ble.sent == []


# -- never twice


@pytest.mark.parametrize("answer", [Outcome(kind="unknown"), LinkLostError("gone"), ValueError("bug")])
@pytest.mark.parametrize("command", [StartMow(), ReturnToDock(), FindMower()])
async def test_a_command_that_may_have_been_heard_is_not_sent_over_the_other_link(
    box: LinkedBox, answer: Outcome | Exception, command: StartMow | ReturnToDock | FindMower
) -> None:
    ble, cloud = await two(box)
    await box.seen(ble, Activity.IDLE)
    ble.answer = answer
    status, reason = await box.ended(await box.send(command))
    assert status is CommandStatus.FAILED
    assert str(reason).startswith("unconfirmed")
    assert (ble.sent, cloud.sent) == ([command], [])


async def test_a_link_that_dies_midway_is_not_replaced(box: LinkedBox) -> None:
    ble, cloud = await two(box)
    ble.gate.clear()
    start = await box.send(StartMow())
    await ble.arrived.wait()
    await box.lose(ble)
    assert (await box.ended(start))[0] is CommandStatus.FAILED
    await box.idle()
    assert (ble.sent, cloud.sent) == ([StartMow()], [])


async def test_an_unknown_outcome_is_confirmed_by_what_the_other_link_sees(box: LinkedBox) -> None:
    ble, cloud = await two(box)
    ble.gate.clear()
    ble.answer = LinkLostError("gone")
    start = await box.send(StartMow())
    await ble.arrived.wait()
    box.clock.advance(1)
    await box.seen(cloud, Activity.LEAVING)
    ble.gate.set()
    assert await box.ended(start) == EXECUTED


async def test_an_older_sight_of_the_other_link_confirms_nothing(box: LinkedBox) -> None:
    ble, cloud = await two(box)
    start = await box.send(StartMow())
    await ble.arrived.wait()
    await box.seen(cloud, Activity.MOWING, observed_at=box.clock.now().replace(year=2025))
    assert await box.ended(start) == UNCONFIRMED


async def test_a_refusal_is_final(box: LinkedBox) -> None:
    ble, cloud = await two(box)
    ble.answer = Outcome(kind="refused", reason="lifted")
    assert await box.ended(await box.send(StartMow())) == (CommandStatus.FAILED, "lifted")
    assert cloud.sent == []


async def test_the_link_is_chosen_when_the_command_is_about_to_be_sent(box: LinkedBox) -> None:
    ble, cloud = await two(box)
    ble.gate.clear()
    first = await box.send(FindMower())
    await ble.arrived.wait()
    second = await box.send(StartMow())
    await box.lose(ble)
    assert (await box.ended(first))[0] is CommandStatus.FAILED
    await cloud.arrived.wait()
    assert (ble.sent, cloud.sent) == ([FindMower()], [StartMow()])
    await box.seen(cloud, Activity.MOWING)
    assert await box.ended(second) == EXECUTED


async def test_a_pause_goes_over_one_link_like_any_other(box: LinkedBox) -> None:
    ble, cloud = await two(box)
    await box.seen(ble, Activity.MOWING)
    ble.answer = LinkLostError("gone")
    assert (await box.ended(await box.send(PauseMow())))[0] is CommandStatus.FAILED
    assert cloud.sent == []


async def test_a_restart_in_the_middle_repeats_nothing(box: LinkedBox) -> None:
    ble, cloud = await two(box)
    ble.gate.clear()
    start = await box.send(StartMow())
    await ble.arrived.wait()
    await box.restart()
    assert box.story(start)[-1] == (CommandStatus.FAILED, "interrupted")
    await box.up(ble, cloud)
    ble.gate.set()
    await box.submit(start)
    await box.idle()
    assert (ble.sent, cloud.sent) == ([StartMow()], [])


# -- capabilities and areas


async def test_a_command_goes_over_the_link_that_can_do_it_within_its_own_limits(box: LinkedBox) -> None:
    wide = msgspec.structs.replace(
        CAPABILITIES, set_blade_height=Range(minimum=10, maximum=90, confirm_timeout_s=0.2), find_mower=None
    )
    narrow = Capabilities(
        set_blade_height=Range(minimum=20, maximum=40, confirm_timeout_s=0.2), find_mower=Simple(confirm_timeout_s=0.2)
    )
    ble, cloud = box.path_to(LinkKind.BLE, narrow), box.path_to(LinkKind.CLOUD, wide)
    await box.up(ble, cloud)
    await box.seen(cloud, Activity.DOCKED)
    envelope = await box.send(SetBladeHeight(height_mm=80))
    assert await box.ended(envelope) == (CommandStatus.REJECTED, "height_mm: must be between 20 and 40")
    assert await box.ended(await box.send(FindMower())) == EXECUTED
    start = await box.send(StartMow())
    await cloud.arrived.wait()
    await box.seen(cloud, Activity.MOWING)
    assert await box.ended(start) == EXECUTED
    assert (ble.sent, cloud.sent) == ([FindMower()], [StartMow()])
    await box.lose(ble)
    envelope = await box.send(FindMower())
    assert await box.ended(envelope) == (CommandStatus.REJECTED, "the mower cannot find_mower over cloud")


async def test_areas_go_only_to_a_link_that_means_the_same_by_them(box: LinkedBox) -> None:
    start = msgspec.structs.replace(CAPABILITIES.start_mow, takes_areas=True)  # type: ignore[type-var]
    able = msgspec.structs.replace(CAPABILITIES, start_mow=start)
    front, back = Area(area_id="1", name="Front"), Area(area_id="1", name="Back")
    ble = box.path_to(LinkKind.BLE, able, areas=(back,))
    cloud = box.path_to(LinkKind.CLOUD, able, areas=(front,))
    box.areas = (front,)
    await box.up(ble, cloud)
    await box.seen(cloud, Activity.DOCKED)
    command = StartMow(area_ids=("1",))
    envelope = await box.send(command)
    await cloud.arrived.wait()
    await box.seen(cloud, Activity.MOWING)
    assert await box.ended(envelope) == EXECUTED
    await box.lose(cloud)
    assert await box.ended(await box.send(command)) == (CommandStatus.REJECTED, UNKNOWN_AREAS)
    assert (ble.sent, cloud.sent) == ([], [command])


# -- emergency stop


async def test_a_stop_goes_over_every_link_and_the_first_acceptance_wins(box: LinkedBox) -> None:
    ble, cloud = await two(box)
    lan = box.path_to(LinkKind.LAN)
    await box.up(lan)
    await box.seen(ble, Activity.MOWING)
    ble.gate.clear()
    cloud.answer = LinkLostError("no route")
    stop = await box.send(EmergencyStop())
    await asyncio.gather(*(path.arrived.wait() for path in box.paths))
    await box.idle()
    box.clock.advance(1)
    await box.seen(lan, Activity.PAUSED)
    status, reason = await box.ended(stop)
    assert status is CommandStatus.EXECUTED, "although Bluetooth has not answered"
    assert reason == "not over cloud: no route"
    assert lan.sent == [EmergencyStop()]
    assert cloud.sent == [EmergencyStop()] * 2, "it may not have been heard"


async def test_nothing_overtakes_a_stop_that_is_still_on_its_way(box: LinkedBox) -> None:
    ble, cloud = await two(box)
    ble.gate.clear()
    stop = await box.send(EmergencyStop())
    assert await box.ended(stop) == EXECUTED
    box.clock.advance(1)
    start = await box.send(StartMow())
    await box.idle()
    assert box.story(start) == []
    ble.gate.set()
    await box.until(lambda: box.story(start) == [(CommandStatus.ACCEPTED, None)])
    assert cloud.sent == [EmergencyStop()]


async def test_a_stop_that_all_refuse_has_failed(box: LinkedBox) -> None:
    for path in await two(box):
        path.answer = Outcome(kind="refused", reason=f"no {path.kind}")
    status, reason = await box.ended(await box.send(EmergencyStop()))
    assert (status, reason) == (CommandStatus.FAILED, "not over ble: no ble, cloud: no cloud")


async def test_a_stop_that_nobody_sees_is_unconfirmed(box: LinkedBox) -> None:
    ble, cloud = await two(box)
    await box.seen(ble, Activity.MOWING)
    ble.answer = LinkLostError("gone")
    status, reason = await box.ended(await box.send(EmergencyStop()))
    assert (status, reason) == (CommandStatus.FAILED, "unconfirmed: not over ble: gone")
    assert cloud.sent == [EmergencyStop()]


async def test_an_unconfirmed_stop_says_over_which_links_it_is_still_being_told(box: LinkedBox) -> None:
    ble, cloud = await two(box)
    await box.seen(ble, Activity.MOWING)
    cloud.gate.clear()
    status, reason = await box.ended(await box.send(EmergencyStop()))
    assert (status, reason) == (CommandStatus.FAILED, "unconfirmed: still being told over cloud")
    assert cloud.sent == [EmergencyStop()]
    cloud.gate.set()


async def test_a_link_that_is_open_has_not_met_its_mower_yet(box: LinkedBox) -> None:
    ble, cloud = box.path_to(LinkKind.BLE), box.path_to(LinkKind.CLOUD)
    await box.up(ble, cloud)
    assert {door.has_reported for door in box.supervisor.statuses()} == {False}
    await box.seen(ble, Activity.DOCKED)
    reported = {door.entry_id: door.has_reported for door in box.supervisor.statuses()}
    assert reported == {ble.entry_id: True, cloud.entry_id: False}
    views = views_of({}, {}, box.supervisor.open_links(MOWER), lambda _: (None, None))
    assert [(view.kind, view.state) for view in views] == [(LinkKind.BLE, "up"), (LinkKind.CLOUD, "connecting")]


async def test_a_stop_ends_what_another_link_is_carrying(box: LinkedBox) -> None:
    ble, cloud = await two(box)
    ble.gate.clear()
    start = await box.send(StartMow())
    await ble.arrived.wait()
    box.clock.advance(1)
    await box.send(EmergencyStop())
    assert (await box.ended(start))[0] is CommandStatus.FAILED
    assert cloud.sent == [EmergencyStop()]
    ble.gate.set()


# -- driving by hand


async def sit_down(box: LinkedBox, path: ScriptedPath) -> str:
    envelope = await box.send(ManualDrive(), ttl_s=2.0)
    await path.arrived.wait()
    box.clock.advance(1)
    await box.seen(path, Activity.MANUAL)
    await box.idle()
    assert box.commander.seats.session(MOWER) is not None
    return envelope.command_id


async def test_a_drive_stays_on_its_link_when_a_better_one_comes_up(box: LinkedBox) -> None:
    cloud = box.path_to(LinkKind.CLOUD, DRIVABLE)
    await box.up(cloud)
    await box.seen(cloud, Activity.IDLE)
    session = await sit_down(box, cloud)
    ble = box.path_to(LinkKind.BLE, DRIVABLE)
    await box.up(ble)
    box.clock.advance(0.1)
    await box.seen(ble, Activity.MANUAL)
    frame = DriveFrame(sequence=1, linear=0.5, angular=0.0)
    box.commander.seats.steer(MOWER, session, frame, source="relay")  # type: ignore[arg-type]
    await box.idle_loop()
    assert ([f.linear for f in cloud.frames], ble.frames) == ([0.5], [])


async def test_a_drive_is_over_with_its_link_and_goes_over_to_no_other(box: LinkedBox) -> None:
    ble, cloud = await two(box, capabilities=DRIVABLE)
    await box.seen(ble, Activity.IDLE)
    session = await sit_down(box, ble)
    frame = DriveFrame(sequence=1, linear=0.5, angular=0.0)
    box.commander.seats.steer(MOWER, session, frame, source="relay")  # type: ignore[arg-type]
    await box.idle_loop()
    await box.lose(ble)
    await box.until(lambda: any(r.status is CommandStatus.EXECUTED for r in box.results))
    assert box.results[-1].reason == DriveEnd.LINK_LOST
    assert box.states[-1].connectivity is Connectivity.ONLINE, "the cloud still sees it"
    await box.idle()
    assert (cloud.frames, cloud.sent) == ([], [])


async def test_only_the_link_that_can_be_driven_over_is_driven_over(box: LinkedBox) -> None:
    ble, cloud = box.path_to(LinkKind.BLE), box.path_to(LinkKind.CLOUD, DRIVABLE)
    await box.up(ble, cloud)
    await box.seen(ble, Activity.IDLE)
    await sit_down(box, cloud)
    assert (ble.sent, cloud.sent) == ([], [ManualDrive()])
