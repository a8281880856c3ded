"""The link over real HTTP and over a GATT connection, with everything that can go wrong on the way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest

from core.domain import commands
from core.domain.drive import DriveFrame
from core.domain.errors import (
    AuthFailedError,
    EntryError,
    LinkLostError,
    LinkTimeoutError,
    NotReadyError,
    OutOfRangeError,
)
from core.domain.mower import Activity, LinkKind
from core.platform.integration import IntegrationContext
from integrations.ardumower.ble_line import open_ble_line
from integrations.ardumower.emulated_http import HttpMower, serve
from integrations.ardumower.emulator import SunrayPeer
from integrations.ardumower.http_line import open_http_line
from integrations.ardumower.line import OpenLine
from integrations.ardumower.link import ArdumowerLink
from integrations.ardumower.notebook import Notebook
from integrations.ardumower.responder import SunrayBrain
from integrations.ardumower.wire import Op, Sensor
from tests.contract.integration_contract import open_context
from tests.integrations.ardumower.peers import (
    ADDRESS,
    QUICK_PATIENCE,
    QUICK_RHYTHM,
    MemoryPort,
    Running,
    make_link,
    running,
    wait_for,
)


@dataclass
class Bench:
    """A mower, a context, and how to make links between them."""

    brain: SunrayBrain
    context: IntegrationContext
    kind: LinkKind
    open_line: OpenLine
    mower: HttpMower | None = None
    port: MemoryPort | None = None

    def link(self, **changes: Any) -> ArdumowerLink:
        return make_link(self.context, self.open_line, link=self.kind, **changes)

    def drop_on(self, begin: str) -> None:
        """Cuts the connection once a request that begins like this was obeyed."""
        if self.mower is not None:
            self.mower.drop_on = begin
        if self.port is not None:
            self.port.peer.faults.drop_on_request = begin

    def count(self, *begins: str) -> int:
        return sum(body.startswith(begins) for body in self.brain.heard)


@asynccontextmanager
async def lan_bench(brain: SunrayBrain) -> AsyncIterator[Bench]:
    async with open_context() as context, serve(brain) as mower:
        yield Bench(brain, context, LinkKind.LAN, lambda: open_http_line(context.http, mower.url), mower=mower)


@asynccontextmanager
async def ble_bench(brain: SunrayBrain) -> AsyncIterator[Bench]:
    port = MemoryPort(SunrayPeer(ADDRESS, brain))
    async with open_context() as context:
        yield Bench(brain, context, LinkKind.BLE, lambda: open_ble_line(port, ADDRESS, context.clock), port=port)


BENCHES = {"lan": lan_bench, "ble": ble_bench}


@pytest.fixture(params=BENCHES)
async def bench(request) -> AsyncIterator[Bench]:
    async with BENCHES[request.param](SunrayBrain(time_scale=8.0)) as made:
        yield made


@pytest.fixture
async def lan() -> AsyncIterator[Bench]:
    async with lan_bench(SunrayBrain(time_scale=8.0)) as made:
        yield made


@pytest.fixture
async def ble() -> AsyncIterator[Bench]:
    async with ble_bench(SunrayBrain(time_scale=8.0)) as made:
        yield made


async def driving(bench: Bench, found: Running) -> ArdumowerLink:
    link = found.link
    assert isinstance(link, ArdumowerLink)
    assert (await link.send(commands.ManualDrive())).kind == "accepted"
    await found.until(lambda s: s.activity is Activity.MANUAL, 3.0, "the remote mode")
    return link


# -- what a healthy mower shows


async def test_a_job_from_dock_to_dock(bench: Bench):
    bench.brain.robot.lanes = [(1.0, 0.0), (1.5, 0.0)]
    async with running(bench.link()) as found:
        assert found.latest.activity is Activity.DOCKED
        assert (await found.link.send(commands.StartMow())).kind == "accepted"
        await found.until(lambda s: s.activity is Activity.MOWING, 3.0, "mowing")
        await found.until(lambda s: s.activity is Activity.RETURNING, 5.0, "returning")
        await found.until(lambda s: s.activity in (Activity.DOCKED, Activity.CHARGING), 5.0, "the dock")
        assert [type(event).__name__ for event in found.events] == ["MowingStarted", "MowingFinished", "Docked"]
        await found.until(lambda s: s.totals is not None and s.totals.mowing_s is not None, 3.0, "totals")
        assert found.latest.firmware == "1.0.332"


async def test_obstacles_and_statistics_are_asked_for(bench: Bench):
    bench.brain.robot.obstacles = [[(1.0, 2.0), (2.0, 2.0), (2.0, 3.0)]]
    async with running(bench.link()) as found:
        await found.link.send(commands.StartMow())
        state = await found.until(lambda s: s.raw is not None and "S2" in s.raw, 3.0, "obstacles")
        assert state.raw is not None
        assert state.raw["S2"] == "1,0.5,0.5,1,3,1.00,2.00,2.00,2.00,2.00,3.00"
        await found.until(lambda s: s.totals is not None and s.totals.collisions == 1, 3.0, "totals")


async def test_firmware_without_obstacles_is_asked_once(bench: Bench):
    bench.brain.faults.has_old_firmware = True
    async with running(bench.link(robot_id=None)) as found:
        await found.link.send(commands.StartMow())
        await found.until(lambda s: s.activity is Activity.MOWING, 3.0, "mowing")
        await found.watch(0.8)
        assert bench.count("AT+S2") == 1
        assert not found.task.done()


# -- the password, and who answers


async def test_a_wrong_password_asks_a_person(bench: Bench):
    with pytest.raises(AuthFailedError):
        async with running(bench.link(password=654321)):
            pass
    assert bench.count("AT+C", "AT+M") == 0


async def test_a_mower_without_a_password_takes_any():
    async with lan_bench(SunrayBrain(password=None)) as bench, running(bench.link(password=999)) as found:
        assert found.latest.activity is Activity.DOCKED


async def test_another_mower_at_the_address_is_refused(bench: Bench):
    with pytest.raises(EntryError, match="another mower"):
        async with running(bench.link(robot_id="ffffffffff00")):
            pass


async def test_a_damaged_answer_is_no_wrong_password(bench: Bench):
    for name in ("V", "S"):
        bench.brain.faults.spoil_reply_to = {name}
        with pytest.raises(LinkTimeoutError, match="damaged"):
            async with running(bench.link()):
                pass


async def test_the_password_is_in_no_log_and_no_error(bench: Bench, caplog: pytest.LogCaptureFixture):
    bench.brain.password = 123456
    with caplog.at_level(logging.DEBUG), pytest.raises(AuthFailedError) as failed:
        async with running(bench.link(password=87654321)):
            pass
    assert "87654321" not in caplog.text
    assert "87654321" not in f"{failed.value!r}{failed.value.detail}"
    assert "87654321" not in repr(bench.link(password=87654321)._mower)


# -- silence, reboot, drop


async def test_silence_ends_the_link(bench: Bench):
    async with running(bench.link()) as found:
        bench.brain.faults.is_silent = True
        assert isinstance(await found.ended(), LinkTimeoutError)


async def test_one_silence_does_not(bench: Bench):
    async with running(bench.link()) as found:
        bench.brain.faults.lose_replies = 1
        heard = len(bench.brain.heard)
        await wait_for(lambda: len(bench.brain.heard) > heard + 3, "more questions")
        count = len(found.states)
        await wait_for(lambda: len(found.states) > count, "more states")
        assert not found.task.done()


async def test_garbage_is_not_believed(bench: Bench):
    async with running(bench.link()) as found:
        count = len(found.states)
        bench.brain.faults.spoil_checksums = 2
        bench.brain.robot.volts = 22.0
        await wait_for(lambda: len(found.states) > count, "more states")
        await wait_for(lambda: bench.brain.faults.spoil_checksums == 0, "spoilt replies")
        assert not found.task.done()


async def test_after_a_reboot_it_learns_the_new_key(bench: Bench):
    async with running(bench.link()) as found:
        await found.link.send(commands.StartMow())
        await found.until(lambda s: s.activity is Activity.MOWING, 3.0, "mowing")
        await asyncio.sleep(0.2)  # off the contacts
        starts = bench.count("AT+C,-1,1")
        bench.brain.reboot()
        bench.brain.hear(b"AT+V,0x16", asyncio.get_running_loop().time())  # so that plain luck does not help
        await found.until(lambda s: s.activity is Activity.IDLE, 5.0, "idle after the reboot")
        await found.watch(0.3)
        assert bench.count("AT+C,-1,1") == starts, "a reboot starts nothing"
        assert (await found.link.send(commands.ReturnToDock())).kind == "accepted"


async def test_a_drop_ends_a_bluetooth_link_at_once(ble: Bench):
    async with running(ble.link(rhythm=replace(QUICK_RHYTHM, docked_s=60.0))) as found:
        await asyncio.sleep(0.3)
        assert ble.port is not None
        ble.port.connections[-1].disconnect()
        assert isinstance(await found.ended(1.0), LinkLostError)


async def test_a_mower_that_is_gone_ends_a_network_link(lan: Bench):
    async with running(lan.link()) as found:
        assert lan.mower is not None
        lan.mower.status = 503
        assert isinstance(await found.ended(), LinkLostError)


async def test_one_refused_request_does_not_end_a_network_link(lan: Bench):
    async with running(lan.link()) as found:
        assert lan.mower is not None
        requests = lan.mower.requests
        lan.mower.status = 503
        await wait_for(lambda: lan.mower is not None and lan.mower.requests > requests, "a refused request")
        lan.mower.status = 200
        count = len(found.states)
        await wait_for(lambda: len(found.states) > count + 1, "more states")


async def test_out_of_range(ble: Bench):
    assert ble.port is not None
    ble.port.is_near = False
    with pytest.raises(OutOfRangeError):
        async with running(ble.link()):
            pass


async def test_nobody_at_the_address():
    async with open_context() as context:
        server = await asyncio.start_server(lambda _, __: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        with pytest.raises(LinkLostError):
            async with running(make_link(context, lambda: open_http_line(context.http, f"http://127.0.0.1:{port}/"))):
                pass


@pytest.mark.parametrize("status", [302, 307, 308, 404, 500])
async def test_a_redirect_takes_no_request_elsewhere(lan: Bench, status: int):
    assert lan.mower is not None
    lan.mower.status = status
    with pytest.raises(LinkLostError):
        async with running(lan.link()):
            pass
    assert lan.mower.requests == 1


async def test_an_endless_answer_is_cut_off(lan: Bench):
    assert lan.mower is not None
    lan.mower.body = b"x" * 1_000_000
    with pytest.raises(LinkLostError, match="too long"):
        async with running(lan.link()):
            pass


async def test_the_request_comes_in_one_piece():
    """The firmware reads the body right behind the head and waits for nothing."""
    pieces: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pieces.append(await reader.read(65_536))
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-length: 0\r\n\r\n")
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async with open_context() as context:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
            with pytest.raises(LinkTimeoutError):
                async with running(make_link(context, lambda: open_http_line(context.http, url))):
                    pass
    head, _, body = pieces[0].partition(b"\r\n\r\n")
    assert body == b"AT+V,0x16\r\n"
    assert head.startswith(b"POST / HTTP/1.1")


# -- orders are given once


@pytest.mark.parametrize("command", [commands.StartMow(), commands.ReturnToDock(), commands.ManualDrive()])
async def test_a_lost_answer_is_unknown_and_nothing_is_repeated(bench: Bench, command):
    async with running(bench.link()) as found:
        bench.brain.faults.lose_reply_to.add("C")
        outcome = await found.link.send(command)
        assert outcome.kind == "unknown"
        await found.watch(0.5)
        assert bench.count("AT+C") == 1
        assert bench.count("AT+M") == 0


async def test_a_request_that_was_not_heard_is_not_repeated_either(bench: Bench):
    async with running(bench.link(rhythm=replace(QUICK_RHYTHM, docked_s=60.0))) as found:
        await found.watch(0.3)  # until it has asked for everything
        bench.brain.faults.lose_requests = 1
        assert (await found.link.send(commands.StartMow())).kind == "unknown"
        await found.watch(0.4)
        assert bench.count("AT+C") == 0
        assert found.latest.activity is Activity.DOCKED


async def test_an_order_to_a_mower_that_has_rebooted_is_unknown_and_does_nothing(bench: Bench):
    async with running(bench.link(rhythm=replace(QUICK_RHYTHM, docked_s=60.0))) as found:
        await found.watch(0.3)
        bench.brain.reboot()
        bench.brain.hear(b"AT+V,0x16", asyncio.get_running_loop().time())
        assert (await found.link.send(commands.StartMow())).kind == "unknown"
        await found.watch(0.4)
        assert bench.count("AT+C") == 0
        assert bench.brain.robot.op is not Op.MOW


async def test_a_drop_during_an_order_raises_and_nothing_is_repeated(bench: Bench):
    bench.drop_on("AT+C,-1,1")
    async with running(bench.link()) as found:
        with suppress(LinkLostError):
            assert (await found.link.send(commands.StartMow())).kind == "unknown"
        bench.drop_on("never")
    async with running(bench.link()) as again:
        await again.until(lambda s: s.activity is Activity.MOWING, 3.0, "what the mower heard")
        await again.watch(0.3)
        assert bench.count("AT+C,-1,1") == 1


async def test_nothing_but_questions_when_a_link_opens(bench: Bench):
    async with running(bench.link()) as found:
        await found.watch(0.4)
    assert {body.split(",")[0] for body in bench.brain.heard} <= {"AT+V", "AT+S", "AT+T"}


async def test_paused_survives_a_new_link(bench: Bench):
    notebook = Notebook()
    async with running(bench.link(notebook=notebook)) as found:
        await found.link.send(commands.StartMow())
        await found.until(lambda s: s.activity is Activity.MOWING, 3.0, "mowing")
        await asyncio.sleep(0.2)  # off the contacts
        await found.link.send(commands.PauseMow())
        await found.until(lambda s: s.activity is Activity.PAUSED, 3.0, "paused")
    async with running(bench.link(notebook=notebook)) as again:
        assert again.latest.activity is Activity.PAUSED
    assert again.events == []


async def test_errors_are_told_and_motion_is_refused(bench: Bench):
    async with running(bench.link()) as found:
        bench.brain.robot.fail(Sensor.LIFT)
        state = await found.until(lambda s: s.activity is Activity.ERROR, 3.0, "an error")
        assert state.error is not None
        assert state.error.code == "15"
        assert (await found.link.send(commands.StartMow())).kind == "refused"
        assert (await found.link.send(commands.ConfirmError())).kind == "refused"
        bench.brain.robot.switch(Op.IDLE)
        await found.until(lambda s: s.error is None, 3.0, "no error")
        assert [type(event).__name__ for event in found.events] == ["ErrorRaised", "ErrorCleared"]
        assert bench.count("AT+C") == 0


async def test_an_error_that_may_be_confirmed_from_afar(bench: Bench):
    async with running(bench.link()) as found:
        bench.brain.robot.fail(Sensor.GPS_FIX_TIMEOUT)
        await found.until(lambda s: s.activity is Activity.ERROR, 3.0, "an error")
        assert (await found.link.send(commands.ConfirmError())).kind == "accepted"
        await found.until(lambda s: s.error is None, 3.0, "no error")


# -- emergency


async def test_an_emergency_stop_waits_for_no_question(bench: Bench):
    patience = replace(QUICK_PATIENCE, question_s=20.0)
    async with running(bench.link(patience=patience)) as found:
        await found.link.send(commands.StartMow())
        await found.until(lambda s: s.activity is Activity.MOWING, 3.0, "mowing")
        bench.brain.faults.reply_delay_s = 20.0
        heard = len(bench.brain.heard)
        await wait_for(lambda: len(bench.brain.heard) > heard, "a question that hangs")
        bench.brain.faults.reply_delay_s = 0.0
        async with asyncio.timeout(1.0):
            assert (await found.link.send(commands.EmergencyStop())).kind == "accepted"
        assert bench.brain.robot.op is Op.IDLE
        await found.until(lambda s: s.activity in (Activity.PAUSED, Activity.IDLE), 3.0, "standing")


async def test_an_emergency_stop_overtakes_what_waits(bench: Bench):
    """What is under way is given up, what waits is never sent: nothing that was asked before a stop moves the mower
    after it."""
    patience = replace(QUICK_PATIENCE, order_s=20.0)
    async with running(bench.link(patience=patience)) as found:
        bench.brain.faults.reply_delay_s = 20.0
        async with asyncio.TaskGroup() as group, asyncio.timeout(5.0):
            first = group.create_task(found.link.send(commands.SetSpeed(speed_mps=0.3)), name="under way")
            await wait_for(lambda: bench.count("AT+C") == 1, "the first order")
            second = group.create_task(found.link.send(commands.StartMow()), name="waits")
            await asyncio.sleep(0.05)
            bench.brain.faults.reply_delay_s = 0.0
            stop = group.create_task(found.link.send(commands.EmergencyStop()), name="stop")
            await wait_for(lambda: bench.count("AT+C,-1,0") == 1, "the stop", 1.0)
            if bench.kind is LinkKind.BLE:
                await asyncio.sleep(0.1)
                stop.cancel()  # its answer might be the late one of the first order, so it waits for a second
        assert first.result().kind == "unknown"
        assert second.result().kind == "refused"
        assert bench.kind is LinkKind.BLE or stop.result().kind == "accepted"
        await found.watch(0.2)
        assert bench.count("AT+C,-1,1") == 0


async def test_the_late_answer_of_a_cancelled_start_is_not_the_stops(ble: Bench):
    """A start is cut off by a stop. The start's answer comes late; the stop is lost: that must not look accepted."""
    async with running(ble.link(rhythm=replace(QUICK_RHYTHM, docked_s=60.0))) as found:
        await found.watch(0.3)
        ble.brain.faults.reply_delay_s = 0.15
        start = asyncio.get_running_loop().create_task(found.link.send(commands.StartMow()), name="start")
        await wait_for(lambda: ble.count("AT+C,-1,1") == 1, "the start")
        start.cancel()
        await asyncio.gather(start, return_exceptions=True)
        ble.brain.faults.lose_requests = 1
        assert (await found.link.send(commands.EmergencyStop())).kind == "unknown"
        ble.brain.faults.reply_delay_s = 0.0
        assert (await found.link.send(commands.EmergencyStop())).kind == "accepted", "asked again by the box"
        assert ble.brain.robot.op is Op.IDLE


@pytest.mark.parametrize(("packets", "outcome"), [(0, "accepted"), (1, "unknown")])
async def test_a_request_cut_off_half_way_does_not_swallow_the_stop(ble: Bench, packets: int, outcome: str):
    """The order's second packet is its last: once its write has begun, the mower may have heard and may answer."""
    async with running(ble.link(rhythm=replace(QUICK_RHYTHM, docked_s=60.0))) as found:
        await found.watch(0.3)
        assert ble.port is not None
        connection = ble.port.connections[-1]
        connection.hang_after = packets
        start = asyncio.get_running_loop().create_task(found.link.send(commands.StartMow()), name="start")
        await wait_for(lambda: connection.hang_after == -1, "the packet that hangs")
        start.cancel()
        await asyncio.gather(start, return_exceptions=True)
        connection.hang_after = None
        assert (await found.link.send(commands.EmergencyStop())).kind == outcome
        assert ble.count("AT+C,-1,1") == 0
        assert ble.count("AT+C,-1,0") == 1, "heard, whatever was in the mower's buffer"


async def test_a_bridge_without_write_responses(ble: Bench):
    assert ble.port is not None
    ble.port.takes_responses = False
    async with running(ble.link()) as found:
        assert (await found.link.send(commands.StartMow())).kind == "accepted"
    assert ble.brain.unheard == 0


@pytest.mark.parametrize("packet_bytes", [1, 7, 15, 20])
async def test_notifications_of_any_size(ble: Bench, packet_bytes: int):
    assert ble.port is not None
    ble.port.peer.faults.packet_bytes = packet_bytes
    async with running(ble.link()) as found:
        assert (await found.link.send(commands.StartMow())).kind == "accepted"
        ble.port.peer.faults.lose_packets = 1
        await found.until(lambda s: s.activity is Activity.MOWING, 3.0, "mowing, one packet lost")


async def test_a_drop_in_the_middle_of_a_reply(ble: Bench):
    assert ble.port is not None
    async with running(ble.link()) as found:
        ble.port.peer.faults.drop_after_packets = 2
        assert isinstance(await found.ended(), LinkLostError)
    async with running(ble.link()) as again:
        assert again.latest.activity is Activity.DOCKED


# -- driving by hand


async def test_frames_drive_and_the_dead_man_stops(bench: Bench):
    bench.brain.time_scale = 1.0
    async with running(bench.link()) as found:
        link = await driving(bench, found)
        await link.drive(DriveFrame(sequence=1, linear=-1.0, angular=0.0, ttl_ms=150))
        await wait_for(lambda: bench.count("AT+M") == 1, "a drive request")
        sent_at = asyncio.get_running_loop().time()
        await wait_for(lambda: "AT+M,0.00,0.00" in bench.brain.heard, "the stop")
        assert asyncio.get_running_loop().time() - sent_at < 0.6, "before the firmware's own timeout"
        await found.watch(0.3)
        assert [body for body in bench.brain.heard if body.startswith("AT+M")] == ["AT+M,-0.30,0.00", "AT+M,0.00,0.00"]
        assert not bench.brain.robot.blade_on


async def test_frames_are_obeyed_only_in_the_remote_mode_and_in_order(bench: Bench):
    async with running(bench.link()) as found:
        link = found.link
        assert isinstance(link, ArdumowerLink)
        await link.drive(DriveFrame(sequence=1, linear=1.0, angular=0.0))
        await found.watch(0.2)
        assert bench.count("AT+M") == 0
        await driving(bench, found)
        await link.drive(DriveFrame(sequence=9, linear=-0.5, angular=0.0, ttl_ms=100))
        await wait_for(lambda: bench.count("AT+M") == 2, "drive and stop")
        await link.drive(DriveFrame(sequence=8, linear=1.0, angular=0.0))
        await found.watch(0.2)
        assert bench.count("AT+M") == 2


async def test_the_end_of_the_link_stops_the_mower(bench: Bench):
    bench.brain.time_scale = 1.0
    async with running(bench.link()) as found:
        link = await driving(bench, found)
        await link.drive(DriveFrame(sequence=1, linear=-1.0, angular=0.0, ttl_ms=1000))
        await wait_for(lambda: bench.count("AT+M") == 1, "a drive request")
    assert [body for body in bench.brain.heard if body.startswith("AT+M")][-1] == "AT+M,0.00,0.00"
    with pytest.raises(LinkLostError):
        await link.drive(DriveFrame(sequence=2, linear=1.0, angular=0.0))


async def test_when_even_the_stop_is_lost_the_firmware_stops(bench: Bench):
    bench.brain.time_scale = 1.0
    async with running(bench.link()) as found:
        link = await driving(bench, found)
        await link.drive(DriveFrame(sequence=1, linear=-1.0, angular=0.0, ttl_ms=1000))
        await wait_for(lambda: bench.brain.robot.is_moving, "moving")
        bench.brain.faults.is_silent = True
    bench.brain.advance_to(asyncio.get_running_loop().time() + 1.1)
    assert not bench.brain.robot.is_moving


async def test_an_emergency_stop_ends_driving(bench: Bench):
    bench.brain.time_scale = 1.0
    async with running(bench.link()) as found:
        link = await driving(bench, found)
        await link.drive(DriveFrame(sequence=1, linear=-1.0, angular=0.0, ttl_ms=1000))
        await wait_for(lambda: bench.count("AT+M") == 1, "a drive request")
        assert (await link.send(commands.EmergencyStop())).kind == "accepted"
        assert not bench.brain.robot.is_moving
        await link.drive(DriveFrame(sequence=2, linear=1.0, angular=0.0))
        await found.until(lambda s: s.activity is not Activity.MANUAL, 3.0, "no longer driven")
        await found.watch(0.2)
        drives = [body for body in bench.brain.heard if body.startswith("AT+M")]
        assert drives.count("AT+M,-0.30,0.00") == 1
        assert drives[-1] == "AT+M,0.00,0.00"


async def test_a_reboot_ends_driving(bench: Bench):
    async with running(bench.link()) as found:
        link = await driving(bench, found)
        bench.brain.reboot()
        bench.brain.hear(b"AT+V,0x16", asyncio.get_running_loop().time())
        await found.until(lambda s: s.activity is not Activity.MANUAL, 5.0, "no longer driven")
        await link.drive(DriveFrame(sequence=1, linear=1.0, angular=0.0))
        await found.watch(0.2)
        assert "AT+M,0.30,0.00" not in bench.brain.heard


async def test_a_silence_just_before_does_not_keep_the_stop_back(bench: Bench):
    """A question without an answer puts the key in doubt; to stand still is said all the same."""
    bench.brain.time_scale = 1.0
    async with running(bench.link()) as found:
        link = await driving(bench, found)
        await link.drive(DriveFrame(sequence=1, linear=-1.0, angular=0.0, ttl_ms=300))
        await wait_for(lambda: bench.count("AT+M") == 1, "the drive request")
        bench.brain.faults.lose_reply_to.update({"S", "V"})
        await wait_for(lambda: "AT+M,0.00,0.00" in bench.brain.heard, "the stop", 0.8)


async def test_a_slow_answer_does_not_hold_up_the_dead_man(bench: Bench):
    """Answers take longer than a frame holds: the stop is written anyway, on time."""
    bench.brain.time_scale = 1.0
    async with running(bench.link()) as found:
        link = await driving(bench, found)
        bench.brain.faults.reply_delay_s = 0.19
        await link.drive(DriveFrame(sequence=1, linear=-1.0, angular=0.0, ttl_ms=100))
        await wait_for(lambda: "AT+M,-0.30,0.00" in bench.brain.heard, "the drive request")
        began = asyncio.get_running_loop().time()
        await wait_for(lambda: "AT+M,0.00,0.00" in bench.brain.heard, "the stop")
        assert asyncio.get_running_loop().time() - began < 0.3


async def test_a_question_that_hangs_does_not_hold_up_the_dead_man(bench: Bench):
    bench.brain.time_scale = 1.0
    async with running(bench.link(patience=replace(QUICK_PATIENCE, question_s=20.0))) as found:
        link = await driving(bench, found)
        await link.drive(DriveFrame(sequence=1, linear=-1.0, angular=0.0, ttl_ms=500))
        await wait_for(lambda: bench.count("AT+M") == 1, "the drive request")
        began, questions = asyncio.get_running_loop().time(), bench.count("AT+S")
        bench.brain.faults.reply_delay_s = 20.0
        await wait_for(lambda: bench.count("AT+S") > questions, "a question that hangs")
        await wait_for(lambda: "AT+M,0.00,0.00" in bench.brain.heard, "the stop")
        assert asyncio.get_running_loop().time() - began < 0.9
        bench.brain.faults.reply_delay_s = 0.0


async def test_a_stop_without_an_answer_is_said_once_more_and_motion_never(bench: Bench):
    bench.brain.time_scale = 1.0
    async with running(bench.link()) as found:
        link = await driving(bench, found)
        bench.brain.faults.lose_reply_to.add("M")
        await link.drive(DriveFrame(sequence=1, linear=-1.0, angular=0.0, ttl_ms=100))
        await wait_for(lambda: bench.count("AT+M,0.00") == 2, "two stops")
        await found.watch(0.3)
        drives = [body for body in bench.brain.heard if body.startswith("AT+M")]
        assert drives == ["AT+M,-0.30,0.00", "AT+M,0.00,0.00", "AT+M,0.00,0.00"]


async def test_states_go_on_while_somebody_drives(bench: Bench):
    async with running(bench.link()) as found:
        link = await driving(bench, found)
        count = len(found.states)
        for sequence in range(1, 12):
            await link.drive(DriveFrame(sequence=sequence, linear=0.2, angular=0.0, ttl_ms=400))
            await asyncio.sleep(0.05)
        assert len(found.states) > count + 2


# -- one path at a time


async def test_two_links_never_hold_one_mower(bench: Bench):
    async with running(bench.link()):
        with pytest.raises(NotReadyError):
            async with running(bench.link()):
                pass
    async with running(bench.link()):
        pass


async def test_a_failed_link_lets_go(bench: Bench):
    with pytest.raises(AuthFailedError):
        async with running(bench.link(password=1)):
            pass
    async with running(bench.link()) as found:
        assert found.latest.activity is Activity.DOCKED
