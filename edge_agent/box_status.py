"""How the box is, in one answer for people, the command line and the web app."""

from __future__ import annotations

import shutil
from datetime import datetime
from pathlib import Path

import msgspec

from edge_agent.linking.link_desk import LinkView
from edge_agent.recorder.recorder import RecorderStatus
from edge_agent.recorder.storage_care import StorageStatus
from edge_agent.runtime.door import DoorStatus
from edge_agent.uplink.facts import UplinkStatus


class ClockStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What the box knows of the time. `skew_s` is the relay's clock minus ours."""

    now: datetime
    is_trusted: bool
    quality: str
    skew_s: float | None = None


class DiskStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of the disk that holds the data, and of the telemetry database itself."""

    total_bytes: int
    free_bytes: int
    database_bytes: int


class BoxStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The box as a whole."""

    name: str
    version: str
    boot_id: str
    started_at: datetime
    clock: ClockStatus
    disk: DiskStatus | None
    recorder: RecorderStatus
    storage: StorageStatus = StorageStatus()
    link: LinkView
    uplink: UplinkStatus | None
    mowers: tuple[DoorStatus, ...]
    problems: tuple[str, ...] = ()
    """Sentences for a person; empty when all is well."""


def read_disk(database: Path) -> DiskStatus | None:
    """None when the disk cannot be asked."""
    try:
        usage = shutil.disk_usage(database.parent)
        size = sum(file.stat().st_size for file in database.parent.glob(f"{database.name}*") if file.is_file())
    except OSError:
        return None
    return DiskStatus(total_bytes=usage.total, free_bytes=usage.free, database_bytes=size)


def find_problems(
    *,
    clock: ClockStatus,
    recorder: RecorderStatus,
    link: LinkView,
    uplink: UplinkStatus | None,
    mowers: tuple[DoorStatus, ...],
    files: tuple[str | None, ...],
    storage: tuple[str, ...] = (),
) -> tuple[str, ...]:
    """What a person should know of, in words. `files` are problems of files found at start."""
    found = [problem for problem in files if problem]
    if not clock.is_trusted:
        found.append("The clock is not synchronised yet: records wait in memory until it is.")
    if recorder.failure is not None:
        found.append(f"Records cannot be written ({recorder.failure}); the newest are kept in memory.")
    found += storage
    if link.problem is not None:
        found.append(f"Link to the relay: {link.problem}.")
    if uplink is not None and not uplink.is_online and uplink.problem is not None:
        found.append(f"The relay cannot be reached: {uplink.problem}.")
    for door in mowers:
        if door.phase == "parked":
            found.append(f"A link of mower {door.mower_id} waits for a person: {door.detail or door.code}.")
    return tuple(found)
