"""What people enter about a mower on the relay reaches its box with the registrations."""

from __future__ import annotations

from datetime import timedelta

import pytest

from cloud_relay.fleet.entered_records import NEWEST, EnteredRecords
from cloud_relay.fleet.registrations import Registrar
from cloud_relay.fleet.views import NewMower
from core.domain.errors import StorageError
from core.storage.alert_log import AlertLog, Answered
from core.storage.sqlite_store import SqliteTelemetryStore
from core.sync.messages import Registrations, decode, encode
from core.telemetry.blades import BLADE_CARE, BLADE_CHANGE, BladeCare, BladeChange
from edge_agent.household.gardens import Gardens


@pytest.fixture
async def store(parts, tmp_path):
    store = SqliteTelemetryStore(tmp_path / "telemetry.db", clock=parts.clock, is_journal=False)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def registrar(parts, store):
    return Registrar(
        database=parts.database,
        clock=parts.clock,
        publish=parts.broker.publish_registrations,
        entered=EnteredRecords(store.records),
    )


@pytest.fixture
async def box(parts):
    return await parts.link(await parts.person("acc-a"))


@pytest.fixture
async def mower_id(parts, store, box):
    new = NewMower(name="Shaun", edge_id=box.edge_id, domain="simulator")
    site_id = await parts.mowers.edge_site(box.account_id, box.edge_id)
    mower_id = await parts.mowers.create(box.account_id, new, site_id)
    await store.put_directory(list(parts.store.entries.values()))
    return mower_id


def changes(parts, mower_id, count):
    now = parts.clock.now()
    return [
        BLADE_CHANGE.make(mower_id, f"c{n}", BladeChange(by="anna"), at=now - timedelta(days=count - n), updated_at=now)
        for n in range(count)
    ]


async def test_the_newest_entries_go_to_the_box_of_the_mower(parts, store, registrar, box, mower_id, tmp_path):
    now = parts.clock.now()
    interval = BLADE_CARE.make(mower_id, "interval", BladeCare(interval_h=50), at=now, updated_at=now)
    made = changes(parts, mower_id, NEWEST + 2)
    await store.records.put(box.account_id, [*made, interval])
    await registrar.publish_entered(box.account_id, mower_id)
    sent = decode(encode(parts.broker.registrations[box.edge_id]), Registrations)
    (registration,) = sent.mowers
    assert [entered.key for entered in registration.entered] == ["c4", "c3", "c2", "interval"]

    on_box = SqliteTelemetryStore(tmp_path / "box.db", clock=parts.clock, is_journal=True)
    await on_box.open()
    try:
        await on_box.put_directory(list(parts.store.entries.values()))
        for _ in range(2):
            await Gardens("UTC").take(sent, on_box.records, lambda: box.account_id)
        for row in (*made[2:], interval):
            assert await on_box.records.get(box.account_id, mower_id, row.kind, row.key) == row
        assert (await on_box.journal_head()).last_seq == 4, "to the byte the same, so nothing goes round in circles"
    finally:
        await on_box.close()


async def test_an_answer_to_an_alert_reaches_the_box_and_is_the_same_on_both_sides(
    parts, store, registrar, box, mower_id, tmp_path
):
    said = Answered(by="anna", at=parts.clock.now(), note="on my way")
    assert await AlertLog(store.records).answer(box.account_id, mower_id, "a1", "ack", said)
    await registrar.publish_entered(box.account_id, mower_id)
    sent = decode(encode(parts.broker.registrations[box.edge_id]), Registrations)
    on_box = SqliteTelemetryStore(tmp_path / "box.db", clock=parts.clock, is_journal=True)
    await on_box.open()
    try:
        await on_box.put_directory(list(parts.store.entries.values()))
        await Gardens("UTC").take(sent, on_box.records, lambda: box.account_id)
        here, there = [
            await book.get(box.account_id, mower_id, "alert_answer", "a1-ack")
            for book in (store.records, on_box.records)
        ]
        assert here is not None
        assert here == there
        again = Answered(by="bert", at=parts.clock.now(), note="me too")
        assert not await AlertLog(on_box.records).answer(box.account_id, mower_id, "a1", "ack", again)
    finally:
        await on_box.close()


async def test_an_entry_while_the_broker_is_away_leaves_at_the_next_chance(parts, store, registrar, box, mower_id):
    await store.records.put(box.account_id, changes(parts, mower_id, 1))
    parts.broker.is_away = True
    await registrar.publish_entered(box.account_id, mower_id)
    parts.broker.is_away = False
    await registrar.on_broker_connected()
    (registration,) = parts.broker.registrations[box.edge_id].mowers
    assert [entered.key for entered in registration.entered] == ["c0"]


async def test_a_store_that_fails_keeps_no_registration_from_a_box(parts, store, registrar, box, mower_id):
    await store.close()
    with pytest.raises(StorageError):
        await store.records.put(box.account_id, changes(parts, mower_id, 1))
    await registrar.publish_entered(box.account_id, mower_id)
    (registration,) = parts.broker.registrations[box.edge_id].mowers
    assert registration.entered == ()


async def test_a_mower_that_is_not_there_is_nobodys(parts, registrar, mower_id):
    before = dict(parts.broker.registrations)
    await registrar.publish_entered("acc-a", "unknown")
    assert parts.broker.registrations == before
