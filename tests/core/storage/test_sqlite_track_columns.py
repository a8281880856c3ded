"""A track as columns: page by page, bounded, and only one's own."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from core.domain.errors import InvalidInputError
from core.domain.ids import AccountId, MowerId
from core.domain.mower import Activity, MowerState, Position
from core.storage.sqlite_store import SqliteTelemetryStore
from core.storage.sqlite_track_columns import read_columns
from core.storage.telemetry_store import DirectoryEntry
from tests.fakes.clock import START, ManualClock

HOME, MOWER = AccountId("home"), MowerId("front")
COUNT = 40
END = START + timedelta(hours=1)


def state(second: int) -> MowerState:
    place = Position(lat=48.0 + second * 0.5 / 111_200, lon=11.0)
    at = START + timedelta(seconds=second)
    return MowerState(observed_at=at, activity=Activity.MOWING, blades_on=second % 2 == 0, position=place)


async def test_pages_are_one_track_and_too_much_says_what_fits(tmp_path: Path) -> None:
    store = SqliteTelemetryStore(tmp_path / "telemetry.sqlite3", clock=ManualClock(), is_journal=True)
    await store.open()
    try:
        await store.put_directory([DirectoryEntry(mower_id=MOWER, account_id=HOME, edge_id=None, name="Front")])
        await store.record_states([(MOWER, HOME, state(n)) for n in range(COUNT)], received_at=END)
        database = store._database
        whole = await read_columns(database, HOME, MOWER, START, END, "coverage")
        assert len(whole) == COUNT
        for page in (1, 7, COUNT, COUNT + 1):
            paged = await read_columns(database, HOME, MOWER, START, END, "coverage", page_rows=page)
            assert (paged.at_us, paged.lat_e7) == (whole.at_us, whole.lat_e7)
        with pytest.raises(InvalidInputError) as refused:
            await read_columns(database, HOME, MOWER, START, END, "coverage", most_rows=30, page_rows=7)
        (mistake,) = refused.value.mistakes
        assert mistake.field == "to"
        assert (START + timedelta(seconds=30)).isoformat()[:19] in mistake.reason
        fits = START + timedelta(seconds=30)
        assert len(await read_columns(database, HOME, MOWER, START, fits, "coverage", most_rows=30)) == 30
        assert len(await read_columns(database, AccountId("other"), MOWER, START, END, "coverage")) == 0
    finally:
        await store.close()
