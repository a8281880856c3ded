"""Alerts of a box on a real store: kept over restarts, told at once, and no rule's defect disturbs another."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from core.domain.errors import StorageError
from core.domain.events import AlertClosed, AlertOpened, MowerEvent
from core.domain.ids import AccountId, MowerId
from core.domain.mower import Activity, Connectivity, ErrorClass, MowerError, MowerState, Position
from core.storage.alert_log import AlertLog, Answered, LoggedAlert
from core.storage.sqlite_store import SqliteTelemetryStore
from core.storage.telemetry_store import DirectoryEntry
from core.telemetry.alert_rules import Look, read_error
from core.telemetry.theft import Surroundings
from edge_agent.alerts.watch import AlertWatch
from tests.core.telemetry.alert_world import GARDEN, LIFTED
from tests.fakes.clock import ManualClock

HOME, FRONT = AccountId("home"), MowerId("front")
FAULT = MowerError(code="E7", error_class=ErrorClass.WHEELS)


class Box:
    """A store that lives on, and a watch that can be killed."""

    def __init__(self, store: SqliteTelemetryStore, clock: ManualClock) -> None:
        self.store = store
        self.clock = clock
        self.events: list[MowerEvent] = []
        self.is_clock_right = True
        self.known = {FRONT}
        self.state = MowerState(
            observed_at=clock.now(), activity=Activity.DOCKED, connectivity=Connectivity.ONLINE, battery_percent=80
        )
        self.watch = self.start()

    def start(self, **more: object) -> AlertWatch:
        self.watch = AlertWatch(
            book=self.store.records,
            clock=self.clock,
            account_id=lambda: HOME,
            look=lambda _, state, now, monotonic_s: Look(
                state=state, now=now, monotonic_s=monotonic_s, areas=GARDEN, around=Surroundings(up_s=999)
            ),
            is_known=lambda mower_id: mower_id in self.known,
            is_clock_right=lambda: self.is_clock_right,
            on_event=lambda _, event: self.events.append(event),
            **more,
        )
        return self.watch

    async def look(self, seconds: int = 1, **state: object) -> None:
        self.state = msgspec.structs.replace(self.state, **state)
        for _ in range(seconds):
            self.clock.advance(1)
            self.watch.put(FRONT, msgspec.structs.replace(self.state, observed_at=self.clock.now()))
            await self.watch.tick()

    async def alerts(self) -> list[LoggedAlert]:
        return await AlertLog(self.store.records).of_mower(HOME, FRONT)


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[Box]:
    clock = ManualClock()
    store = SqliteTelemetryStore(tmp_path / "box.db", clock=clock, is_journal=True)
    await store.open()
    await store.put_directory([DirectoryEntry(mower_id=FRONT, account_id=HOME, edge_id=None, name="Front")])
    yield Box(store, clock)
    await store.close()


async def test_an_alert_is_a_journalled_record_and_two_events(box: Box) -> None:
    await box.look(15, activity=Activity.ERROR, error=FAULT)
    (opened,) = await box.alerts()
    assert opened.is_open
    assert opened.alert.cause == "E7"
    journal = await box.store.read_journal(0, 10)
    assert [row.row.kind for row in journal.rows] == ["alert"]
    await box.look(40, activity=Activity.DOCKED, error=None)
    (closed,) = await box.alerts()
    assert closed.alert.closed_why == "recovery"
    assert [type(event) for event in box.events] == [AlertOpened, AlertClosed]


async def test_a_restart_neither_doubles_nor_loses_an_open_alert(box: Box) -> None:
    await box.look(15, activity=Activity.ERROR, error=FAULT)
    before = await box.alerts()
    box.start()
    await box.look(30)
    assert await box.alerts() == before
    box.start()
    await box.look(40, activity=Activity.DOCKED, error=None)
    (closed,) = await box.alerts()
    assert (closed.alert.alert_id, closed.is_open) == (before[0].alert.alert_id, False)
    assert len(box.events) == 2


async def test_a_defect_in_a_rule_disturbs_no_other(box: Box) -> None:
    def broken(look: Look) -> tuple[()]:
        raise RuntimeError("a defect")

    box.start(make_rules=lambda: (broken, read_error))
    await box.look(15, activity=Activity.ERROR, error=FAULT)
    assert len(await box.alerts()) == 1
    assert box.watch.defects == {"broken": 15}


async def test_a_store_that_fails_loses_nothing(box: Box) -> None:
    await box.look()
    real = box.store.records.put

    async def failing(*_: object, **__: object) -> list[object]:
        raise StorageError("the disk is gone")

    box.store.records.put = failing  # type: ignore[assignment, method-assign]  (a disk that fails has no other port)
    await box.look(15, activity=Activity.ERROR, error=FAULT)
    assert await box.alerts() == []
    assert len(box.events) == 1, "people are told all the same"
    box.store.records.put = real  # type: ignore[method-assign]
    await box.look()
    assert len(await box.alerts()) == 1


async def test_nothing_is_dated_by_a_clock_that_is_not_believed(box: Box) -> None:
    box.is_clock_right = False
    await box.look(60, activity=Activity.ERROR, error=FAULT)
    assert box.events == []


async def test_what_a_person_closed_stays_closed_until_it_was_gone(box: Box) -> None:
    await box.look(15, activity=Activity.ERROR, error=FAULT)
    (opened,) = await box.alerts()
    said = Answered(by="anna", at=box.clock.now(), note="on my way")
    log = AlertLog(box.store.records)
    assert await log.answer(HOME, FRONT, opened.alert.alert_id, "close", said)
    assert not await log.answer(HOME, FRONT, opened.alert.alert_id, "close", said), "twice is once"
    await box.look(30)
    (closed,) = await box.alerts()
    assert (closed.alert.closed_why, closed.closed_by) == ("person", said)
    await box.look(40, activity=Activity.DOCKED, error=None)
    await box.look(15, activity=Activity.ERROR, error=FAULT)
    assert [one.is_open for one in await box.alerts()] == [True, False]


async def test_the_track_of_a_mower_with_a_theft_is_held(box: Box) -> None:
    await box.look(5)
    assert box.watch.mowers_with_theft() == frozenset()
    await box.look(15, activity=Activity.ERROR, error=LIFTED)
    assert box.watch.mowers_with_theft() == {FRONT}
    box.start()
    await box.look()
    assert box.watch.mowers_with_theft() == {FRONT}


async def test_a_removed_mower_is_not_looked_at(box: Box) -> None:
    box.known.clear()
    await box.look(15, activity=Activity.ERROR, error=FAULT)
    assert box.events == []


async def test_a_position_that_cannot_be_is_no_evidence(box: Box) -> None:
    await box.look(60, activity=Activity.MOWING, position=Position(lat=0.0, lon=0.0, accuracy_m=0.1))
    assert box.events == []
