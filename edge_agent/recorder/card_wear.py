"""What this process has written to the card, and how long the card lasts at that rate.

Bytes are the kernel's: `write_bytes` less `cancelled_write_bytes` of /proc/self/io, whole pages that this process sent
to a disk, its log included (none on a memory file system). What the card adds inside itself no host can see: the
endurance that a vendor states (TBW) contains it for his own pattern of writes, not for ours.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from core.storage.commit_counts import CommitCounts

DAY_S = 86_400.0
YEAR_DAYS = 365.25
SETTLED_S = 3_600.0
"""A rate is said after this time: the start writes more than a day's share."""
DEFAULT_CYCLES = 300
"""Whole overwrites that a card whose maker says nothing is taken to bear. An assumption, and named so wherever it is
used: makers of consumer cards state none."""


class WearStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Since the start of the process. Unknown is None."""

    seconds: float
    written_bytes: int | None = None
    stored_bytes: int = 0
    """What the telemetry file grew by in rows, minute by minute (rows let go do not count against it)."""
    write_amplification: float | None = None
    """Bytes written for each byte stored."""
    commits: int = 0
    prompt_syncs: int = 0
    timed_syncs: int = 0
    failed_syncs: int = 0
    bytes_per_day: float | None = None
    card_endurance_bytes: int | None = None
    is_endurance_assumed: bool = False
    """Nobody has said what the card bears: 300 whole overwrites of its file system are assumed."""
    expected_life_years: float | None = None
    """Of a new card at this rate."""


def read_written_bytes(path: Path = Path("/proc/self/io")) -> int | None:
    """Bytes that this process has sent to disks; None where the kernel does not say."""
    try:
        fields = dict(line.split(": ", 1) for line in path.read_text(encoding="ascii").splitlines())
        return int(fields["write_bytes"]) - int(fields["cancelled_write_bytes"])
    except (OSError, ValueError, KeyError):
        return None


class CardWear:
    """`note_used` is told the bytes in use after each look at the file; `status` says the rest."""

    def __init__(
        self,
        *,
        monotonic: Callable[[], float],
        endurance_bytes: int | None,
        read_written: Callable[[], int | None] = read_written_bytes,
    ) -> None:
        """`endurance_bytes` is what the setting says of the card, None when it says nothing."""
        self._monotonic = monotonic
        self._endurance_bytes = endurance_bytes
        self._read_written = read_written
        self._begun_s = monotonic()
        self._begun_bytes = read_written()
        self._used_bytes: int | None = None
        self._stored_bytes = 0

    def note_used(self, used_bytes: int) -> None:
        """The rows take that much now."""
        if self._used_bytes is not None:
            self._stored_bytes += max(0, used_bytes - self._used_bytes)
        self._used_bytes = used_bytes

    def status(self, counts: CommitCounts, *, disk_bytes: int | None) -> WearStatus:
        """With the writer's counts and the size of the file system."""
        seconds = self._monotonic() - self._begun_s
        now = self._read_written()
        written = None if now is None or self._begun_bytes is None else max(0, now - self._begun_bytes)
        rate = written / seconds * DAY_S if written is not None and seconds >= SETTLED_S else None
        endurance = self._endurance_bytes
        if endurance is None and disk_bytes is not None:
            endurance = disk_bytes * DEFAULT_CYCLES
        return WearStatus(
            seconds=seconds,
            written_bytes=written,
            stored_bytes=self._stored_bytes,
            write_amplification=round(written / self._stored_bytes, 2) if written and self._stored_bytes else None,
            commits=counts.commits,
            prompt_syncs=counts.prompt_syncs,
            timed_syncs=counts.timed_syncs,
            failed_syncs=counts.failed_syncs,
            bytes_per_day=rate,
            card_endurance_bytes=endurance,
            is_endurance_assumed=self._endurance_bytes is None and endurance is not None,
            expected_life_years=None if not rate or endurance is None else round(endurance / rate / YEAR_DAYS, 1),
        )
