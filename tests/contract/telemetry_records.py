"""Records: the newest version of each small document, on both hosts, through the journal and the ingest."""

from __future__ import annotations

import itertools
from datetime import timedelta

import msgspec
import pytest

from core.domain import limits
from core.domain.errors import InvalidInputError
from core.domain.ids import AccountId
from core.telemetry.rows import RecordRow
from tests.contract.telemetry_parts import (
    EDGE,
    EVER,
    HOME,
    MOWER,
    OTHER,
    SECOND,
    STRANGER,
    STREAM,
    Check,
    Open,
    RecordingStore,
    at,
    directory_entry,
    journal,
    numbered,
    record,
    record_at,
    settle,
    state_at,
)


async def listed(store: RecordingStore, kind: str = "note", account: AccountId = HOME) -> list[RecordRow]:
    return list((await store.records.list_kind(account, MOWER, kind, *EVER, limit=1_000))[0])


async def the_newest_version_stands_whatever_the_order(open_store: Open) -> None:
    old, new = record_at(0, "k", updated=1, body=b'{"n":1}'), record_at(0, "k", updated=2, body=b'{"n":2}')
    twin = record_at(5, "k", updated=2, body=b'{"n":3}')
    for number, order in enumerate(itertools.permutations([old, new, twin, new])):
        async with open_store(f"s{number}") as store:
            await settle(store)
            for row in order:
                await store.records.put(HOME, [row])
            assert await listed(store) == [twin], "of one instant the larger body stands, on both sides the same"
            assert await store.records.put(HOME, [old, twin]) == []


async def records_are_found_by_key_kind_and_time(open_store: Open) -> None:
    rows = [record_at(n // 2, f"k{n}", updated=20) for n in range(9)]
    async with open_store("a") as store:
        await settle(store)
        stored = await store.records.put(HOME, [*rows, record_at(3, "k1", kind="other", updated=20)])
        assert len(stored) == 10
        assert await store.records.get(HOME, MOWER, "note", "k1") == rows[1]
        assert await store.records.get(HOME, MOWER, "note", "k99") is None
        assert await listed(store, "other") == [record_at(3, "k1", kind="other", updated=20)]
        found, page = await store.records.list_kind(HOME, MOWER, "note", at(1), at(3), limit=10)
        assert (list(found), page.is_truncated) == (rows[2:6], False)
        for newest_first in (False, True):
            pages, (start, end) = [], EVER
            while True:
                found, page = await store.records.list_kind(
                    HOME, MOWER, "note", start, end, limit=3, is_newest_first=newest_first
                )
                pages.append(list(found))
                if not page.is_truncated:
                    break
                assert page.cursor is not None
                start, end = (start, page.cursor) if newest_first else (page.cursor, end)
            got = [row for page_rows in pages for row in page_rows]
            assert got == (rows[::-1] if newest_first else rows)
            assert len(pages) > 1
    async with open_store("a") as store:
        assert await listed(store) == rows


async def a_record_of_another_account_is_as_good_as_absent(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        await store.put_directory([directory_entry(STRANGER, OTHER)])
        rows = [record_at(0, "k"), record_at(0, "k", mower=STRANGER), record_at(0, "k", mower=SECOND)]
        assert await store.records.put(HOME, rows) == [rows[0], rows[2]]
        assert await listed(store, account=OTHER) == []
        assert await store.records.get(OTHER, MOWER, "note", "k") is None
        assert await store.records.get(OTHER, STRANGER, "note", "k") is None


async def what_can_be_no_record_is_refused_whole(open_store: Open) -> None:
    large = b'{"text":"' + b"x" * limits.RECORD_BYTES + b'"}'
    bad = [
        record_at(0, "k/1"),
        record_at(0, "k", kind=""),
        record_at(0, "k", body=b"[1]"),
        record_at(0, "k", body=b'{"a":'),
        record_at(0, "k", body=b'{"a":"\xff"}'),
        record_at(0, "k", body=large),
        record_at(0, "k", updated=700),
        record_at(-60 * 365 * 86_400, "k"),
    ]
    async with open_store("a") as store:
        await settle(store)
        for row in bad:
            with pytest.raises(InvalidInputError):
                await store.records.put(HOME, [record_at(0, "good"), row])
        assert await listed(store) == []


async def listeners_hear_of_what_is_new_once(open_store: Open) -> None:
    heard: list[tuple[AccountId, RecordRow]] = []
    async with open_store("a") as store:
        await settle(store)
        store.records.subscribe(lambda account, rows: heard.extend((account, row) for row in rows))
        first, second = record_at(0, "k", updated=1), record_at(0, "k", updated=2)
        for row in (first, first, second, first):
            await store.records.put(HOME, [row])
        assert heard == [(HOME, first), (HOME, second)]


async def records_age_by_kind_and_go_with_their_mower(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        await store.records.put(HOME, [record_at(n, f"k{n}", updated=9) for n in range(5)])
        await store.records.put(HOME, [record_at(0, "b", kind="blade_change", updated=9)])
        await store.records.put(HOME, [record_at(0, "b", mower=SECOND, updated=9)])
        done = await store.retain(at(3) + limits.RECORD_RETENTION)
        assert done["mower_records"] == 4
        assert [row.key for row in await listed(store)] == ["k3", "k4"]
        assert len(await listed(store, "blade_change")) == 1, "changes of blades are kept for ever"
        await store.purge_mower(MOWER)
        assert (await store.counts())["mower_records"] == 0


async def only_the_newest_version_is_in_the_journal(open_store: Open) -> None:
    async with open_store("a") as store:
        await settle(store)
        await record(store, state_at(0))
        rows = [record_at(0, "k", updated=n) for n in range(3)]
        for row in rows:
            await store.records.put(HOME, [row, record_at(0, "same", updated=0)])
        assert [(item.seq, item.row) for item in (await journal(store))[2:]] == [
            (4, record_at(0, "same", updated=0)),
            (6, rows[2]),
        ]
        await store.acknowledge(6)
        await store.records.put(HOME, rows)
        assert (await store.journal_head()).last_seq == 6, "an older version takes no number"
    async with open_store("a") as store:
        await store.records.put(HOME, [record_at(0, "k", updated=4)])
        assert [item.seq for item in await journal(store, after=6)] == [7]
        assert [item.seq for item in await journal(store, limit=1)] == [1, 2, 4, 7]


async def records_of_a_box_are_merged_and_poison_is_quarantined(open_store: Open) -> None:
    good = [record_at(0, "k", updated=2), record_at(0, "k", updated=1), record_at(1, "l", kind="of-tomorrow")]
    bad = {
        4: (record_at(0, "k", updated=700), "future"),
        5: (record_at(0, "k", body=b"5"), "body:malformed"),
        6: (record_at(0, "k", body=b'{"a":"' + b"x" * limits.RECORD_BYTES + b'"}'), "body:too-large"),
        7: (record_at(0, "no key"), "implausible:key"),
        8: (record_at(0, "k", mower=STRANGER), "unknown-mower"),
    }
    heard: list[RecordRow] = []
    async with open_store("a") as store:
        await settle(store)
        store.records.subscribe(lambda _account, rows: heard.extend(rows))
        rows = numbered(*good, *(row for row, _ in bad.values()))
        done = await store.ingest(EDGE, HOME, STREAM, rows, last_seq=8, received_at=at(9))
        assert {fault.seq: fault.reason for fault in done.rejected} == {seq: why for seq, (_, why) in bad.items()}
        assert (done.stored, done.duplicates, done.acked_seq) == (2, 1, 8)
        assert heard == [good[0], good[2]]
        again = await store.ingest(EDGE, HOME, STREAM, rows[:3], last_seq=8, received_at=at(9))
        assert (again.stored, again.duplicates, again.records) == (0, 3, ())
        assert await listed(store) == [good[0]]
        assert await listed(store, "of-tomorrow") == [good[2]]
        newer = msgspec.structs.replace(good[0], updated_at=at(3), at=at(0) - timedelta(hours=1))
        await store.ingest(EDGE, HOME, STREAM, numbered(newer, first=9), last_seq=9, received_at=at(9))
        assert await listed(store) == [newer]


RECORDS: tuple[Check, ...] = (
    the_newest_version_stands_whatever_the_order,
    records_are_found_by_key_kind_and_time,
    a_record_of_another_account_is_as_good_as_absent,
    what_can_be_no_record_is_refused_whole,
    listeners_hear_of_what_is_new_once,
    records_age_by_kind_and_go_with_their_mower,
)
RECORDS_OF_A_BOX: tuple[Check, ...] = (only_the_newest_version_is_in_the_journal,)
RECORDS_OF_A_RELAY: tuple[Check, ...] = (records_of_a_box_are_merged_and_poison_is_quarantined,)
