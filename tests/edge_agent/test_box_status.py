"""What a person is told of the box."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from core.domain.ids import EntryId, MowerId
from edge_agent.box_status import ClockStatus, find_problems, read_disk
from edge_agent.linking.link_desk import LinkView
from edge_agent.recorder.recorder import RecorderStatus
from edge_agent.runtime.door import DoorStatus, Phase
from edge_agent.uplink.facts import UplinkStatus
from tests.fakes.clock import START


def problems(**parts: Any) -> tuple[str, ...]:
    well: dict[str, Any] = {
        "clock": ClockStatus(now=START, is_trusted=True, quality="synchronised"),
        "recorder": RecorderStatus(is_recording=True, waiting_rows=0, dropped_rows=0),
        "link": LinkView(status="linked"),
        "uplink": UplinkStatus(is_online=True, is_emergency_lane_up=True, since=START),
        "mowers": (DoorStatus(entry_id=EntryId("e"), mower_id=MowerId("m"), phase=Phase.ONLINE, since=START),),
        "files": (None, None),
    }
    return find_problems(**{**well, **parts})


def test_all_is_well():
    assert problems() == ()
    assert problems(uplink=None, link=LinkView(status="unlinked"), mowers=()) == ()


def test_each_part_has_its_sentence():
    found = problems(
        clock=ClockStatus(now=START, is_trusted=False, quality="free"),
        recorder=RecorderStatus(is_recording=False, waiting_rows=9, dropped_rows=0, failure="no room"),
        link=LinkView(status="unlinked", problem="refused"),
        uplink=UplinkStatus(is_online=False, is_emergency_lane_up=False, since=START, problem="no route"),
        mowers=(
            DoorStatus(
                entry_id=EntryId("e"),
                mower_id=MowerId("m"),
                phase=Phase.PARKED,
                since=START,
                code="auth-failed",
                detail="wrong pin",
            ),
            DoorStatus(entry_id=EntryId("e"), mower_id=MowerId("n"), phase=Phase.PARKED, since=START, code="entry"),
            DoorStatus(
                entry_id=EntryId("e"), mower_id=MowerId("o"), phase=Phase.WAITING, since=START, code="link-lost"
            ),
        ),
        files=("entries.json was damaged", None),
    )
    words = ("entries.json", "clock", "no room", "refused", "no route", "m waits for a person: wrong pin", "n waits")
    assert len(found) == len(words)
    assert all(word in sentence for word, sentence in zip(words, found, strict=True))


def test_the_size_of_the_database_counts_all_its_files(tmp_path: Path):
    database = tmp_path / "telemetry.sqlite3"
    for name, size in (("telemetry.sqlite3", 100), ("telemetry.sqlite3-wal", 20), ("people.sqlite3", 7)):
        (tmp_path / name).write_bytes(b"x" * size)
    disk = read_disk(database)
    assert disk is not None
    assert disk.database_bytes == 120
    assert 0 < disk.free_bytes <= disk.total_bytes
    assert read_disk(tmp_path / "absent" / "telemetry.sqlite3") is None
