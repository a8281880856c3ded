"""What the contract of telemetry stores is written with: a small world, its states and rows, and whole reads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import Any, Protocol

import msgspec

from core.domain.commands import CommandResult, CommandStatus
from core.domain.ids import AccountId, CommandId, EdgeId, MowerId, StreamId
from core.domain.mower import (
    Activity,
    Connectivity,
    MowerState,
    Position,
    RtkFix,
    RtkSource,
    Signals,
)
from core.storage.record_book import RecordBook
from core.storage.telemetry_store import DirectoryEntry, TelemetryStore, Written
from core.telemetry.rows import HistoryRow, PositionRow, RecordRow, SequencedRow, TimelineRow
from tests.fakes.clock import START


class RecordingStore(TelemetryStore, Protocol):
    """A store with its book of records."""

    @property
    def records(self) -> RecordBook: ...


Open = Callable[[str], AbstractAsyncContextManager[RecordingStore]]
Check = Callable[[Open], Awaitable[None]]

HOME, OTHER = AccountId("home"), AccountId("other")
EDGE, STREAM = EdgeId("edge"), StreamId("stream")
MOWER, SECOND, STRANGER = MowerId("mower"), MowerId("second"), MowerId("stranger")
EVER = (START - timedelta(days=4_000), START + timedelta(days=4_000))


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def state_at(seconds: float, *, north: float = 0.0, east: float = 0.0, **changes: Any) -> MowerState:
    """A mowing mower `north` and `east` whole 1e-7 degrees away from its dock."""
    fields: dict[str, Any] = {
        "observed_at": at(seconds),
        "activity": Activity.MOWING,
        "connectivity": Connectivity.ONLINE,
        "battery_percent": 80,
        "is_charging": False,
        "position": Position(lat=48.0 + north / 1e7, lon=11.0 + east / 1e7, heading_deg=90.0, accuracy_m=0.014),
        "rtk_fix": RtkFix.FIXED,
        "rtk_source": RtkSource.BASE,
        "satellites": 25,
        "speed_mps": 0.35,
        "blades_on": True,
        "signals": Signals(wifi_dbm=-60),
    }
    return MowerState(**(fields | changes))


def result_at(seconds: float, command: str, status: CommandStatus, mower: MowerId = MOWER) -> TimelineRow:
    return TimelineRow(
        result=CommandResult(command_id=CommandId(command), mower_id=mower, status=status, at=at(seconds))
    )


def directory_entry(
    mower: MowerId = MOWER, account: AccountId = HOME, edge: EdgeId | None = EDGE, *, is_seed: bool = False
) -> DirectoryEntry:
    return DirectoryEntry(mower_id=mower, account_id=account, edge_id=edge, name=f"{mower}'s name", is_seed=is_seed)


async def settle(store: TelemetryStore) -> None:
    """The directory that most checks start from."""
    await store.put_directory([directory_entry(MOWER), directory_entry(SECOND)])


async def record(store: TelemetryStore, *states: MowerState, mower: MowerId = MOWER) -> list[Written]:
    """Each state in a call of its own, received when it was observed."""
    return [
        written
        for state in states
        for written in await store.record_states([(mower, HOME, state)], received_at=state.observed_at)
    ]


def made(written: Sequence[Written]) -> list[tuple[bool, bool, bool]]:
    return [(w.latest, w.history, w.position) for w in written]


async def histories(store: TelemetryStore, mower: MowerId = MOWER, account: AccountId = HOME) -> list[HistoryRow]:
    return list((await store.history(account, mower, *EVER, limit=100_000))[0])


async def track(store: TelemetryStore, mower: MowerId = MOWER, account: AccountId = HOME) -> list[PositionRow]:
    return list((await store.positions(account, mower, *EVER, limit=100_000))[0])


async def journal(store: TelemetryStore, after: int = 0, limit: int = 1_000) -> list[SequencedRow]:
    """All rows after a number, slice by slice; the slices join without a gap."""
    rows: list[SequencedRow] = []
    while True:
        part = await store.read_journal(after, limit)
        assert part.first_seq == after + 1
        assert len(part.rows) <= limit
        assert all(part.first_seq <= row.seq <= part.last_seq for row in part.rows)
        rows += part.rows
        if part.last_seq <= after:
            return rows
        after = part.last_seq


def numbered(*rows: Any, first: int = 1) -> list[SequencedRow]:
    return [SequencedRow(seq=seq, row=row) for seq, row in enumerate(rows, first)]


def history_at(seconds: float, mower: MowerId = MOWER, **changes: Any) -> HistoryRow:
    row = HistoryRow(
        mower_id=mower, observed_at=at(seconds), activity=Activity.MOWING, connectivity=Connectivity.ONLINE
    )
    return msgspec.structs.replace(row, **changes)


def position_at(seconds: float, mower: MowerId = MOWER, **changes: Any) -> PositionRow:
    return msgspec.structs.replace(PositionRow(mower_id=mower, observed_at=at(seconds), lat=48.0, lon=11.0), **changes)


def record_at(
    seconds: float,
    key: str,
    *,
    kind: str = "note",
    updated: float = 0.0,
    body: bytes = b'{"text":"grass"}',
    mower: MowerId = MOWER,
) -> RecordRow:
    return RecordRow(mower_id=mower, kind=kind, key=key, at=at(seconds), updated_at=at(updated), body=body)
