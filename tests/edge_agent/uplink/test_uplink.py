"""The line over a real broker."""

from __future__ import annotations

import asyncio
import base64
import socket
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.domain.clock import EPOCH, SystemClock
from core.domain.commands import CommandStatus, EmergencyStop, FindMower, ManualDrive, PauseMow, StartMow
from core.domain.drive import DriveEnd, DriveFrame
from core.domain.events import Docked
from core.domain.ids import CommandId, EdgeId, MowerId
from core.domain.mower import Activity, MowerState, Position
from core.mqtt.session import open_session
from core.sync.batch import decode_batch
from core.sync.envelope import sign, sign_cancel, sign_drive
from core.sync.messages import Call, CancelEnvelope, DriveMessage, EventMessage, Hello, Registrations, decode, encode
from core.sync.topics import DOWN_CALL, DOWN_CANCEL, DOWN_COMMAND, DOWN_DRIVE, DOWN_REGISTRATIONS, DOWN_STOP
from tests.edge_agent.runtime.box import MOWER, OURS
from tests.edge_agent.runtime.plugin import DRIVABLE, DrivableFakeLink, state
from tests.edge_agent.uplink.world import BOOT, EDGE, LineWorld, line_world
from tests.fakes.mosquitto import anybody


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[LineWorld]:
    async with line_world(tmp_path) as made:
        made.box.show(Activity.DOCKED, observed_at=SystemClock().now())
        yield made


def now_state(activity: Activity = Activity.MOWING, number: int = 0) -> MowerState:
    return state(
        activity,
        observed_at=SystemClock().now(),
        position=Position(lat=50.0 + number * 1e-5, lon=8.0),
        battery_percent=number % 100,
    )


async def record(world: LineWorld, count: int) -> None:
    now = SystemClock().now()
    rows = [
        (MOWER, OURS, msgspec.structs.replace(now_state(number=n), observed_at=now + timedelta(seconds=n - count)))
        for n in range(count)
    ]
    await world.box.store.record_states(rows, received_at=now)
    world.uplink.on_growth()


async def test_hello_and_status(world: LineWorld) -> None:
    hello = decode(world.relay.messages("up/hello")[0].payload, Hello)
    assert (hello.name, hello.boot_id, hello.emergency_lane) == ("Box", BOOT, True)
    assert [item.mower_id for item in hello.mowers] == [MOWER]
    assert world.relay.status().online
    status = world.uplink.status()
    assert status.is_online
    await world.relay.until(lambda: world.uplink.status().last_ack_at is not None)


async def test_a_new_inventory_is_told_and_an_old_one_is_not(world: LineWorld) -> None:
    await world.relay.until(lambda: world.uplink.status().last_ack_at is not None)
    world.uplink.on_inventory()
    world.name = "Another box"
    world.uplink.on_inventory()
    await world.relay.until(lambda: len(world.relay.messages("up/hello")) == 2)
    assert decode(world.relay.messages("up/hello")[1].payload, Hello).name == "Another box"


async def test_a_change_while_a_hello_waits_for_its_answer_is_not_forgotten(tmp_path: Path) -> None:
    async with line_world(tmp_path, acks=False) as world:
        world.name = "Another box"
        world.uplink.on_inventory()
        await asyncio.sleep(0.05)
        assert len(world.relay.messages("up/hello")) == 1
        world.relay.acks = True
        await world.relay.answer_hello()
        await world.relay.until(lambda: len(world.relay.messages("up/hello")) == 2)
        assert decode(world.relay.messages("up/hello")[1].payload, Hello).name == "Another box"


async def test_the_relays_clock_is_measured(tmp_path: Path) -> None:
    async with line_world(tmp_path, skew_s=120.0) as world:
        await world.relay.until(lambda: world.uplink.status().last_ack_at is not None)
        assert world.uplink.status().skew_s == pytest.approx(120.0, abs=1.0)


async def test_the_last_will_and_a_proper_goodbye(tmp_path: Path) -> None:
    async with line_world(tmp_path) as world:
        relay = world.relay
        assert world.uplink._session is not None
        world.uplink._session._sock.shutdown(socket.SHUT_RDWR)  # the line is cut
        await relay.until(lambda: not relay.status().online)
        await relay.until(lambda: relay.status().online)
        async with asyncio.timeout(5):
            while not world.uplink.status().is_online:
                await asyncio.sleep(0.01)
    # line_world ends the uplink before the relay stops listening
    assert not relay.status().online


async def test_the_journal_flows_and_is_acknowledged(world: LineWorld) -> None:
    await record(world, 50)
    await world.relay.until(lambda: world.relay.watermark > 0)
    async with asyncio.timeout(5):
        while (await world.box.store.journal_head()).acked_seq < world.relay.watermark:
            await asyncio.sleep(0.01)
    head = await world.box.store.journal_head()
    assert head.acked_seq == head.last_seq == world.relay.watermark
    assert set(world.relay.rows) == set(range(head.first_seq, head.last_seq + 1))
    assert world.uplink.status().backlog_rows == 0


async def test_nothing_is_lost_when_the_broker_dies(world: LineWorld) -> None:
    await record(world, 20)
    await world.relay.until(lambda: world.relay.watermark > 0)
    await world.broker.kill()
    async with asyncio.timeout(5):
        while world.uplink.status().is_online:
            await asyncio.sleep(0.01)
    await record(world, 30)
    assert world.uplink.status().problem
    await world.broker.start()
    head = await world.box.store.journal_head()
    await world.relay.until(lambda: world.relay.watermark == head.last_seq)
    assert set(world.relay.rows) == set(range(head.first_seq, head.last_seq + 1))
    assert len(world.pauses) >= 1


async def test_a_command_and_its_results(world: LineWorld) -> None:
    envelope = world.relay.envelope(StartMow())
    await world.relay.command(envelope)
    await world.link.arrived.wait()
    world.box.show(Activity.LEAVING, observed_at=SystemClock().now())
    await world.relay.until(lambda: len(world.relay.results()) == 2)
    assert [r.status for r in world.relay.results()] == [CommandStatus.ACCEPTED, CommandStatus.EXECUTED]
    # the same again: no second execution, the same answer
    await world.relay.command(envelope)
    await world.relay.until(lambda: len(world.relay.results()) == 3)
    assert world.relay.results()[-1] == world.relay.results()[-2]
    assert len(world.link.sent) == 1


async def test_a_stop_on_its_own_lane(world: LineWorld) -> None:
    async with asyncio.timeout(5):
        while not world.uplink.status().is_emergency_lane_up:
            await asyncio.sleep(0.01)
    envelope = world.relay.envelope(EmergencyStop())
    await world.relay.command(envelope, DOWN_STOP)
    await world.relay.command(envelope, DOWN_COMMAND)
    await world.relay.until(lambda: CommandStatus.EXECUTED in {r.status for r in world.relay.results()})
    assert world.link.sent == [EmergencyStop()]
    assert {r.status for r in world.relay.results()} == {CommandStatus.ACCEPTED, CommandStatus.EXECUTED}


async def test_a_stop_arrives_while_the_main_connection_hangs(world: LineWorld) -> None:
    async with asyncio.timeout(5):
        while not world.uplink.status().is_emergency_lane_up:
            await asyncio.sleep(0.01)
    hang = asyncio.Event()

    async def never(envelope: object, source: object) -> None:
        await hang.wait()

    submit = world.uplink._inbound._submit
    world.uplink._inbound._submit = never  # type: ignore[assignment]
    await world.relay.command(world.relay.envelope(StartMow()))
    await asyncio.sleep(0.05)
    world.uplink._inbound._submit = submit
    await world.relay.command(world.relay.envelope(EmergencyStop()), DOWN_STOP)
    await world.relay.until(lambda: world.link.arrived.is_set())
    assert world.link.sent == [EmergencyStop()]
    hang.set()


async def refused(world: LineWorld, why: str) -> None:
    async with asyncio.timeout(5):
        while not world.uplink.status().refused_messages.get(why):
            await asyncio.sleep(0.01)
    assert world.link.sent == []


async def test_what_is_not_obeyed(world: LineWorld) -> None:
    relay = world.relay
    stranger = Ed25519PrivateKey.generate()
    await relay.say(DOWN_COMMAND, sign(relay.envelope(FindMower()), stranger, "k"), MOWER)
    await refused(world, "signature")
    await relay.say(DOWN_COMMAND, b"\xff{", MOWER)
    await relay.command(relay.envelope(FindMower(), edge_id=EdgeId("another")))
    await refused(world, "misdirected")
    await relay.command(relay.envelope(FindMower(), mower_id=MowerId("n")))
    await relay.command(relay.envelope(FindMower()), DOWN_STOP)
    await refused(world, "not-a-stop")
    await relay.say(DOWN_CALL, b"{}")
    await refused(world, "malformed")
    assert relay.results() == []


async def test_a_retained_command_is_never_carried_out(tmp_path: Path) -> None:
    async with line_world(tmp_path, start=False) as world:
        world.box.show(Activity.DOCKED, observed_at=SystemClock().now())
        await world.relay.command(world.relay.envelope(FindMower()), retain=True)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(world.uplink.run())
            await world.relay.until(lambda: len(world.relay.results()) == 1)
            task.cancel()
        assert world.relay.results()[0].status is CommandStatus.REJECTED
        assert world.link.sent == []
        assert world.uplink.status().refused_messages == {"retained": 1}


async def test_a_cancel_takes_back_what_waits(world: LineWorld) -> None:
    world.link.gate.clear()
    await world.relay.command(world.relay.envelope(FindMower()))
    waiting = world.relay.envelope(StartMow())
    await world.relay.command(waiting)
    await world.link.arrived.wait()
    await world.relay.cancel(waiting)
    await world.relay.until(lambda: waiting.command_id in {r.command_id for r in world.relay.results()})
    [taken] = [r for r in world.relay.results() if r.command_id == waiting.command_id]
    assert (taken.status, taken.reason) == (CommandStatus.REJECTED, "taken back")
    world.link.gate.set()
    await world.relay.until(lambda: CommandStatus.EXECUTED in {r.status for r in world.relay.results()})
    assert world.link.sent == [FindMower()]


async def test_cancels_that_are_not_obeyed(world: LineWorld) -> None:
    relay = world.relay
    world.link.gate.clear()
    await relay.command(relay.envelope(FindMower()))
    waiting = relay.envelope(FindMower())
    await relay.command(waiting)
    await world.link.arrived.wait()
    await relay.cancel(waiting, account_id="theirs")
    await relay.cancel(waiting, edge_id="another")
    await relay.cancel(waiting, mower_id="n")
    await relay.say(DOWN_CANCEL, sign(waiting, relay.key, "k"), MOWER)  # a command is no cancel
    await relay.say(DOWN_CANCEL, b"{}", MOWER)
    async with asyncio.timeout(5):
        while world.uplink.status().refused_messages != {"misdirected": 3, "signature": 2}:
            await asyncio.sleep(0.01)
    world.link.gate.set()
    await relay.until(lambda: [r.status for r in relay.results()].count(CommandStatus.EXECUTED) == 2)


async def test_a_cancel_is_no_command(world: LineWorld) -> None:
    cancel = CancelEnvelope(
        command_id=CommandId("c"), account_id=OURS, edge_id=EDGE, mower_id=MOWER, reason="r", issued_at=EPOCH
    )
    await world.relay.say(DOWN_COMMAND, sign_cancel(cancel, world.relay.key, "k"), MOWER)
    await refused(world, "signature")


async def test_a_retained_cancel_is_ignored(tmp_path: Path) -> None:
    async with line_world(tmp_path, start=False) as world:
        world.box.show(Activity.DOCKED, observed_at=SystemClock().now())
        envelope = world.relay.envelope(FindMower())
        await world.relay.cancel(envelope, retain=True)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(world.uplink.run())
            async with asyncio.timeout(5):
                while world.uplink.status().refused_messages != {"retained": 1}:
                    await asyncio.sleep(0.01)
            await world.relay.command(envelope)
            await world.relay.until(lambda: CommandStatus.EXECUTED in {r.status for r in world.relay.results()})
            task.cancel()


async def test_a_foreign_mowers_command_is_answered(world: LineWorld) -> None:
    envelope = world.relay.envelope(FindMower(), account_id="theirs")
    await world.relay.command(envelope)
    await world.relay.until(lambda: len(world.relay.results()) == 1)
    assert world.relay.results()[0].reason == "the mower belongs to another account"


async def test_live_states_are_conflated(world: LineWorld) -> None:
    for number in range(100):
        world.uplink.put_state(MOWER, now_state(number=number))
    await world.relay.until(lambda: len(world.relay.states()) == 1)
    assert world.relay.states()[0].state.battery_percent == 99
    for number in range(50):
        world.uplink.put_state(MOWER, now_state(number=number))
    await world.relay.until(lambda: len(world.relay.states()) == 2)
    assert world.relay.states()[1].state.battery_percent == 49


async def test_events_wait_for_the_line(tmp_path: Path) -> None:
    async with line_world(tmp_path, start=False) as world:
        event = Docked(at=SystemClock().now())
        for _ in range(300):
            world.uplink.put_event(MOWER, event)
        assert world.uplink.status().dropped_events == 300 - 256
        async with asyncio.TaskGroup() as group:
            task = group.create_task(world.uplink.run())
            await world.relay.until(lambda: len(world.relay.messages("up/event")) == 256)
            task.cancel()
        assert decode(world.relay.messages("up/event")[0].payload, EventMessage).event == event


async def test_registrations_also_retained_ones(tmp_path: Path) -> None:
    async with line_world(tmp_path, start=False) as world:
        message = Registrations(version=3, account_id=OURS, sent_at=SystemClock().now(), mowers=())
        await world.relay.say(DOWN_REGISTRATIONS, encode(message), retain=True)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(world.uplink.run())
            await world.relay.until(lambda: len(world.registrations) == 1)
            task.cancel()
        assert world.registrations == [message]


async def test_calls(world: LineWorld) -> None:
    await record(world, 30)
    soon = SystemClock().now() + timedelta(seconds=30)
    for number, method in enumerate(("diagnostics", "recent", "hello")):
        call = Call(request_id=f"r{number}", method=method, expires_at=soon)  # type: ignore[arg-type]
        await world.relay.say(DOWN_CALL, encode(call))
    await world.relay.until(lambda: len(world.relay.replies()) == 3)
    diagnostics, recent, hello = world.relay.replies()
    assert diagnostics.result == {"fine": True}
    assert [item["mower_id"] for item in recent.result["states"]] == [MOWER]
    batch = decode_batch(base64.b64decode(recent.result["positions"]))
    assert len(batch.rows) == 30
    assert hello.error_code is None
    await world.relay.until(lambda: len(world.relay.messages("up/hello")) >= 2)
    await world.relay.until(lambda: len(world.relay.states()) >= 1)


async def test_a_late_call_is_not_answered(world: LineWorld) -> None:
    past = SystemClock().now() - timedelta(seconds=1)
    await world.relay.say(DOWN_CALL, encode(Call(request_id="late", method="diagnostics", expires_at=past)))
    soon = SystemClock().now() + timedelta(seconds=30)
    await world.relay.say(DOWN_CALL, encode(Call(request_id="soon", method="diagnostics", expires_at=soon)))
    await world.relay.until(lambda: len(world.relay.replies()) == 1)
    assert world.relay.replies()[0].request_id == "soon"


async def test_nobody_can_take_the_connection_over(world: LineWorld) -> None:
    async with open_session(world.broker.address, anybody()):
        await asyncio.sleep(0.05)
        assert world.uplink.status().is_online


async def drive_through(world: LineWorld) -> tuple[DrivableFakeLink, CommandId]:
    """A mower that the relay drives."""
    link = world.box.link = DrivableFakeLink()
    world.box.capabilities = DRIVABLE
    world.box.show(Activity.IDLE, observed_at=SystemClock().now())
    envelope = world.relay.envelope(ManualDrive())
    await world.relay.command(envelope)
    await link.arrived.wait()
    world.box.show(Activity.MANUAL, observed_at=SystemClock().now())
    async with asyncio.timeout(5):
        while world.box.commander.seats.session(MOWER) is None:
            await asyncio.sleep(0.01)
    return link, envelope.command_id


def frame_for(session_id: CommandId, sequence: int, **changes: object) -> DriveMessage:
    fields = {"session_id": session_id, "edge_id": EDGE, "mower_id": MOWER, **changes}
    return DriveMessage(frame=DriveFrame(sequence=sequence, linear=1.0, angular=0.0), **fields)  # type: ignore[arg-type]


async def test_the_relay_drives_by_signed_frames(world: LineWorld) -> None:
    link, session_id = await drive_through(world)
    begun = asyncio.get_running_loop().time()
    await world.relay.drive(frame_for(session_id, 1))
    async with asyncio.timeout(5):
        while len(link.frames) < 2:
            await asyncio.sleep(0.005)
    assert 0.4 < asyncio.get_running_loop().time() - begun < 1.5
    assert [(f.linear, f.angular) for f in link.frames] == [(1.0, 0.0), (0.0, 0.0)], "it stands without a newer frame"
    await world.relay.drive(
        DriveMessage(session_id=session_id, edge_id=EDGE, mower_id=MOWER, end=DriveEnd.PERSON, detail="Ben")
    )
    await world.relay.until(lambda: PauseMow() in link.sent)
    world.box.show(Activity.IDLE, observed_at=SystemClock().now())
    await world.relay.until(lambda: len(world.relay.results()) == 2)
    last = world.relay.results()[-1]
    assert (last.status, last.reason) == (CommandStatus.EXECUTED, "ended by somebody else (Ben)")
    world.uplink.on_growth()
    await world.relay.until(lambda: len(world.relay.rows) == 2)
    assert [row.result for row in world.relay.rows.values()] == world.relay.results()


async def test_which_frames_drive_nothing(world: LineWorld) -> None:
    link, session_id = await drive_through(world)
    relay, good = world.relay, frame_for(session_id, 1)
    stranger = Ed25519PrivateKey.generate()
    await relay.say(DOWN_DRIVE, sign_drive(good, stranger, "k"), MOWER)
    await relay.say(DOWN_DRIVE, encode(good), MOWER)
    await relay.command(relay.envelope(ManualDrive()), DOWN_DRIVE)
    await relay.drive(good, tail="n")
    await relay.drive(frame_for(session_id, 1, edge_id=EdgeId("another")))
    await relay.drive(frame_for(CommandId("an-older-session"), 1))
    await relay.drive(DriveMessage(session_id=session_id, edge_id=EDGE, mower_id=MOWER))
    async with asyncio.timeout(5):
        while sum(world.uplink.status().refused_messages.values()) < 7:
            await asyncio.sleep(0.01)
    assert world.uplink.status().refused_messages == {"signature": 3, "misdirected": 2, "no-drive-session": 2}
    assert link.frames == []


async def test_a_frame_that_the_broker_had_kept_drives_nothing(tmp_path: Path) -> None:
    async with line_world(tmp_path, start=False) as world:
        await world.relay.drive(frame_for(CommandId("session"), 1), retain=True)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(world.uplink.run())
            async with asyncio.timeout(5):
                while not world.uplink.status().refused_messages:
                    await asyncio.sleep(0.01)
            task.cancel()
        assert world.uplink.status().refused_messages == {"retained": 1}
