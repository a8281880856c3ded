"""Compares what box and relay have stored, row for row."""

from __future__ import annotations

import sqlite3
from pathlib import Path

COLUMNS = {
    "mower_history": "observed_us, activity, connectivity, battery, is_charging, rtk_fix, rtk_source, blade_height, "
    "blades_on, speed, error_code",
    "mower_positions": "observed_us, lat_e7, lon_e7, heading, accuracy, rtk_fix, rtk_source, blades_on, wifi, mobile, "
    "satellites",
    "command_timeline": "command_id, status, at_us, reason",
}


def rows(database: Path, table: str) -> list[tuple]:
    """All rows of a table, by the mower's own id instead of each database's numbers."""
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        found = connection.execute(
            f"SELECT m.mower_id, {COLUMNS[table]} FROM {table} JOIN mowers m USING (mower_no)"
        ).fetchall()
    connection.close()
    return sorted(found, key=repr)


def quarantined(database: Path) -> int:
    """Rows that the relay would not store."""
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        (count,) = connection.execute("SELECT count(*) FROM quarantine").fetchone()
    connection.close()
    return int(count)


def difference(box: Path, relay: Path) -> dict[str, tuple[int, int]]:
    """Table -> rows only on the box, rows only on the relay; empty when they agree."""
    found = {}
    for table in COLUMNS:
        ours, theirs = rows(box, table), rows(relay, table)
        assert len(set(ours)) == len(ours), f"{table}: doubled on the box"
        assert len(set(theirs)) == len(theirs), f"{table}: doubled on the relay"
        only_box, only_relay = set(ours) - set(theirs), set(theirs) - set(ours)
        if only_box or only_relay:
            found[table] = (len(only_box), len(only_relay))
    return found
