"""Ingest on a real store: what is taken, from whom, and how it is answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from cloud_relay.ingest.ingest import Ingest, Listeners
from cloud_relay.ingest.journal import REJECTED_IN_ACK
from core.domain.commands import CommandResult, CommandStatus
from core.domain.errors import ConflictError, MalformedMessageError, NotPublishedError, StorageError
from core.domain.events import Docked, MowerEvent
from core.domain.ids import AccountId, BootId, CommandId, EdgeId, MowerId, StreamId
from core.domain.mower import Activity, Connectivity, MowerState
from core.storage.sqlite_store import SqliteTelemetryStore
from core.storage.telemetry_store import DirectoryEntry
from core.sync import topics
from core.sync.batch import encode_batch
from core.sync.messages import Ack, EventMessage, Hello, ResultMessage, StateMessage, Status, encode
from core.telemetry.rows import HistoryRow, RecordRow, Row, SequencedRow, TimelineRow
from core.web.ports import LiveState
from tests.fakes.clock import START, ManualClock

EDGE, STRANGER = EdgeId("edge"), EdgeId("stranger")
HOME, OTHER = AccountId("home"), AccountId("other")
MOWER, FOREIGN, NEW = MowerId("mower"), MowerId("foreign"), MowerId("new")
STREAM = StreamId("stream")


def entry(mower_id: MowerId, account_id: AccountId = HOME, edge_id: EdgeId = EDGE) -> DirectoryEntry:
    return DirectoryEntry(mower_id=mower_id, account_id=account_id, edge_id=edge_id, name="x")


def hello(*, first_seq: int = 1, last_seq: int = 0, acked_seq: int = 0, stream: StreamId = STREAM) -> bytes:
    message = Hello(
        wire_version=1,
        mowdeck_version="1",
        boot_id=BootId("boot"),
        sent_at=START,
        is_clock_synchronised=True,
        stream_id=stream,
        first_seq=first_seq,
        last_seq=last_seq,
        acked_seq=acked_seq,
        mowers=(),
    )
    return encode(message)


def history(seq: int, mower_id: MowerId = MOWER) -> SequencedRow:
    row = HistoryRow(
        mower_id=mower_id,
        observed_at=START + timedelta(microseconds=seq),
        activity=Activity.MOWING,
        connectivity=Connectivity.ONLINE,
        battery_percent=seq % 100,
    )
    return SequencedRow(seq=seq, row=row)


def result(
    command: str = "c1", status: CommandStatus = CommandStatus.EXECUTED, mower_id: MowerId = MOWER
) -> CommandResult:
    return CommandResult(command_id=CommandId(command), mower_id=mower_id, status=status, at=START)


def batch(*rows: SequencedRow, first: int | None = None, last: int | None = None, stream: StreamId = STREAM) -> bytes:
    return encode_batch(stream, first or rows[0].seq, last or rows[-1].seq, rows)


def state(mower_id: MowerId = MOWER, *, after_s: float = 0.0, battery: int = 50) -> bytes:
    at = START + timedelta(seconds=after_s)
    return encode(
        StateMessage(
            mower_id=mower_id, state=MowerState(observed_at=at, activity=Activity.MOWING, battery_percent=battery)
        )
    )


class Desk:
    """An Ingest with everybody around it."""

    def __init__(self, store: SqliteTelemetryStore, clock: ManualClock) -> None:
        self.store = store
        self.clock = clock
        self.registry = CollectorRegistry()
        self.acks: list[tuple[EdgeId, Ack]] = []
        self.states: list[LiveState] = []
        self.results: list[CommandResult] = []
        self.events: list[tuple[MowerId, MowerEvent]] = []
        self.statuses: list[Status] = []
        self.hellos = 0
        self.adopts: list[DirectoryEntry] = []
        self.result_error: Exception | None = None
        self.is_broker_away = False
        self.ingest = Ingest(
            store=store,
            account_of={EDGE: HOME}.get,
            listeners=Listeners(
                on_hello=self.on_hello,
                on_status=self.on_status,
                on_result=self.on_result,
                publish_state=self.states.append,
                on_event=self.on_event,
            ),
            publish_ack=self.publish_ack,
            clock=clock,
            registry=self.registry,
            flush_s=0.01,
            retry_s=0.01,
        )

    async def on_hello(self, _edge_id: EdgeId, _hello: Hello) -> None:
        self.hellos += 1
        if self.adopts:
            await self.store.put_directory(self.adopts)

    async def on_status(self, _edge_id: EdgeId, status: Status) -> None:
        self.statuses.append(status)

    async def on_result(self, _edge_id: EdgeId, taken: CommandResult) -> None:
        if self.result_error is not None:
            raise self.result_error
        self.results.append(taken)

    async def on_event(self, _edge: EdgeId, _account: AccountId, mower_id: MowerId, event: MowerEvent) -> None:
        self.events.append((mower_id, event))

    async def publish_ack(self, edge_id: EdgeId, ack: Ack) -> None:
        if self.is_broker_away:
            raise NotPublishedError("away")
        self.acks.append((edge_id, ack))

    @property
    def last_ack(self) -> Ack:
        return self.acks[-1][1]

    async def greet(self, **numbers: int) -> None:
        await self.ingest.take_hello(EDGE, None, hello(**numbers), False)

    async def journal(self, payload: bytes, edge_id: EdgeId = EDGE) -> None:
        await self.ingest.take_journal(edge_id, None, payload, False)

    async def rows(self) -> list[HistoryRow]:
        found, _ = await self.store.history(HOME, MOWER, START - timedelta(1), START + timedelta(1), limit=9_999)
        return list(found)

    def count(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"mowdeck_relay_{name}_total", labels)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    clock = ManualClock()
    store = SqliteTelemetryStore(tmp_path / "relay.sqlite3", clock=clock, is_journal=False)
    await store.open()
    await store.put_directory([entry(MOWER), entry(FOREIGN, OTHER, EdgeId("elsewhere"))])
    made = Desk(store, clock)
    await made.ingest._owners.refresh()
    yield made
    await store.close()


@asynccontextmanager
async def running(desk: Desk) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(desk.ingest.run(), name="ingest")
        yield
        task.cancel()


# -- journal


async def test_a_session_begins_with_a_hello_and_rows_are_acked_when_stored(desk: Desk) -> None:
    await desk.greet(last_seq=3)
    assert (desk.last_ack.answers, desk.last_ack.acked_seq) == ("hello", 0)
    assert desk.last_ack.received_at == desk.clock.now()
    await desk.journal(batch(history(1), history(2), history(3)))
    assert desk.last_ack == Ack(stream_id=STREAM, acked_seq=3, received_at=desk.clock.now())
    assert await desk.rows() == [history(seq).row for seq in (1, 2, 3)]
    assert await desk.store.watermark(EDGE, STREAM) == 3


async def test_a_new_stream_begins_at_the_oldest_row_of_the_box(desk: Desk) -> None:
    await desk.greet(first_seq=501, last_seq=600, acked_seq=550)
    assert desk.last_ack.acked_seq == 500


async def test_rows_without_a_hello_are_a_strangers(desk: Desk) -> None:
    await desk.journal(batch(history(1)))
    assert desk.last_ack.answers == "stranger"
    assert await desk.rows() == []


async def test_a_batch_that_does_not_follow_is_a_gap(desk: Desk) -> None:
    await desk.greet(last_seq=9)
    await desk.journal(batch(history(1)))
    await desk.journal(batch(history(4)))
    assert (desk.last_ack.answers, desk.last_ack.acked_seq) == ("gap", 1)
    assert len(await desk.rows()) == 1


async def test_a_batch_that_comes_twice_is_acked_twice_and_stored_once(desk: Desk) -> None:
    await desk.greet(last_seq=2)
    for _ in range(2):
        await desk.journal(batch(history(1), history(2)))
        assert (desk.last_ack.answers, desk.last_ack.acked_seq) == ("batch", 2)
    assert len(await desk.rows()) == 2
    assert desk.count("batches", verdict="duplicate") == 1


async def test_numbers_that_a_box_gave_away_again_lose_no_row(desk: Desk) -> None:
    """Its last commits were lost in a power cut after the relay had got them."""
    await desk.greet(last_seq=9)
    await desk.journal(batch(*(history(seq) for seq in range(1, 10))))
    await desk.greet(last_seq=6, acked_seq=5)
    fresh = msgspec.structs.replace(history(6).row, observed_at=START + timedelta(seconds=5))  # type: ignore[type-var]
    await desk.journal(batch(SequencedRow(seq=6, row=fresh)))
    assert desk.last_ack.acked_seq == 6
    assert fresh in await desk.rows()


async def test_after_a_restart_the_relay_asks_for_a_hello_and_goes_on(desk: Desk) -> None:
    await desk.greet(last_seq=9)
    await desk.journal(batch(history(1)))
    again = Desk(desk.store, desk.clock)
    await again.journal(batch(history(2)))
    assert again.last_ack.answers == "stranger"
    await again.greet(last_seq=9, acked_seq=1)
    assert again.last_ack.acked_seq == 1
    await again.journal(batch(history(2)))
    assert again.last_ack.acked_seq == 2


async def test_boxes_that_were_back_before_the_relay_are_asked_for_a_hello(desk: Desk) -> None:
    await desk.ingest.call_boxes()
    assert desk.acks == []
    await desk.greet(last_seq=9)
    await desk.ingest.call_boxes()
    assert (desk.last_ack.stream_id, desk.last_ack.answers) == (STREAM, "stranger")


async def test_a_foreign_mowers_rows_are_quarantined_and_do_not_block(desk: Desk) -> None:
    await desk.greet(last_seq=3)
    await desk.journal(batch(history(1), history(2, FOREIGN), history(3)))
    assert desk.last_ack.acked_seq == 3
    assert [(row.seq, row.reason) for row in desk.last_ack.rejected] == [(2, "foreign-mower")]
    assert len(await desk.rows()) == 2
    assert (await desk.store.counts())["quarantine"] == 1


async def test_a_body_that_cannot_be_read_is_quarantined_as_one_and_acked(desk: Desk) -> None:
    await desk.greet(last_seq=9)
    damaged = bytearray(batch(history(1), history(2)))
    damaged[-10] ^= 0xFF
    await desk.journal(bytes(damaged))
    assert desk.last_ack.acked_seq == 2
    assert [row.seq for row in desk.last_ack.rejected] == [1]
    await desk.journal(batch(history(3)))
    assert await desk.rows() == [history(3).row]


async def test_records_are_stored_told_once_and_acked(desk: Desk) -> None:
    told: list[tuple[str, RecordRow]] = []
    desk.store.records.subscribe(lambda account_id, rows: told.extend((account_id, row) for row in rows))
    row = RecordRow(mower_id=MOWER, kind="of-tomorrow", key="k", at=START, updated_at=START, body=b'{"a": 1}')
    foreign = msgspec.structs.replace(row, mower_id=FOREIGN)
    await desk.greet(last_seq=2)
    for _ in range(2):
        await desk.journal(batch(SequencedRow(seq=1, row=row), SequencedRow(seq=2, row=foreign)))
        assert desk.last_ack.acked_seq == 2
        assert [(bad.seq, bad.reason) for bad in desk.last_ack.rejected] == [(2, "foreign-mower")]
    assert told == [(HOME, row)]
    assert await desk.store.records.get(HOME, MOWER, "of-tomorrow", "k") == row


@pytest.mark.parametrize("payload", [b"", b"x" * 500_000, batch(history(1)).replace(b'"v":1', b'"v":3')])
async def test_what_nothing_can_be_said_about_is_not_acked(desk: Desk, payload: bytes) -> None:
    await desk.greet(last_seq=9)
    count = len(desk.acks)
    with pytest.raises(MalformedMessageError):
        await desk.journal(payload)
    assert len(desk.acks) == count


async def test_an_ack_stays_small(desk: Desk) -> None:
    await desk.greet(last_seq=999)
    await desk.journal(batch(*(history(seq, FOREIGN) for seq in range(1, 500))))
    assert len(desk.last_ack.rejected) == REJECTED_IN_ACK
    assert desk.last_ack.acked_seq == 499


async def test_a_broker_that_is_away_loses_only_the_ack(desk: Desk) -> None:
    await desk.greet(last_seq=1)
    desk.is_broker_away = True
    await desk.journal(batch(history(1)))
    assert len(await desk.rows()) == 1


async def test_a_result_in_the_journal_is_passed_on_and_a_passing_failure_brings_it_again(desk: Desk) -> None:
    await desk.greet(last_seq=9)
    payload = batch(SequencedRow(seq=1, row=TimelineRow(result=result())))
    desk.result_error = StorageError("busy")
    with pytest.raises(StorageError):
        await desk.journal(payload)
    assert desk.last_ack.answers == "hello"
    desk.result_error = None
    await desk.journal(payload)
    assert desk.results == [result()]
    assert desk.last_ack.acked_seq == 1
    desk.result_error = ConflictError("never")
    await desk.journal(batch(SequencedRow(seq=2, row=TimelineRow(result=result("c2")))))
    assert desk.last_ack.acked_seq == 2


async def test_a_foreign_result_in_the_journal_is_not_passed_on(desk: Desk) -> None:
    await desk.greet(last_seq=9)
    await desk.journal(batch(SequencedRow(seq=1, row=TimelineRow(result=result(mower_id=FOREIGN)))))
    assert desk.results == []


async def test_a_mower_is_adopted_before_the_hello_is_answered(desk: Desk) -> None:
    """Otherwise the first rows of a new mower would go to the quarantine."""
    desk.adopts = [entry(NEW)]
    await desk.greet(last_seq=1)
    await desk.journal(batch(history(1, NEW)))
    assert desk.last_ack.rejected == ()


async def test_an_unlinked_box_gets_no_answer(desk: Desk) -> None:
    await desk.ingest.take_hello(STRANGER, None, hello(), False)
    await desk.journal(batch(history(1)), STRANGER)
    await desk.ingest.take_status(STRANGER, None, encode(Status(online=True, boot_id=BootId("b"), at=START)), False)
    assert (desk.acks, desk.hellos, desk.statuses) == ([], 0, [])


@pytest.mark.parametrize("numbers", [{"first_seq": 0}, {"first_seq": 5, "last_seq": 2}, {"acked_seq": -1}])
async def test_a_hello_with_impossible_numbers_is_malformed(desk: Desk, numbers: dict[str, int]) -> None:
    with pytest.raises(MalformedMessageError):
        await desk.greet(**numbers)


# -- live lane


async def test_a_state_is_seen_at_once_and_stored_once_a_second_newest_only(desk: Desk) -> None:
    for number in range(5):
        await desk.ingest.take_state(EDGE, MOWER, state(after_s=number, battery=number), False)
    assert [seen.state.battery_percent for seen in desk.states] == [0, 1, 2, 3, 4]
    assert await desk.store.latest(HOME, MOWER) is None
    async with running(desk), asyncio.timeout(5):
        while await desk.store.latest(HOME, MOWER) is None:
            await asyncio.sleep(0.005)
    latest = await desk.store.latest(HOME, MOWER)
    assert latest is not None
    assert latest.state.battery_percent == 4
    counts = await desk.store.counts()
    assert (counts["mower_history"], counts["mower_positions"]) == (0, 0)


async def test_the_last_states_are_stored_when_the_relay_ends(desk: Desk) -> None:
    async with running(desk):
        await asyncio.sleep(0)
        await desk.ingest.take_state(EDGE, MOWER, state(), False)
    assert await desk.store.latest(HOME, MOWER) is not None


async def test_an_older_state_does_not_replace_a_newer_one(desk: Desk) -> None:
    await desk.ingest.take_state(EDGE, MOWER, state(after_s=5), False)
    await desk.ingest.take_state(EDGE, MOWER, state(after_s=1), False)
    assert len(desk.states) == 1


@pytest.mark.parametrize(
    ("edge_id", "tail", "payload", "reason"),
    [
        (EDGE, FOREIGN, state(FOREIGN), "foreign-mower"),
        (EDGE, NEW, state(NEW), "unknown-mower"),
        (STRANGER, MOWER, state(), "unknown-edge"),
        (EDGE, MOWER, state(after_s=3_600), "implausible:observed_at"),
    ],
)
async def test_states_that_nobody_may_see(
    desk: Desk, edge_id: EdgeId, tail: MowerId, payload: bytes, reason: str
) -> None:
    await desk.ingest.take_state(edge_id, tail, payload, False)
    assert desk.states == []
    assert desk.count("states_skipped", reason=reason) == 1


async def test_a_state_under_another_mowers_topic_is_malformed(desk: Desk) -> None:
    with pytest.raises(MalformedMessageError):
        await desk.ingest.take_state(EDGE, NEW, state(), False)


async def test_implausible_parts_are_dropped_and_a_retained_state_is_ignored(desk: Desk) -> None:
    await desk.ingest.take_state(EDGE, MOWER, state(battery=101), False)
    assert [seen.state.battery_percent for seen in desk.states] == [None]
    await desk.ingest.take_state(EDGE, MOWER, state(after_s=1), True)
    assert len(desk.states) == 1


# -- results, events, status


def result_message(taken: CommandResult) -> bytes:
    return encode(ResultMessage(result=taken))


async def test_a_result_is_passed_on_and_written_at_once(desk: Desk) -> None:
    await desk.ingest.take_result(EDGE, MOWER, result_message(result()), False)
    assert desk.results == [result()]
    rows, _ = await desk.store.timeline(HOME, MOWER, START - timedelta(1), START + timedelta(1), limit=9)
    assert [row.result for row in rows] == [result()]


async def test_the_same_result_by_the_journal_doubles_nothing(desk: Desk) -> None:
    await desk.ingest.take_result(EDGE, MOWER, result_message(result()), False)
    await desk.greet(last_seq=1)
    await desk.journal(batch(SequencedRow(seq=1, row=TimelineRow(result=result()))))
    assert (await desk.store.counts())["command_timeline"] == 1


async def test_a_result_of_a_mower_that_is_registered_a_moment_later(desk: Desk) -> None:
    async with running(desk):
        await desk.ingest.take_result(EDGE, NEW, result_message(result(mower_id=NEW)), False)
        assert desk.results == []
        await desk.store.put_directory([entry(NEW)])
        await desk.ingest._owners.refresh()
        async with asyncio.timeout(5):
            while not desk.results:
                await asyncio.sleep(0.005)


async def test_a_result_of_nobodys_mower_is_dropped_after_three_tries(desk: Desk) -> None:
    async with running(desk):
        await desk.ingest.take_result(EDGE, NEW, result_message(result(mower_id=NEW)), False)
        async with asyncio.timeout(5):
            while desk.count("results", outcome="dropped") != 1:
                await asyncio.sleep(0.005)
    await desk.ingest.take_result(EDGE, FOREIGN, result_message(result(mower_id=FOREIGN)), False)
    assert desk.count("results", outcome="dropped") == 2
    assert desk.results == []


async def test_events_of_own_mowers_are_passed_on(desk: Desk) -> None:
    for mower_id in (MOWER, FOREIGN, NEW):
        payload = encode(EventMessage(mower_id=mower_id, event=Docked(at=START)))
        await desk.ingest.take_event(EDGE, mower_id, payload, False)
    assert desk.events == [(MOWER, Docked(at=START))]


async def test_status_is_passed_on_and_a_cleared_one_ignored(desk: Desk) -> None:
    status = Status(online=True, boot_id=BootId("b"), at=START)
    await desk.ingest.take_status(EDGE, None, encode(status), True)
    await desk.ingest.take_status(EDGE, None, b"", True)
    assert desk.statuses == [status]


def test_every_branch_of_a_box_has_a_handler(desk: Desk) -> None:
    up = {value for name, value in vars(topics).items() if name.startswith("UP_")}
    assert set(desk.ingest.handlers) == up


def test_rows_are_a_union_that_the_tests_know() -> None:
    assert {kind.__name__ for kind in Row.__args__} == {"HistoryRow", "PositionRow", "TimelineRow", "RecordRow"}
