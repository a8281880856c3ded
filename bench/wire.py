"""Figures of the wire: bytes and CPU of a batch in several formats, and a backlog drained end to end.

    python -m bench.wire formats [--rows 1000] [--mowers 1]
    python -m bench.wire drain [--rows 100000] [--kill]

`drain` runs a box's journal, a supervised Mosquitto and the relay's ingest, all on SQLite in a scratch folder, in one
process (the broker is a child); with `--kill` the broker is killed once on the way. Figures are ratios or rates of one
run on one machine; nothing here is a test.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import tempfile
import time
import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry

from cloud_relay.broker.supervised import SupervisedMosquitto
from cloud_relay.gateway import Gateway
from cloud_relay.ingest.ingest import Ingest, Listeners
from core.domain.clock import SystemClock
from core.domain.errors import UnauthenticatedError, UnavailableError
from core.domain.ids import AccountId, BootId, EdgeId, MowerId, StreamId
from core.domain.mower import Activity, MowerState, Position, RtkFix
from core.mqtt.session import Credential, open_session
from core.storage.sqlite_store import SqliteTelemetryStore
from core.storage.telemetry_store import DirectoryEntry, JournalHead
from core.sync import topics
from core.sync.batch import decode_batch, encode_batch
from core.sync.messages import Ack, Hello, decode, encode
from core.telemetry.rows import PositionRow, SequencedRow
from edge_agent.uplink.journal_pump import JournalPump

EDGE, HOME, PASSWORD = EdgeId("bench-edge"), AccountId("home"), "bench password"


def track(count: int, mowers: int, seed: int = 1) -> tuple[SequencedRow, ...]:
    """Positions at 1 Hz per mower in lanes, with noise of a centimetre and times with microseconds."""
    rng = random.Random(seed)
    start = datetime.now(UTC) - timedelta(seconds=count)
    rows = []
    for index in range(count):
        mower, step = index % mowers, index // mowers
        lane, along = divmod(step, 60)
        forth = along if lane % 2 == 0 else 60 - along
        rows.append(
            SequencedRow(
                seq=index + 1,
                row=PositionRow(
                    mower_id=MowerId(f"bench-mower-{mower:02}"),
                    observed_at=start + timedelta(seconds=step, microseconds=rng.randrange(20_000)),
                    lat=round(48_0000000 + mower * 90_000 + forth * 40 + rng.gauss(0, 1)) / 1e7,
                    lon=round(11_0000000 + mower * 90_000 + lane * 27 + rng.gauss(0, 1)) / 1e7,
                    heading_deg=round((0 if lane % 2 == 0 else 180) + rng.gauss(2, 0.7), 1) % 360,
                    accuracy_m=0.014,
                    rtk_fix=RtkFix.FIXED if rng.random() < 0.98 else RtkFix.FLOAT,
                    blades_on=True,
                    wifi_dbm=-60 + lane % 7,
                    satellites=22 + rng.randrange(2),
                ),
            )
        )
    return tuple(rows)


def measure(act: Callable[[], object], seconds: float = 0.5) -> float:
    """Microseconds per call (median of rounds)."""
    act()
    rounds: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(rounds) < 3:
        began = time.perf_counter()
        act()
        rounds.append((time.perf_counter() - began) * 1e6)
    return statistics.median(rounds)


def formats(count: int, mowers: int) -> None:
    """One batch of positions in each format."""
    rows = track(count, mowers)
    bare = [item.row for item in rows if isinstance(item.row, PositionRow)]
    plain = [msgspec.to_builtins(row) for row in bare]
    ours = encode_batch(StreamId("s"), 1, count, rows)
    stdlib = json.dumps(plain).encode()
    stdlib_zipped = zlib.compress(stdlib, 6)
    fast_zipped = zlib.compress(msgspec.json.encode(bare), 6)
    packed_zipped = zlib.compress(msgspec.msgpack.encode(bare), 6)
    kind = list[PositionRow]
    table: list[tuple[str, int, Callable[[], object], Callable[[], object]]] = [
        ("json rows, stdlib", len(stdlib), lambda: json.dumps(plain), lambda: json.loads(stdlib)),
        (
            "json rows, stdlib, zlib 6",
            len(stdlib_zipped),
            lambda: zlib.compress(json.dumps(plain).encode(), 6),
            lambda: json.loads(zlib.decompress(stdlib_zipped)),
        ),
        (
            "json rows, msgspec, zlib 6",
            len(fast_zipped),
            lambda: zlib.compress(msgspec.json.encode(bare), 6),
            lambda: msgspec.json.decode(zlib.decompress(fast_zipped), type=kind),
        ),
        (
            "msgpack rows, msgspec, zlib 6",
            len(packed_zipped),
            lambda: zlib.compress(msgspec.msgpack.encode(bare), 6),
            lambda: msgspec.msgpack.decode(zlib.decompress(packed_zipped), type=kind),
        ),
        (
            "mowdeck batch",
            len(ours),
            lambda: encode_batch(StreamId("s"), 1, count, rows),
            lambda: decode_batch(ours),
        ),
    ]
    assert decode_batch(ours).rows == rows
    print(f"{count} positions of {mowers} mowers")
    for name, size, encode_it, decode_it in table:
        print(
            f"{name:30} {size:8} B {size / count:7.1f} B/row "
            f"encode {measure(encode_it):8.0f} us decode {measure(decode_it):8.0f} us"
        )


async def drain(count: int, *, kill: bool) -> None:
    """A backlog of `count` rows from a box's database into the relay's."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        clock = SystemClock()
        box = SqliteTelemetryStore(directory / "box.sqlite3", clock=clock, is_journal=True)
        relay = SqliteTelemetryStore(directory / "relay.sqlite3", clock=clock, is_journal=False)
        mower_id = MowerId("bench-mower")
        for store in (box, relay):
            await store.open()
            await store.put_directory([DirectoryEntry(mower_id=mower_id, account_id=HOME, edge_id=EDGE, name="bench")])
        await fill(box, mower_id, count)
        broker = SupervisedMosquitto(directory=directory / "broker", host="127.0.0.1", port=0, clock=clock)
        await broker.put_edge(EDGE, PASSWORD)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(broker.run(), name="broker")]
            await broker.wait_ready()
            gateway = relay_side(broker, relay, group, tasks)
            await gateway.wait_connected()
            began = time.perf_counter()
            cpu = time.process_time()
            tasks.append(group.create_task(box_side(broker, box), name="box"))
            killed = False
            while (head := await box.journal_head()).acked_seq < head.last_seq:
                if kill and not killed and head.acked_seq > head.last_seq // 3 and broker.pid is not None:
                    os.kill(broker.pid, signal.SIGKILL)
                    killed = True
                await asyncio.sleep(0.02)
            took, cpu = time.perf_counter() - began, time.process_time() - cpu
            for task in tasks:
                task.cancel()
        counts = [await store.counts() for store in (box, relay)]
        for store in (box, relay):
            await store.close()
    names = ("mower_history", "mower_positions", "command_timeline")
    rows = sum(counts[0][name] for name in names)
    assert [counts[0][name] for name in names] == [counts[1][name] for name in names], counts
    print(
        f"{rows} rows in {took:.2f} s: {rows / took:,.0f} rows/s, {cpu / rows * 1e6:.1f} us CPU per row (box and relay)"
    )


async def fill(box: SqliteTelemetryStore, mower_id: MowerId, count: int) -> None:
    """Records states that make about `count` rows."""
    positions = track(count, 1)
    for first in range(0, count, 500):
        states = [
            (
                mower_id,
                HOME,
                MowerState(
                    observed_at=item.row.observed_at,
                    activity=Activity.MOWING,
                    battery_percent=90 - item.seq * 60 // count,
                    position=Position(lat=item.row.lat, lon=item.row.lon, heading_deg=item.row.heading_deg),
                    rtk_fix=item.row.rtk_fix,
                    blades_on=True,
                ),
            )
            for item in positions[first : first + 500]
            if isinstance(item.row, PositionRow)
        ]
        await box.record_states(states, received_at=datetime.now(UTC))


def relay_side(
    broker: SupervisedMosquitto, store: SqliteTelemetryStore, group: asyncio.TaskGroup, tasks: list[asyncio.Task[None]]
) -> Gateway:
    """Gateway and ingest."""

    async def nothing(*_: object) -> None:
        return None

    async def publish_ack(edge_id: EdgeId, ack: Ack) -> None:
        await gateway.publish(edge_id, topics.DOWN_ACK, None, encode(ack))

    registry = CollectorRegistry()
    ingest = Ingest(
        store=store,
        account_of=lambda _: HOME,
        listeners=Listeners(on_hello=nothing, on_status=nothing, on_result=nothing, publish_state=lambda _: None),
        publish_ack=publish_ack,
        clock=SystemClock(),
        registry=registry,
    )
    gateway = Gateway(
        address=broker.address,
        credential=broker.relay_credential,
        handlers=ingest.handlers,
        clock=SystemClock(),
        registry=registry,
        wait_for_broker=broker.wait_ready,
        on_connected=ingest.call_boxes,
    )
    tasks += [group.create_task(ingest.run(), name="ingest"), group.create_task(gateway.run(), name="gateway")]
    return gateway


async def box_side(broker: SupervisedMosquitto, store: SqliteTelemetryStore) -> None:
    """The box's pump, over one connection after another."""
    while True:
        try:
            await one_connection(broker, store)
        except* (UnavailableError, UnauthenticatedError):
            await asyncio.sleep(0.2)


async def one_connection(broker: SupervisedMosquitto, store: SqliteTelemetryStore) -> None:
    """Until it ends."""

    async def send_hello(head: JournalHead) -> None:
        hello = Hello(
            wire_version=1,
            mowdeck_version="bench",
            boot_id=BootId("boot"),
            sent_at=datetime.now(UTC),
            is_clock_synchronised=True,
            stream_id=head.stream_id,
            first_seq=head.first_seq,
            last_seq=head.last_seq,
            acked_seq=head.acked_seq,
            mowers=(),
        )
        await session.publish(topics.topic(EDGE, topics.UP_HELLO), encode(hello), qos=1)

    async def send_batch(data: bytes) -> None:
        await session.publish(topics.topic(EDGE, topics.UP_JOURNAL), data, qos=1)

    async def read() -> None:
        async for message in session.messages():
            session.ack(message)
            pump.on_ack(decode(message.payload, Ack))

    credential = Credential(username=EDGE, password=PASSWORD)
    async with open_session(broker.address, credential) as session:
        await session.subscribe(topics.topic(EDGE, topics.DOWN_ACK))
        pump = JournalPump(
            store=store, clock=SystemClock(), random=random.random, send_hello=send_hello, send_batch=send_batch
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(read(), name="acks")
            group.create_task(pump.run(), name="pump")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("formats", "drain"))
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--mowers", type=int, default=1)
    parser.add_argument("--kill", action="store_true")
    options = parser.parse_args()
    if options.what == "formats":
        formats(options.rows or 1_000, options.mowers)
    else:
        asyncio.run(drain(options.rows or 100_000, kill=options.kill))


if __name__ == "__main__":
    main()
