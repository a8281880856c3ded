"""The relay's side of the journal: batches, watermarks, quarantine."""

from __future__ import annotations

import asyncio

from core.domain.commands import CommandStatus
from core.domain.ids import EdgeId, MowerId, StreamId
from core.sync.messages import RejectedRow
from core.telemetry.rows import SequencedRow
from tests.contract.telemetry_parts import (
    EDGE,
    EVER,
    HOME,
    MOWER,
    OTHER,
    STRANGER,
    STREAM,
    Check,
    Open,
    at,
    directory_entry,
    histories,
    history_at,
    numbered,
    position_at,
    result_at,
    settle,
    track,
)


async def ingest_stores_rows_and_watermark(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        assert await store.watermark(EDGE, STREAM) is None
        rows = numbered(history_at(0), position_at(0), result_at(1, "c1", CommandStatus.EXECUTED))
        done = await store.ingest(EDGE, HOME, STREAM, rows, last_seq=5, received_at=at(9))
        assert (done.acked_seq, done.stored, done.duplicates, done.rejected) == (5, 3, 0, ())
        assert await histories(store) == [history_at(0)]
        assert await track(store) == [position_at(0)]
        assert list((await store.timeline(HOME, MOWER, *EVER, limit=9))[0]) == [rows[2].row]
        assert await store.latest(HOME, MOWER) is None, "rows never touch latest"
    async with open_store("a") as store:
        assert await store.watermark(EDGE, STREAM) == 5
        assert await store.watermark(EdgeId("another"), STREAM) is None


async def ingest_again_and_overlapping_doubles_nothing(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        rows = numbered(*(position_at(n) for n in range(10)))
        await store.ingest(EDGE, HOME, STREAM, rows[:6], last_seq=6, received_at=at(9))
        done = await store.ingest(EDGE, HOME, STREAM, rows[:6], last_seq=6, received_at=at(9))
        assert (done.acked_seq, done.stored, done.duplicates) == (6, 0, 6)
        done = await store.ingest(EDGE, HOME, STREAM, rows[3:], last_seq=10, received_at=at(9))
        assert (done.acked_seq, done.stored, done.duplicates) == (10, 4, 3)
        done = await store.ingest(EDGE, HOME, STREAM, rows[:2], last_seq=2, received_at=at(9))
        assert (done.acked_seq, done.stored, done.duplicates) == (10, 0, 2)
        assert await store.watermark(EDGE, STREAM) == 10
        done = await store.ingest(EDGE, HOME, StreamId("new"), rows, last_seq=10, received_at=at(9))
        assert (done.acked_seq, done.stored, done.duplicates) == (10, 0, 10)
        assert await track(store) == [row.row for row in rows]


async def racing_batches_are_stored_once(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        rows = numbered(*(position_at(n) for n in range(100)))
        answers = await asyncio.gather(
            *(
                store.ingest(EDGE, HOME, STREAM, rows[begin : begin + 50], last_seq=begin + 50, received_at=at(100))
                for begin in (0, 0, 10, 30, 50, 50)
            )
        )
        assert sum(answer.stored for answer in answers) == 100
        assert [answer.acked_seq for answer in answers] == [50, 50, 60, 80, 100, 100]
        assert len(await track(store)) == 100


async def poison_rows_are_quarantined_and_the_rest_is_stored(open_store: Open) -> None:
    foreign_edge, foreign_account = MowerId("of-another-box"), MowerId("of-another-account")
    bad = {
        2: (position_at(1, STRANGER), "unknown-mower"),
        3: (position_at(1, foreign_edge), "foreign-mower"),
        4: (history_at(1, foreign_account), "foreign-mower"),
        5: (position_at(601 + 9), "future"),
        6: (position_at(2, lat=float("nan")), "implausible:position"),
        7: (position_at(3, lat=0.0, lon=0.0), "implausible:position"),
        8: (history_at(4, battery_percent=101), "implausible:battery_percent"),
        9: (history_at(-60 * 365 * 86_400), "implausible:at"),
    }
    rows = [SequencedRow(seq=1, row=position_at(0)), SequencedRow(seq=10, row=history_at(5))]
    rows[1:1] = [SequencedRow(seq=seq, row=row) for seq, (row, _) in bad.items()]
    earlier = [(RejectedRow(seq=11, reason="malformed"), b"\xff not json")]
    async with open_store("a") as store:
        await settle(store)
        await store.put_directory(
            [directory_entry(foreign_edge, edge=EdgeId("another")), directory_entry(foreign_account, OTHER)]
        )
        for stored in (2, 0):
            done = await store.ingest(EDGE, HOME, STREAM, rows, last_seq=11, received_at=at(9), rejected=earlier)
            assert (done.acked_seq, done.stored) == (11, stored)
            if stored:
                found = {fault.seq: fault.reason for fault in done.rejected}
                assert found == {seq: reason for seq, (_, reason) in bad.items()} | {11: "malformed"}
            assert (await store.counts())["quarantine"] == len(bad) + 1
        assert await track(store) == [position_at(0)]
        assert await histories(store) == [history_at(5)]
        assert await track(store, foreign_account, OTHER) == []


async def streams_begin_where_told(open_store: Open) -> None:
    async with open_store("a") as store:
        assert await store.start_stream(EDGE, STREAM, 41) == 41
        assert await store.start_stream(EDGE, STREAM, 7) == 41
        assert await store.watermark(EDGE, STREAM) == 41


async def rows_stay_with_the_account_they_were_written_under(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        await store.ingest(EDGE, HOME, STREAM, numbered(position_at(0)), last_seq=1, received_at=at(9))
        await store.put_directory([directory_entry(MOWER, OTHER)])
        await store.ingest(EDGE, OTHER, STREAM, numbered(position_at(1), first=2), last_seq=2, received_at=at(9))
        assert [row.observed_at for row in await track(store, account=OTHER)] == [at(1)]
        assert [row.observed_at for row in await track(store, account=HOME)] == [at(0)]


INGEST: tuple[Check, ...] = (
    ingest_stores_rows_and_watermark,
    ingest_again_and_overlapping_doubles_nothing,
    racing_batches_are_stored_once,
    poison_rows_are_quarantined_and_the_rest_is_stored,
    streams_begin_where_told,
    rows_stay_with_the_account_they_were_written_under,
)
