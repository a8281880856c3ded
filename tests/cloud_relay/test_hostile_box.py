"""A box with a valid credential that means ill, or is broken: it harms itself at most."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import structlog
from prometheus_client import CollectorRegistry

from cloud_relay.complaints import Complaints
from cloud_relay.dispatch import Dispatch
from cloud_relay.edges.views import LinkConfirmation
from cloud_relay.gateway import Handler
from core.domain.errors import MalformedMessageError, NotFoundError, RateLimitedError
from core.domain.ids import AccountId, EdgeId, StreamId
from core.mqtt.session import MqttSession, open_session
from core.sync import topics
from core.sync.linking import LinkRequest
from tests.cloud_relay.relay_parts import hello, item
from tests.cloud_relay.test_gateway import A, B, M, Recorder, broker, dropped, make, registry, running, send
from tests.cloud_relay.test_ingest import EDGE, Desk, desk
from tests.cloud_relay.test_ingest import hello as hello_bytes
from tests.fakes.mosquitto import Mosquitto, anybody

__all__ = ["broker", "desk", "registry"]  # fixtures


@pytest.fixture
async def owner(parts: Any) -> Any:
    return await parts.person("acc-a")


@pytest.fixture
async def box(parts: Any, owner: Any) -> Any:
    return await parts.link(owner)


@pytest.mark.parametrize("odd", ["", "../../x", "a/b#", "z" * 65, "ä"])
async def test_a_mower_whose_id_cannot_be_one_is_refused(parts: Any, box: Any, odd: str) -> None:
    facts = await parts.inventory.take(box.edge_id, hello(parts.clock, item(odd), item("good", "S2")))
    assert [m.mower_id for m in await parts.catalog.mowers(AccountId("acc-a"))] == ["good"]
    assert [(note.mower_id, "id" in note.reason) for note in facts.refused] == [(odd[:64], True)]


async def test_a_mower_with_an_endless_serial_is_refused(parts: Any, box: Any) -> None:
    facts = await parts.inventory.take(box.edge_id, hello(parts.clock, item("m1", "S" * 100_000)))
    assert await parts.catalog.mowers(AccountId("acc-a")) == []
    assert [note.mower_id for note in facts.refused] == ["m1"]


@pytest.mark.parametrize("stream", ["", "a/b", "S" * 65])
async def test_a_stream_whose_name_cannot_be_one_is_malformed(desk: Desk, stream: str) -> None:
    with pytest.raises(MalformedMessageError):
        await desk.ingest.take_hello(EDGE, None, hello_bytes(stream=StreamId(stream)), False)
    assert desk.hellos == 0
    assert (await desk.store.counts())["edge_streams"] == 0


async def test_streams_without_end_are_forgotten_from_the_oldest(desk: Desk) -> None:
    for number in range(50):
        await desk.ingest.take_hello(EDGE, None, hello_bytes(stream=StreamId(f"s{number:02}")), False)
    assert (await desk.store.counts())["edge_streams"] <= 32
    assert await desk.store.watermark(EDGE, StreamId("s49")) is not None
    assert await desk.store.watermark(EDGE, StreamId("s00")) is None


class SlowRecorder(Recorder):
    """What box A sends takes a while."""

    def handler(self, branch: str) -> Handler:
        inner = super().handler(branch)

        async def handle(edge_id: EdgeId, tail: str | None, payload: bytes, retained: bool) -> None:
            if edge_id == A:
                await asyncio.sleep(0.01)
            await inner(edge_id, tail, payload, retained)

        return handle


async def flood(box: MqttSession, branch: str, count: int, tail: str | None = None) -> None:
    """`count` messages of box A without waiting for anything."""
    for number in range(count // 500):
        async with asyncio.TaskGroup() as group:
            for _ in range(500):
                group.create_task(send(box, A, branch, b"a", tail), name=f"flood {number}")


@pytest.mark.parametrize(("branch", "tail"), [(topics.UP_RESULT, M), (topics.UP_JOURNAL, None)])
async def test_a_flood_of_one_box_does_not_stand_in_the_way_of_others(
    broker: Mosquitto, registry: CollectorRegistry, branch: str, tail: str | None
) -> None:
    recorder = SlowRecorder()
    gateway = make(broker, recorder, registry, messages_per_s=5.0, burst=20.0)
    async with running(gateway), open_session(broker.address, anybody()) as box:
        await flood(box, branch, 2_000, tail)
        async with asyncio.timeout(5):  # worked off one by one, the flood would take 20 s
            await send(box, B, branch, b"b", tail)
            while not any(edge_id == B for _, edge_id, *_ in recorder.got):
                await asyncio.sleep(0.01)
    assert (dropped(registry, branch, "flood") or 0) > 1_000


async def test_a_whole_return_of_a_box_is_no_flood(broker: Mosquitto, registry: CollectorRegistry) -> None:
    recorder = Recorder()
    async with running(make(broker, recorder, registry)), open_session(broker.address, anybody()) as box:
        await flood(box, topics.UP_STATE, 500, M)
        await flood(box, topics.UP_RESULT, 500, M)
        await recorder.wait(500)
    assert dropped(registry, topics.UP_RESULT, "flood") is None


async def test_dispatch_says_when_a_box_has_too_much_waiting() -> None:
    ran: list[int] = []

    async def work(number: int) -> None:
        ran.append(number)

    async with asyncio.TaskGroup() as group:
        dispatch = Dispatch(group, name="t", concurrency=1, per_box=2)
        assert [dispatch.add(A, lambda n=n: work(n)) for n in range(4)] == [True, True, False, False]  # type: ignore[misc]
    assert ran == [0, 1]


def test_complaints_grow_rarer() -> None:
    complaints = Complaints()
    told = [n for n in range(1, 2_501) if complaints.count("x") is not None]
    assert told == [1, 10, 100, 1_000, 2_000]
    for key in range(50_000):
        complaints.count(key)
    assert len(complaints) <= 10_000


async def test_a_box_that_sends_nonsense_does_not_fill_the_log(broker: Mosquitto, registry: CollectorRegistry) -> None:
    recorder = Recorder()
    recorder.errors[b"bad"] = MalformedMessageError("nonsense")
    with structlog.testing.capture_logs() as logs:
        async with running(make(broker, recorder, registry)), open_session(broker.address, anybody()) as box:
            async with asyncio.TaskGroup() as group:
                for _ in range(99):
                    group.create_task(send(box, A, topics.UP_HELLO, b"bad"))
            await send(box, A, topics.UP_HELLO, b"end")
            await recorder.wait(1)
    assert sum(entry["event"] == "message of a box not handled" for entry in logs) == 2


@asynccontextmanager
async def ended_while_let_in(parts: Any) -> AsyncIterator[None]:
    """Somebody ends the link at the very moment when the box fetches its credential."""
    let_in = parts.broker.let_in

    async def late(edge_id: EdgeId, credential: str) -> None:
        await parts.registry.end("acc-a", edge_id)
        await let_in(edge_id, credential)

    parts.registry._broker = _replace(parts.registry._broker, let_in=late)
    yield


def _replace(access: Any, **changes: Any) -> Any:
    return type(access)(
        **{name: changes.get(name, getattr(access, name)) for name in ("let_in", "make_only", "throw_out", "clear")}
    )


async def test_a_link_that_ends_while_it_is_fetched_lets_nobody_in(parts: Any, owner: Any) -> None:
    offer = await parts.links.request(LinkRequest(name="n", version="1", fingerprint="f" * 20), "10.0.0.1")
    edge_id = await parts.links.confirm(owner, offer.user_code, LinkConfirmation())
    async with ended_while_let_in(parts):
        with pytest.raises(NotFoundError):
            await parts.links.poll(offer.device_code)
    assert parts.registry.account_of(edge_id) is None
    assert parts.broker.credentials == {}


async def test_an_end_that_is_cut_off_still_closes_the_door(parts: Any, box: Any) -> None:
    async def cut_off(*_: object) -> None:
        raise asyncio.CancelledError

    parts.registrar._publish = cut_off
    with pytest.raises(asyncio.CancelledError):
        await parts.registry.end("acc-a", box.edge_id)
    assert parts.registry.account_of(box.edge_id) is None
    assert parts.broker.credentials != {}
    await parts.registry.mend_door()
    assert parts.broker.credentials == {}


async def test_addresses_of_one_ipv6_customer_count_as_one(parts: Any) -> None:
    wish = LinkRequest(name="n", version="1", fingerprint="f" * 20)
    for number in range(10):
        await parts.links.request(wish, f"2001:db8:1:2::{number}")
    with pytest.raises(RateLimitedError):
        await parts.links.request(wish, "2001:db8:1:2:ffff::1")
    await parts.links.request(wish, "2001:db8:1:3::1")
