"""A box that is away is an alert of each of its mowers, on the relay only."""

from __future__ import annotations

import pytest

from cloud_relay.edges.box_offline import EVERY_S, BoxOffline
from core.domain.errors import StorageError
from core.domain.ids import AccountId, EdgeId, MowerId
from core.storage.alert_log import AlertLog, Answered
from core.storage.sqlite_store import SqliteTelemetryStore
from core.storage.telemetry_store import DirectoryEntry
from core.telemetry.alert_tracks import DEBOUNCE, AlertKind
from tests.fakes.clock import ManualClock

ANNA, BERT = AccountId("acc-a"), AccountId("acc-b")
BOX = EdgeId("box-a")
FRONT, OTHER = MowerId("front"), MowerId("other")
LONG_S = DEBOUNCE[AlertKind.BOX_OFFLINE].open_s + EVERY_S


class World:
    def __init__(self, store: SqliteTelemetryStore, clock: ManualClock) -> None:
        self.store, self.clock = store, clock
        self.online: dict[EdgeId, bool] = {}
        self.start()

    def start(self) -> None:
        self.watch = BoxOffline(store=self.store, clock=self.clock, is_online=self.online.get)

    async def wait(self, seconds: float) -> None:
        for _ in range(int(seconds / EVERY_S) + 1):
            await self.watch.check()
            self.clock.advance(EVERY_S)

    async def alerts(self, account_id: AccountId = ANNA, mower_id: MowerId = FRONT):
        return await AlertLog(self.store.records).of_mower(account_id, mower_id)


@pytest.fixture
async def world(tmp_path):
    clock = ManualClock()
    store = SqliteTelemetryStore(tmp_path / "relay.db", clock=clock, is_journal=False)
    await store.open()
    await store.put_directory(
        [
            DirectoryEntry(mower_id=FRONT, account_id=ANNA, edge_id=BOX, name="Front"),
            DirectoryEntry(mower_id=OTHER, account_id=BERT, edge_id=EdgeId("box-b"), name="Other"),
        ]
    )
    yield World(store, clock)
    await store.close()


async def test_it_opens_after_its_time_and_closes_when_the_box_is_back(world: World) -> None:
    world.online[BOX] = False
    await world.wait(LONG_S - 2 * EVERY_S)
    assert await world.alerts() == []
    await world.wait(2 * EVERY_S)
    (alert,) = await world.alerts()
    assert (alert.alert.kind, alert.alert.cause, alert.is_open) == (AlertKind.BOX_OFFLINE, BOX, True)
    assert await world.alerts(BERT, OTHER) == []
    world.online[BOX] = True
    await world.wait(60)
    (alert,) = await world.alerts()
    assert alert.alert.closed_why == "recovery"


async def test_a_relay_that_has_just_started_knows_nothing_and_doubles_nothing(world: World) -> None:
    world.online[BOX] = False
    await world.wait(LONG_S)
    before = await world.alerts()
    world.online.clear()
    world.start()
    await world.wait(2 * LONG_S)
    assert await world.alerts() == before
    world.online[BOX] = False
    await world.wait(2 * LONG_S)
    assert await world.alerts() == before
    assert len(before) == 1


async def test_what_a_person_closed_stays_closed_until_the_box_was_back(world: World) -> None:
    world.online[BOX] = False
    await world.wait(LONG_S)
    (alert,) = await world.alerts()
    said = Answered(by="anna", at=world.clock.now())
    await AlertLog(world.store.records).answer(ANNA, FRONT, alert.alert.alert_id, "close", said)
    await world.wait(2 * LONG_S)
    assert [one.is_open for one in await world.alerts()] == [False]
    world.online[BOX] = True
    await world.wait(60)
    world.online[BOX] = False
    await world.wait(LONG_S)
    assert [one.is_open for one in await world.alerts()] == [True, False]


async def test_it_goes_with_its_mower(world: World) -> None:
    world.online[BOX] = False
    await world.wait(LONG_S)
    await world.store.purge_mower(FRONT)
    await world.wait(LONG_S)
    assert (await world.store.counts())["mower_records"] == 0


async def test_a_store_that_fails_delays_it(world: World) -> None:
    world.online[BOX] = False
    await world.store.close()
    with pytest.raises(StorageError):
        await world.watch.check()
    await world.store.open()
    await world.wait(LONG_S)
    assert len(await world.alerts()) == 1
