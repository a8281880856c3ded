"""Asking the real kernel."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from edge_agent.clock.kernel import ClockQuality, read_boot_id, read_kernel_quality


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="adjtimex is Linux's")
def test_the_kernel_answers() -> None:
    assert read_kernel_quality() in set(ClockQuality)


def test_boot_id(tmp_path: Path) -> None:
    file = tmp_path / "boot_id"
    file.write_text("0b5c1f3e-5c4e-4d3a-9d53-0d7f2f9b8a11\n")
    assert read_boot_id(file, otherwise=lambda: "made") == "0b5c1f3e-5c4e-4d3a-9d53-0d7f2f9b8a11"
    file.write_text("a/b\n")
    assert read_boot_id(file, otherwise=lambda: "made") == "made"
    assert read_boot_id(tmp_path / "none", otherwise=lambda: "made") == "made"
