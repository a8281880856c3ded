"""A box on a disk that is really full (a small memory file system, filled by a foreign file): it goes on recording in
memory, obeys, says so, and writes everything once there is room again.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.edge_agent.whole_box import PASSWORD, Person, running_box, settings_for, until

pytestmark = pytest.mark.timeout(90)

SIZE = "24m"


@pytest.fixture
def card(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own, ended by the test."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root on Linux can mount a small disk")
    folder = tmp_path / "card"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"no small disk can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True, capture_output=True)


def fill(card: Path) -> Path:
    """The foreign file that takes the last byte."""
    foreign = card / "films"
    with foreign.open("ab", buffering=0) as file:
        for size in (1 << 20, 4_096, 1):
            try:
                while True:
                    if file.write(b"x" * size) < size:
                        break
            except OSError:
                continue
    assert shutil.disk_usage(card).free == 0
    return foreign


async def status(person: Person) -> dict[str, Any]:
    return dict(await person.ask("GET", "/box/status"))


async def test_a_full_card_stops_neither_recording_nor_commands(card: Path) -> None:
    async with running_box(settings_for(card / "box")) as box:
        anna = await box.person().register()
        mower_id = (await anna.add_simulator())["mower_id"]
        assert (await anna.command(mower_id, "start_mow"))["status"] == "executed"
        foreign = fill(card)

        async def is_full() -> bool:
            recorder = (await status(anna))["recorder"]
            return not recorder["is_recording"] and recorder["waiting_rows"] > 0

        await until(is_full)
        said = await status(anna)
        assert any("in memory" in problem for problem in said["problems"])
        # stopped and sent home although neither order nor result can be written
        stopped = await anna.command(mower_id, "emergency_stop")
        assert stopped["status"] == "executed"
        home = await anna.command(mower_id, "return_to_dock")
        assert home["status"] in {"executed", "rejected", "failed"}
        assert (await anna.state(mower_id)) is not None
        # who is signed in stays so; a new sign-in could not be written, so it could not be ended either
        body = {"username": "anna", "password": PASSWORD}
        refused = await box.person().ask("POST", "/identity/session", body, status=507)
        assert refused["code"] == "storage-full"
        waited = (await status(anna))["recorder"]["waiting_rows"]
        assert waited > 0
        foreign.unlink()

        async def is_recorded() -> bool:
            recorder = (await status(anna))["recorder"]
            return recorder["is_recording"] and recorder["failure"] is None

        await until(is_recorded)
        assert (await status(anna))["recorder"]["dropped_rows"] == 0
        assert (await anna.command(mower_id, "emergency_stop"))["status"] == "executed"
        commands = (await anna.ask("GET", f"/fleet/mowers/{mower_id}/commands"))["items"]
        ids = [one["command_id"] for one in commands]
        assert len(ids) == len(set(ids)) == 4
        assert {stopped["command_id"], home["command_id"]} <= set(ids)
        await box.person().sign_in()
    with closing(sqlite3.connect(card / "box" / "telemetry.sqlite3")) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        transitions = database.execute(
            "SELECT command_id, status FROM command_timeline WHERE command_id = ?", (stopped["command_id"],)
        ).fetchall()
        assert transitions
        assert len(transitions) == len(set(transitions))  # written late, and once
    with closing(sqlite3.connect(card / "box" / "people.sqlite3")) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
