"""The gateway against a real broker: dispatch, isolation of lanes and boxes, and what publishing promises."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from cloud_relay.gateway import LANES, Gateway, Handler
from core.domain.clock import SystemClock
from core.domain.errors import MalformedMessageError, NotPublishedError, StorageError
from core.domain.ids import EdgeId, MowerId
from core.mqtt.session import MqttSession, open_session
from core.sync import topics
from tests.fakes.mosquitto import Mosquitto, anybody, running_mosquitto

A, B = EdgeId("edge-a"), EdgeId("edge-b")
M = MowerId("m1")


class Recorder:
    """Handlers that note what they got, and can be held back per box."""

    def __init__(self) -> None:
        self.got: list[tuple[str, EdgeId, str | None, bytes, bool]] = []
        self.gates: dict[tuple[str, EdgeId], asyncio.Event] = {}
        self.errors: dict[bytes, Exception] = {}
        self.active = 0
        self.most_active = 0
        self._news = asyncio.Condition()

    def handler(self, branch: str) -> Handler:
        async def handle(edge_id: EdgeId, tail: str | None, payload: bytes, retained: bool) -> None:
            self.active += 1
            self.most_active = max(self.most_active, self.active)
            try:
                gate = self.gates.get((branch, edge_id))
                if gate is not None:
                    await gate.wait()
                if payload in self.errors:
                    raise self.errors[payload]
            finally:
                self.active -= 1
            async with self._news:
                self.got.append((branch, edge_id, tail, payload, retained))
                self._news.notify_all()

        return handle

    async def wait(self, count: int) -> None:
        async with asyncio.timeout(10), self._news:
            await self._news.wait_for(lambda: len(self.got) >= count)

    def handlers(self) -> dict[str, Handler]:
        branches = (topics.UP_HELLO, topics.UP_STATUS, topics.UP_STATE, topics.UP_JOURNAL, topics.UP_RESULT)
        return {branch: self.handler(branch) for branch in branches}


@asynccontextmanager
async def running(gateway: Gateway) -> AsyncIterator[Gateway]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(gateway.run(), name="gateway")
        async with asyncio.timeout(10):
            await gateway.wait_connected()
        yield gateway
        task.cancel()


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Mosquitto]:
    lines = ["max_inflight_messages 100", "max_queued_messages 1000000"]
    async with running_mosquitto(tmp_path, lines=lines) as started:
        yield started


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def make(broker: Mosquitto, recorder: Recorder, registry: CollectorRegistry, **options: object) -> Gateway:
    return Gateway(
        address=broker.address,
        credential=anybody(),
        handlers=recorder.handlers(),
        clock=SystemClock(),
        registry=registry,
        random_number=lambda: 0.05,
        **options,  # type: ignore[arg-type]
    )


async def send(session: MqttSession, edge_id: EdgeId, branch: str, payload: bytes, tail: str | None = None) -> None:
    await session.publish(topics.topic(edge_id, branch, tail), payload, qos=0 if branch == topics.UP_STATE else 1)


def dropped(registry: CollectorRegistry, branch: str, reason: str) -> float | None:
    return registry.get_sample_value("mowdeck_relay_messages_dropped_total", {"branch": branch, "reason": reason})


async def test_each_branch_reaches_its_handler(broker: Mosquitto, registry: CollectorRegistry) -> None:
    recorder = Recorder()
    async with running(make(broker, recorder, registry)), open_session(broker.address, anybody()) as box:
        await send(box, A, topics.UP_HELLO, b"h")
        await send(box, A, topics.UP_STATE, b"s", M)
        await send(box, A, topics.UP_RESULT, b"r", M)
        await send(box, A, topics.UP_JOURNAL, b"j")
        await recorder.wait(4)
    assert sorted(recorder.got) == [
        (topics.UP_HELLO, A, None, b"h", False),
        (topics.UP_JOURNAL, A, None, b"j", False),
        (topics.UP_RESULT, A, M, b"r", False),
        (topics.UP_STATE, A, M, b"s", False),
    ]


async def test_what_was_retained_says_so(broker: Mosquitto, registry: CollectorRegistry) -> None:
    recorder = Recorder()
    async with open_session(broker.address, anybody()) as box:
        await box.publish(topics.topic(A, topics.UP_STATUS), b"on", qos=1, retain=True)
    async with running(make(broker, recorder, registry)) as gateway:
        await recorder.wait(1)
        assert recorder.got == [(topics.UP_STATUS, A, None, b"on", True)]
        await gateway.clear_retained(A)
        await recorder.wait(2)
    async with open_session(broker.address, anybody()) as other:
        await other.subscribe(topics.topic_filter(topics.UP_STATUS), "end")
        await other.publish("end", b"", qos=1)
        async with asyncio.timeout(5):
            assert (await anext(other.messages())).topic == "end"


async def test_messages_of_one_box_keep_their_order(broker: Mosquitto, registry: CollectorRegistry) -> None:
    recorder = Recorder()
    async with running(make(broker, recorder, registry)), open_session(broker.address, anybody()) as box:
        for number in range(200):
            for edge_id in (A, B):
                await send(box, edge_id, topics.UP_JOURNAL, str(number).encode())
        await recorder.wait(400)
    for edge_id in (A, B):
        assert [int(got[3]) for got in recorder.got if got[1] == edge_id] == list(range(200))


async def test_a_box_whose_journal_is_slow_holds_up_nobody(broker: Mosquitto, registry: CollectorRegistry) -> None:
    recorder = Recorder()
    gate = recorder.gates[topics.UP_JOURNAL, A] = asyncio.Event()
    async with running(make(broker, recorder, registry)), open_session(broker.address, anybody()) as box:
        for _ in range(8):
            await send(box, A, topics.UP_JOURNAL, b"slow")
        await send(box, B, topics.UP_JOURNAL, b"b")
        await send(box, A, topics.UP_RESULT, b"r", M)
        await send(box, A, topics.UP_STATE, b"s", M)
        await recorder.wait(3)
        assert {got[3] for got in recorder.got} == {b"b", b"r", b"s"}
        assert recorder.active == 1
        gate.set()
        await recorder.wait(11)


async def test_a_journal_message_is_acked_after_its_handler(broker: Mosquitto, registry: CollectorRegistry) -> None:
    """The broker's inflight limit is the store's back-pressure: no more than it are held in memory."""
    recorder = Recorder()
    gate = asyncio.Event()
    boxes = [EdgeId(f"edge-{number}") for number in range(10)]
    recorder.gates = {(topics.UP_JOURNAL, edge_id): gate for edge_id in boxes}
    async with running(make(broker, recorder, registry)), open_session(broker.address, anybody()) as box:
        for number in range(150):
            await send(box, boxes[number % 10], topics.UP_JOURNAL, str(number).encode())
        await send(box, A, topics.UP_HELLO, b"h")
        await recorder.wait(1)
        received = registry.get_sample_value("mowdeck_relay_messages_received_total", {"branch": topics.UP_JOURNAL})
        assert received is not None
        assert received <= 100
        gate.set()
        await recorder.wait(151)


async def test_errors_of_one_message_end_nothing(broker: Mosquitto, registry: CollectorRegistry) -> None:
    recorder = Recorder()
    recorder.errors = {b"bad": MalformedMessageError("x"), b"disk": StorageError("x"), b"bug": KeyError("x")}
    async with running(make(broker, recorder, registry)), open_session(broker.address, anybody()) as box:
        for payload in (b"bad", b"disk", b"bug", b"good"):
            await send(box, A, topics.UP_HELLO, payload)
        await box.publish(f"mowdeck/v1/edges/{A}/up/state/a b", b"", qos=0)
        await send(box, A, topics.UP_STATE, b"s", M)
        await recorder.wait(2)
    assert [dropped(registry, topics.UP_HELLO, reason) for reason in ("malformed", "storage", "defect")] == [1, 1, 1]
    assert dropped(registry, "unknown", "topic") == 1


async def test_publishing_goes_to_the_box(broker: Mosquitto, registry: CollectorRegistry) -> None:
    async with running(make(broker, Recorder(), registry)) as gateway, open_session(broker.address, anybody()) as box:
        await box.subscribe(f"mowdeck/v1/edges/{A}/down/#")
        await gateway.publish(A, topics.DOWN_COMMAND, M, b"c")
        await gateway.publish(A, topics.DOWN_ACK, None, b"a")
        await gateway.publish_stop(A, M, b"stop")
        got: set[str] = set()
        async with asyncio.timeout(5):
            async for message in box.messages():
                box.ack(message)
                got.add(message.topic)
                if len(got) == 3:
                    break
    assert got == {
        topics.topic(A, topics.DOWN_COMMAND, M),
        topics.topic(A, topics.DOWN_ACK),
        topics.topic(A, topics.DOWN_STOP, M),
    }


async def test_without_a_broker_nothing_is_published(broker: Mosquitto, registry: CollectorRegistry) -> None:
    gateway = make(broker, Recorder(), registry)
    assert not gateway.is_connected
    with pytest.raises(NotPublishedError):
        await gateway.publish(A, topics.DOWN_COMMAND, M, b"c")
    async with running(gateway):
        await broker.kill()
        for _ in range(2):
            with pytest.raises(NotPublishedError):
                await gateway.publish_stop(A, M, b"stop")
        assert not gateway.is_connected


async def test_a_broker_that_comes_back_is_found_and_told(broker: Mosquitto, registry: CollectorRegistry) -> None:
    recorder = Recorder()
    said = 0

    async def on_connected() -> None:
        nonlocal said
        said += 1
        if said == 1:
            raise NotPublishedError("fails once")

    async with running(make(broker, recorder, registry, on_connected=on_connected)) as gateway:
        await broker.kill()
        async with asyncio.timeout(10):
            while any(gateway.is_lane_connected(lane) for lane in LANES):
                await asyncio.sleep(0.01)
        await broker.start()
        async with asyncio.timeout(10):
            await gateway.wait_connected()
            while said < 2:
                await asyncio.sleep(0.01)
        async with open_session(broker.address, anybody()) as box:
            await send(box, A, topics.UP_HELLO, b"again")
            await recorder.wait(1)
    assert registry.get_sample_value("mowdeck_relay_broker_connected", {"lane": "main"}) == 0


async def test_a_stop_does_not_wait_behind_anything(broker: Mosquitto, registry: CollectorRegistry) -> None:
    """Thousands of other publishes are under way; the emergency lane has a connection of its own."""
    async with running(make(broker, Recorder(), registry)) as gateway:
        busy = True

        async def flood() -> None:
            while busy:
                await gateway.publish(A, topics.DOWN_DRIVE, M, b"x" * 50_000, qos=0)
                await gateway.publish(A, topics.DOWN_ACK, None, b"x" * 50_000)

        async with asyncio.TaskGroup() as group:
            for _ in range(50):
                group.create_task(flood())
            await asyncio.sleep(0.1)
            waits = []
            for _ in range(20):
                began = time.monotonic()
                await gateway.publish_stop(A, M, b"stop")
                waits.append(time.monotonic() - began)
            busy = False
    assert sorted(waits)[10] < 1.0
