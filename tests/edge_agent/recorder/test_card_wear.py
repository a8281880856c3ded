"""Bytes and syncs, and what they mean for a card."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.storage.commit_counts import CommitCounts
from edge_agent.recorder.card_wear import DEFAULT_CYCLES, CardWear, read_written_bytes
from tests.fakes.clock import ManualClock


def test_the_life_of_a_card_at_the_rate_of_the_day() -> None:
    clock, written = ManualClock(), [1_000]
    wear = CardWear(monotonic=clock.monotonic, endurance_bytes=365_250_000_000, read_written=lambda: written[0])
    counts = CommitCounts(commits=9, prompt_syncs=2, timed_syncs=7)
    clock.advance(3_599)
    early = wear.status(counts, disk_bytes=None)
    assert (early.bytes_per_day, early.expected_life_years, early.write_amplification) == (None, None, None)
    clock.advance(86_400 - 3_599)
    written[0] += 50_000_000
    for used in (10, 20_000_010, 15_000_000, 20_000_000):
        wear.note_used(used)
    status = wear.status(counts, disk_bytes=10**9)
    assert status.written_bytes == 50_000_000
    assert status.stored_bytes == 25_000_000
    assert status.write_amplification == 2.0
    assert status.bytes_per_day == pytest.approx(50_000_000)
    assert status.expected_life_years == 20.0
    assert not status.is_endurance_assumed
    assert (status.commits, status.prompt_syncs, status.timed_syncs, status.failed_syncs) == (9, 2, 7, 0)


def test_an_assumed_endurance_is_said_to_be_one() -> None:
    wear = CardWear(monotonic=ManualClock().monotonic, endurance_bytes=None, read_written=lambda: 0)
    status = wear.status(CommitCounts(), disk_bytes=32 * 10**9)
    assert status.is_endurance_assumed
    assert status.card_endurance_bytes == DEFAULT_CYCLES * 32 * 10**9
    assert wear.status(CommitCounts(), disk_bytes=None).card_endurance_bytes is None


def test_a_kernel_that_does_not_say_leaves_it_unknown(tmp_path: Path) -> None:
    clock = ManualClock()
    wear = CardWear(monotonic=clock.monotonic, endurance_bytes=10**12, read_written=lambda: None)
    clock.advance(86_400)
    status = wear.status(CommitCounts(), disk_bytes=10**9)
    assert (status.written_bytes, status.bytes_per_day, status.expected_life_years) == (None, None, None)
    assert read_written_bytes(tmp_path / "none") is None
    (tmp_path / "io").write_text("rchar: 1\nwrite_bytes: 9000\ncancelled_write_bytes: 1000\n", encoding="ascii")
    assert read_written_bytes(tmp_path / "io") == 8_000
