"""A session against a real broker, with every trap of the client libraries that was found."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.domain.errors import UnauthenticatedError, UnavailableError
from core.mqtt import session as session_module
from core.mqtt.session import BrokerAddress, Credential, MqttMessage, MqttSession, Will, open_session
from tests.fakes.certificates import make_certificates
from tests.fakes.mosquitto import Mosquitto, anybody, free_port, running_mosquitto


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Mosquitto]:
    async with running_mosquitto(tmp_path, lines=["max_queued_messages 0", "max_inflight_messages 20"]) as running:
        yield running


async def take(session: MqttSession, count: int, *, ack: bool = True) -> list[MqttMessage]:
    got: list[MqttMessage] = []
    async with asyncio.timeout(10):
        async for message in session.messages():
            got.append(message)
            if ack:
                session.ack(message)
            if len(got) == count:
                break
    return got


async def test_messages_go_through(broker: Mosquitto) -> None:
    async with (
        open_session(broker.address, anybody()) as reader,
        open_session(broker.address, anybody()) as writer,
    ):
        await reader.subscribe("a/+", "b", qos=1)
        await writer.publish("a/1", b"one", qos=1)
        await writer.publish("b", b"\x00\xff", qos=0)
        await writer.publish("c", b"not subscribed", qos=1)
        await writer.publish("a/2", b"", qos=1, retain=True)
        got = await take(reader, 3)
    assert [(m.topic, m.payload, m.qos, m.retained) for m in got] == [
        ("a/1", b"one", 1, False),
        ("b", b"\x00\xff", 0, False),
        ("a/2", b"", 1, False),
    ]


async def test_retained_messages_say_so(broker: Mosquitto) -> None:
    async with open_session(broker.address, anybody()) as writer:
        await writer.publish("kept", b"x", qos=1, retain=True)
    async with open_session(broker.address, anybody()) as reader:
        await reader.subscribe("kept")
        assert (await take(reader, 1))[0].retained


async def test_a_message_is_acknowledged_only_when_handled(broker: Mosquitto) -> None:
    """The library's own client acknowledges before anybody has seen the message."""
    async with open_session(broker.address, anybody(), clean=False, client_id="reader") as reader:
        await reader.subscribe("q", qos=1)
        async with open_session(broker.address, anybody()) as writer:
            for number in range(30):
                await writer.publish("q", str(number).encode(), qos=1)
        got = await take(reader, 2, ack=False)
        reader.ack(got[0])
    async with open_session(broker.address, anybody(), clean=False, client_id="reader") as reader:
        again = await take(reader, 29)
    assert [int(m.payload) for m in again] == list(range(1, 30))


async def test_acks_reach_the_broker_in_the_order_of_arrival(broker: Mosquitto) -> None:
    async with open_session(broker.address, anybody(), clean=False, client_id="reader") as reader:
        await reader.subscribe("q", qos=1)
        async with open_session(broker.address, anybody()) as writer:
            for number in range(5):
                await writer.publish("q", str(number).encode(), qos=1)
        got = await take(reader, 5, ack=False)
        for number in (4, 2, 0):  # 1 is still being handled
            reader.ack(got[number])
    async with open_session(broker.address, anybody(), clean=False, client_id="reader") as reader:
        again = await take(reader, 4)
    assert [int(m.payload) for m in again] == [1, 2, 3, 4]


async def test_the_inflight_limit_is_the_back_pressure(broker: Mosquitto) -> None:
    async with (
        open_session(broker.address, anybody()) as reader,
        open_session(broker.address, anybody()) as writer,
    ):
        await reader.subscribe("q", qos=1)
        for number in range(60):
            await writer.publish("q", str(number).encode(), qos=1)
        first = await take(reader, 20, ack=False)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(reader.messages()), 0.2)
        for message in first:
            reader.ack(message)
        rest = await take(reader, 40)
    assert [int(m.payload) for m in rest] == list(range(20, 60))


async def test_a_publish_notices_the_end_of_the_connection(broker: Mosquitto) -> None:
    async with open_session(broker.address, anybody()) as session:
        broker.freeze()
        publish = asyncio.ensure_future(session.publish("t", b"x", qos=1, timeout_s=60))
        await asyncio.sleep(0)
        began = time.monotonic()
        await broker.kill()
        with pytest.raises(UnavailableError):
            await publish
        assert time.monotonic() - began < 5
        assert not session.is_connected
        with pytest.raises(UnavailableError):
            await session.publish("t", b"x", qos=1)


async def test_waiting_for_messages_notices_it_too_after_what_had_arrived(broker: Mosquitto) -> None:
    async with open_session(broker.address, anybody()) as session:
        await session.subscribe("t")
        await session.publish("t", b"x", qos=1)
        stream = session.messages()
        assert (await anext(stream)).payload == b"x"
        await broker.kill()
        with pytest.raises(UnavailableError):
            await anext(stream)
        await session.wait_closed()


async def test_a_frozen_broker_costs_the_deadline_and_no_more(broker: Mosquitto) -> None:
    broker.freeze()
    began = time.monotonic()
    with pytest.raises(UnavailableError):
        async with open_session(broker.address, anybody(), timeout_s=0.3):
            pass
    assert time.monotonic() - began < 3
    broker.thaw()


async def test_a_publish_without_an_answer_ends_at_its_deadline(broker: Mosquitto) -> None:
    async with open_session(broker.address, anybody()) as session:
        broker.freeze()
        with pytest.raises(UnavailableError, match="acknowledge in time"):
            await session.publish("t", b"x", qos=1, timeout_s=0.1)
        broker.thaw()
        await session.publish("t", b"y", qos=1)


async def test_a_broker_that_stops_answering_pings_is_left(tmp_path: Path) -> None:
    async with running_mosquitto(tmp_path) as broker, open_session(broker.address, anybody(), keepalive_s=1) as session:
        broker.freeze()
        async with asyncio.timeout(10):
            await session.wait_closed()


async def test_wrong_passwords_are_told_from_a_missing_broker(tmp_path: Path) -> None:
    async with running_mosquitto(tmp_path, users={"ada": "secret"}) as broker:
        async with open_session(broker.address, Credential(username="ada", password="secret")):
            pass
        with pytest.raises(UnauthenticatedError) as caught:
            async with open_session(broker.address, Credential(username="ada", password="wrong-secret")):
                pass
        assert "wrong-secret" not in str(caught.value)
    with pytest.raises(UnavailableError):
        async with open_session(BrokerAddress(host="127.0.0.1", port=free_port()), anybody()):
            pass
    with pytest.raises(UnavailableError):
        async with open_session(BrokerAddress(host="no-such-host.invalid", port=1), anybody()):
            pass


def test_a_credential_hides_its_password() -> None:
    assert "hunter2" not in repr(Credential(username="ada", password="hunter2"))


async def test_the_will_speaks_only_without_a_goodbye(broker: Mosquitto) -> None:
    will = Will(topic="will", payload=b"gone", retain=False)
    async with open_session(broker.address, anybody()) as reader:
        await reader.subscribe("will", "end")
        async with open_session(broker.address, anybody(), will=will):
            pass
        async with (
            open_session(broker.address, anybody(), will=will, client_id="same"),
            open_session(broker.address, anybody(), client_id="same"),  # takes the connection over
        ):
            pass
        async with open_session(broker.address, anybody()) as writer:
            await writer.publish("end", b"", qos=1)
        assert [m.topic for m in await take(reader, 2)] == ["will", "end"]


async def test_leaving_is_quick_with_messages_unread(broker: Mosquitto) -> None:
    began = time.monotonic()
    async with open_session(broker.address, anybody()) as session:
        await session.subscribe("t")
        for _ in range(10):
            await session.publish("t", b"x" * 10_000, qos=1)
    assert time.monotonic() - began < 3


async def test_many_publishes_at_once(broker: Mosquitto) -> None:
    async with (
        open_session(broker.address, anybody()) as reader,
        open_session(broker.address, anybody()) as writer,
    ):
        await reader.subscribe("n")
        async with asyncio.TaskGroup() as group:
            for number in range(500):
                group.create_task(writer.publish("n", str(number).encode(), qos=1))
            got = await take(reader, 500)
    assert [int(m.payload) for m in got] == list(range(500))


async def test_too_many_waiting_publishes_are_refused(broker: Mosquitto) -> None:
    async with open_session(broker.address, anybody()) as session:
        broker.freeze()
        waiting = [asyncio.ensure_future(session.publish("n", b"", qos=1)) for _ in range(session_module.PENDING_MAX)]
        await asyncio.sleep(0)
        with pytest.raises(UnavailableError, match="too many"):
            await session.publish("n", b"", qos=1)
        await broker.kill()
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(outcome, UnavailableError) for outcome in outcomes)


async def test_unread_live_messages_are_bounded_and_the_newest_stay(broker: Mosquitto) -> None:
    extra = 50
    async with (
        open_session(broker.address, anybody()) as reader,
        open_session(broker.address, anybody()) as writer,
    ):
        await reader.subscribe("live", "end", qos=1)
        for number in range(session_module.LIVE_MAX + extra):
            await writer.publish("live", str(number).encode(), qos=0)
            if number % 500 == 0:
                await writer.publish("sync", b"", qos=1)  # lets the broker keep up
        await writer.publish("end", b"", qos=1)
        async with asyncio.timeout(10):
            while reader.dropped < extra:
                await asyncio.sleep(0.01)
        got = await take(reader, session_module.LIVE_MAX + 1)
    assert [m.topic for m in got[-1:]] == ["end"]
    assert [int(m.payload) for m in got[:-1]] == list(range(extra, session_module.LIVE_MAX + extra))


async def test_cancelled_while_connecting_nothing_stays_behind() -> None:
    before = asyncio.all_tasks()
    with socket.create_server(("127.0.0.1", 0)) as silent:  # connections wait in its backlog for ever
        address = BrokerAddress(host="127.0.0.1", port=silent.getsockname()[1])

        async def connect() -> None:
            async with open_session(address, anybody()):
                pass

        task = asyncio.ensure_future(connect())
        peer, _ = await asyncio.to_thread(silent.accept)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with peer:
            peer.settimeout(5)
            while await asyncio.to_thread(peer.recv, 1_000):
                pass  # until the end of the stream: the socket was closed
    assert asyncio.all_tasks() == before


async def test_a_peer_that_is_no_broker_is_unavailable() -> None:
    async def babble(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(babble, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(UnavailableError):
            async with open_session(BrokerAddress(host="127.0.0.1", port=port), anybody(), timeout_s=2):
                pass


async def test_tls_is_verified(tmp_path: Path) -> None:
    ca_file, certificate, key = make_certificates(tmp_path)
    lines = [f"certfile {certificate}", f"keyfile {key}"]
    async with running_mosquitto(tmp_path, lines=lines) as broker:
        address = BrokerAddress(host="127.0.0.1", port=broker.port, tls=True, ca_file=str(ca_file))
        async with open_session(address, anybody()) as session:
            await session.subscribe("t")
            for number in range(50):
                await session.publish("t", bytes([number]) * 40_000, qos=1)
            got = await take(session, 50)
        assert [m.payload[0] for m in got] == list(range(50))
        with pytest.raises(UnavailableError, match="does not hold"):
            async with open_session(BrokerAddress(host="127.0.0.1", port=broker.port, tls=True), anybody()):
                pass


async def test_tls_checks_the_name(tmp_path: Path) -> None:
    ca_file, certificate, key = make_certificates(tmp_path)
    lines = [f"certfile {certificate}", f"keyfile {key}"]
    async with running_mosquitto(tmp_path, lines=lines) as broker:
        address = BrokerAddress(host="127.0.0.2", port=broker.port, tls=True, ca_file=str(ca_file))
        with pytest.raises(UnavailableError):
            async with open_session(address, anybody()):
                pass
