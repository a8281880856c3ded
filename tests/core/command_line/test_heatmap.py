"""`mowdeck heatmap`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.command_line.conftest import Terminal
from tests.core.command_line.fake_host import FakeHost, problem

PATH = "GET /telemetry/mowers/01abc/heatmap"


def test_a_heatmap_becomes_a_file(terminal: Terminal, host: FakeHost, tmp_path: Path) -> None:
    host.answers[PATH] = (200, "picture")
    output = tmp_path / "a.png"
    found = terminal.ask("heatmap", "Shaun", "-o", str(output), "--layer", "rtk", "--cell", "2", "--from", "2026-06-01")
    assert found == {"file": str(output), "layer": "rtk", "format": "png", "bytes": 7}
    assert output.read_bytes() == b"picture"
    assert "coverage of Shaun" in terminal.run("heatmap", "Shaun", "-o", str(tmp_path / "a.json")).stdout


@pytest.mark.parametrize(
    "wrong", [("-o", "a.gif"), ("-o", "a.png", "--layer", "grass"), ("-o", "a.png", "--to", "soon")]
)
def test_what_is_refused_before_anything_is_asked(terminal: Terminal, host: FakeHost, wrong: tuple[str, ...]) -> None:
    assert terminal.run("heatmap", "Shaun", *wrong).exit_code == 2


def test_what_the_host_refuses(terminal: Terminal, host: FakeHost, tmp_path: Path) -> None:
    host.answers[PATH] = (422, problem("invalid-input", "no"))
    assert terminal.run("heatmap", "Shaun", "-o", str(tmp_path / "a.png")).exit_code == 2
    assert not list(tmp_path.glob("*a.png*"))
