"""The relay's own Mosquitto, for real: rights, passwords, retained messages, and every way of dying."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cloud_relay.broker import mosquitto_files as files
from cloud_relay.broker.child import runs_with
from cloud_relay.broker.passwords import hash_password
from cloud_relay.broker.supervised import SupervisedMosquitto
from core.domain.clock import SystemClock
from core.domain.errors import InvalidInputError, SettingsError, UnauthenticatedError, UnavailableError
from core.domain.ids import EdgeId
from core.mqtt.session import BrokerAddress, Credential, MqttSession, open_session
from tests.cloud_relay.broker_rules import box, check_branches, check_retained, topics_until
from tests.fakes.certificates import make_certificates

A, B = EdgeId("edge-a"), EdgeId("edge-b")


def make(directory: Path, **options: object) -> SupervisedMosquitto:
    defaults: dict[str, object] = {"host": "127.0.0.1", "port": 0, "clock": SystemClock(), "random_number": lambda: 0.1}
    return SupervisedMosquitto(directory=directory / "broker", **{**defaults, **options})  # type: ignore[arg-type]


@asynccontextmanager
async def running(broker: SupervisedMosquitto) -> AsyncIterator[SupervisedMosquitto]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(broker.run(), name="broker")
        async with asyncio.timeout(10):
            await broker.wait_ready()
        yield broker
        task.cancel()


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[SupervisedMosquitto]:
    async with running(make(tmp_path)) as started:
        await started.put_edge(A, "password a")
        await started.put_edge(B, "password b")
        yield started


def relay(broker: SupervisedMosquitto) -> object:
    return open_session(broker.address, broker.relay_credential)


async def test_a_box_touches_its_own_branch_only(broker: SupervisedMosquitto) -> None:
    await check_branches(broker, (A, "password a"), (B, "password b"))


async def test_retained_registrations_reach_their_box_only(broker: SupervisedMosquitto) -> None:
    await check_retained(broker, (A, "password a"), (B, "password b"))


async def test_a_box_cannot_retain_topics_of_its_own_making(broker: SupervisedMosquitto) -> None:
    async with open_session(broker.address, broker.relay_credential) as listener, box(broker, A, "password a") as edge:
        await listener.subscribe("mowdeck/v1/edges/+/up/#")
        for branch in ("up/anything", "up/state/m/deeper", "up/journal/x"):
            await edge.publish(f"mowdeck/v1/edges/{A}/{branch}", b"", qos=1)
        assert await topics_until(listener, edge, f"mowdeck/v1/edges/{A}/up/hello") == []


async def test_refused_publishes_do_not_end_the_session(broker: SupervisedMosquitto) -> None:
    """With `max_queued_messages 0` Mosquitto 2.0.11 ends it at the second one: a box that is newer than its relay and
    has a new branch would come and go for ever."""
    async with box(broker, A, "password a") as edge:
        for _ in range(5):
            await edge.publish(f"mowdeck/v1/edges/{A}/up/tomorrow", b"x", qos=1)
        await edge.publish(f"mowdeck/v1/edges/{A}/up/hello", b"x", qos=1)


async def test_nobody_comes_in_without_a_password(broker: SupervisedMosquitto) -> None:
    for name, password in ((A, "password b"), ("nobody", "x"), (A, ""), (files.RELAY_USER, "guess")):
        with pytest.raises(UnauthenticatedError):
            async with open_session(broker.address, Credential(username=name, password=password)):
                pass


async def test_a_removed_box_is_out_at_once_and_the_others_stay(broker: SupervisedMosquitto) -> None:
    async with box(broker, A, "password a") as a, box(broker, B, "password b") as b:
        await broker.remove_edge(A)
        async with asyncio.timeout(2):
            await a.wait_closed()
        await b.publish(f"mowdeck/v1/edges/{B}/up/hello", b"", qos=1)
    with pytest.raises(UnauthenticatedError):
        async with box(broker, A, "password a"):
            pass


async def test_a_new_password_replaces_the_old_one_and_its_sessions(broker: SupervisedMosquitto) -> None:
    async with box(broker, A, "password a") as a:
        await broker.put_edge(A, "new")
        async with asyncio.timeout(2):
            await a.wait_closed()
    async with box(broker, A, "new"):
        pass
    with pytest.raises(UnauthenticatedError):
        async with box(broker, A, "password a"):
            pass


async def test_many_boxes_at_once_can_connect_when_they_are_told(broker: SupervisedMosquitto) -> None:
    async def link(number: int) -> None:
        await broker.put_edge(EdgeId(f"many-{number}"), f"word {number}")
        async with box(broker, EdgeId(f"many-{number}"), f"word {number}"):
            pass

    async with asyncio.TaskGroup() as group:
        for number in range(20):
            group.create_task(link(number))


async def test_a_killed_child_comes_back_with_its_boxes_and_registrations(broker: SupervisedMosquitto) -> None:
    topic = f"mowdeck/v1/edges/{A}/down/registrations"
    async with open_session(broker.address, broker.relay_credential) as sender:
        await sender.publish(topic, b"kept", qos=1, retain=True)
        pid = broker.pid
        assert pid is not None
        await _saved(broker)
        os.kill(pid, signal.SIGKILL)
        await sender.wait_closed()
    async with asyncio.timeout(10):
        while broker.pid in (None, pid):
            await asyncio.sleep(0.02)
        await broker.wait_ready()
    assert broker.restarts == 1
    async with box(broker, A, "password a") as edge:
        await edge.subscribe(topic)
        async with asyncio.timeout(5):
            assert (await anext(edge.messages())).payload == b"kept"


async def _saved(broker: SupervisedMosquitto) -> None:
    """The child writes its database every 5 s; SIGUSR1 makes it do so now."""
    database = broker._directory / "mosquitto.db"
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGUSR1)
    async with asyncio.timeout(5):
        while not database.exists():
            await asyncio.sleep(0.02)


async def test_everything_is_there_after_a_restart_of_the_relay(tmp_path: Path) -> None:
    async with running(make(tmp_path)) as first:
        await first.put_edge(A, "password a")
        old = first.relay_credential
    async with running(make(tmp_path)) as second:
        async with box(second, A, "password a"):
            pass
        with pytest.raises(UnauthenticatedError):  # the relay's own password is new at each start
            async with open_session(second.address, old):
                pass


async def test_the_boxes_are_those_of_the_relay_after_a_sync(tmp_path: Path) -> None:
    broker = make(tmp_path)
    await broker.put_edge(A, "password a")
    gone = EdgeId("gone")
    await broker.put_edge(gone, "x")
    lost = EdgeId("lost")
    missing = await broker.sync_edges({A: None, B: hash_password("password b"), lost: None})
    assert missing == {lost}
    async with running(broker):
        for edge_id, password in ((A, "password a"), (B, "password b")):
            async with box(broker, edge_id, password):
                pass
        for edge_id in (gone, lost):
            with pytest.raises(UnauthenticatedError):
                async with box(broker, edge_id, "x"):
                    pass


async def test_no_password_lies_in_the_files_and_nobody_else_may_read_them(
    broker: SupervisedMosquitto, tmp_path: Path
) -> None:
    directory = tmp_path / "broker"
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    for name in ("passwords", "acl", "mosquitto.conf"):
        file = directory / name
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        text = file.read_text()
        assert "password a" not in text
        assert broker.relay_credential.password not in text


async def test_an_edge_id_cannot_smuggle_anything_into_the_files(broker: SupervisedMosquitto) -> None:
    for name in ("a:b", "a\nb", "+", "#", "", files.RELAY_USER):
        with pytest.raises(InvalidInputError):
            await broker.put_edge(EdgeId(name), "x")


async def test_a_missing_program_names_its_package(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        await make(tmp_path, binary="no-such-mosquitto").run()
    assert "apt install mosquitto" in caught.value.advice


async def test_a_program_that_is_no_mosquitto_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no Mosquitto"):
        await make(tmp_path, binary="/bin/echo").run()


async def test_a_busy_port_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        with pytest.raises(SettingsError, match="cannot bind") as caught:
            await make(tmp_path, port=other.getsockname()[1]).run()
        assert "Another program" in caught.value.advice


_RELAY = """
import asyncio, sys
from pathlib import Path
from cloud_relay.broker.supervised import SupervisedMosquitto
from core.domain.clock import SystemClock

async def main():
    broker = SupervisedMosquitto(directory=Path(sys.argv[1]), host="127.0.0.1", port=0, clock=SystemClock())
    task = asyncio.create_task(broker.run())
    await broker.wait_ready()
    print(broker.pid, flush=True)
    await task

asyncio.run(main())
"""


async def test_the_child_dies_with_a_relay_that_is_killed(tmp_path: Path) -> None:
    def start_and_kill() -> int:
        with subprocess.Popen(
            [sys.executable, "-c", _RELAY, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as relay_process:
            assert relay_process.stdout is not None
            # its log goes to stdout as well; the pid is the line of digits
            pid = next(int(line) for line in relay_process.stdout if line.strip().isdigit())
            relay_process.kill()
            return pid

    pid = await asyncio.to_thread(start_and_kill)
    async with asyncio.timeout(10):
        while runs_with(pid, tmp_path / "mosquitto.conf"):
            await asyncio.sleep(0.02)


async def test_a_child_that_survived_an_earlier_relay_is_ended(tmp_path: Path) -> None:
    broker = make(tmp_path)
    port = broker.address.port
    directory = tmp_path / "broker"
    directory.mkdir()
    (directory / "mosquitto.conf").write_text(f"listener {port} 127.0.0.1\n")
    command = ["/usr/sbin/mosquitto", "-c", str(directory / "mosquitto.conf")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as stale:  # noqa: ASYNC220  (returns at once)
        (directory / "mosquitto.pid").write_text(str(stale.pid))
        async with asyncio.timeout(5):
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                except OSError:
                    await asyncio.sleep(0.01)
                else:
                    break
        reaper = asyncio.ensure_future(asyncio.to_thread(stale.wait))
        async with running(broker):
            pass
        await reaper


async def test_a_pid_file_that_names_somebody_else_harms_nobody(tmp_path: Path) -> None:
    directory = tmp_path / "broker"
    directory.mkdir()
    with subprocess.Popen(["/bin/sleep", "60"]) as innocent:  # noqa: ASYNC220  (returns at once)
        (directory / "mosquitto.pid").write_text(str(innocent.pid))
        async with running(make(tmp_path)):
            assert innocent.poll() is None
        innocent.kill()


async def test_tls_for_boxes_and_loopback_for_the_relay(tmp_path: Path) -> None:
    ca_file, certificate, key = make_certificates(tmp_path)
    made = make(
        tmp_path,
        certificate=certificate,
        key=key,
        ca_pem=ca_file.read_text(),
        advertised_host="localhost",
    )
    async with running(made) as broker:
        await broker.put_edge(A, "password a")
        told = broker.advertised
        assert (told.host, told.tls) == ("localhost", True)
        address = BrokerAddress(host=told.host, port=told.port, tls=told.tls, ca_pem=told.ca_pem)
        async with open_session(address, Credential(username=A, password="password a")) as edge:
            await edge.publish(f"mowdeck/v1/edges/{A}/up/hello", b"", qos=1)
        with pytest.raises(UnavailableError):
            async with open_session(
                BrokerAddress(host="127.0.0.1", port=told.port),
                Credential(username=A, password="password a"),
                timeout_s=2,
            ):
                pass
        async with open_session(broker.address, broker.relay_credential) as session:
            assert isinstance(session, MqttSession)
