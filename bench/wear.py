"""Bytes that a mower-day writes to a card: a day as fast as it goes, on a real file, each second's commit synced.

    python -m bench.wear [--json] [--mow-hours N] [--folder PATH]

One mower mows `mow-hours` with a state a second, and stands docked for the rest of the day with a heartbeat every 10 s,
unchanged. Every commit is synced as the box does it in that second, so that the log's pages are written as often. Bytes are the
kernel's (/proc/self/io); the folder must lie on a disk, not on a memory file system.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from bench.recording import ACCOUNT, EDGE, MOWERS, START, make_states
from core.domain.clock import SystemClock
from core.domain.mower import Activity, MowerState
from core.storage.sqlite_store import SqliteTelemetryStore
from core.storage.telemetry_store import DirectoryEntry
from edge_agent.recorder.card_wear import DEFAULT_CYCLES, YEAR_DAYS, read_written_bytes

DAY_S = 86_400
HEARTBEAT_S = 10
CARD_BYTES = 32 * 10**9
MOWER = MOWERS[0]


def make_day(mow_hours: float) -> list[MowerState]:
    """The states of one mower's day."""
    mowing_s = int(mow_hours * 3_600)
    states = [state for mower_id, _, state in make_states(mowing_s * len(MOWERS)) if mower_id == MOWER]
    docked = msgspec.structs.replace(states[-1], activity=Activity.DOCKED, speed_mps=0.0, blades_on=False)
    begin = states[-1].observed_at
    rest = range(HEARTBEAT_S, DAY_S - mowing_s, HEARTBEAT_S)
    return states + [msgspec.structs.replace(docked, observed_at=begin + timedelta(seconds=s)) for s in rest]


async def measure(folder: Path, mow_hours: float) -> dict[str, Any]:
    """Writes the day; bytes, syncs and rows."""
    day = make_day(mow_hours)
    path = folder / "telemetry.sqlite3"
    store = SqliteTelemetryStore(path, clock=SystemClock(), is_journal=True)
    await store.open()
    await store.put_directory([DirectoryEntry(mower_id=MOWER, account_id=ACCOUNT, edge_id=EDGE, name="m")])
    before, begun_s = read_written_bytes(), time.perf_counter()
    for state in day:
        await store.record_states([(MOWER, ACCOUNT, state)], received_at=max(state.observed_at, START))
        await store.journal_head()  # the sync of this second
    counts, rows = store.commit_counts, await store.counts()
    await store.close()
    after = read_written_bytes()
    if before is None or after is None or after == before:
        raise SystemExit("the kernel counts no bytes for this folder: name one on a disk with --folder")
    written = after - before
    return {
        "states": len(day),
        "history_rows": rows["mower_history"],
        "track_rows": rows["mower_positions"],
        "commits": counts.commits,
        "syncs": counts.prompt_syncs + counts.timed_syncs,
        "written_mb_per_mower_day": round(written / 1e6, 1),
        "file_mb": round(path.stat().st_size / 1e6, 2),
        "write_amplification": round(written / path.stat().st_size, 1),
        "years_of_a_32_gb_card": round(CARD_BYTES * DEFAULT_CYCLES / written / YEAR_DAYS, 1),
        "seconds": round(time.perf_counter() - begun_s, 1),
    }


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--mow-hours", type=float, default=4.0)
    parser.add_argument("--folder", type=Path, help="on the disk to be measured; default: the system's temporary one")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        figures = asyncio.run(measure(Path(folder), given.mow_hours))
    if given.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:28} {value}")


if __name__ == "__main__":
    main()
