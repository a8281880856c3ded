"""`mowdeck track export`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.command_line.track import choose_format, moment, write_whole
from core.domain.errors import InvalidInputError, StorageError, UnavailableError
from tests.core.command_line.conftest import Terminal
from tests.core.command_line.fake_host import FakeHost, problem

POSITIONS = "GET /telemetry/mowers/01abc/positions"


def test_a_track_becomes_a_file(terminal: Terminal, host: FakeHost, tmp_path: Path) -> None:
    host.answers[POSITIONS] = (200, "observed_at,lat\r\n")
    output = tmp_path / "a.csv"
    found = terminal.ask("track", "export", "Shaun", "-o", str(output), "--from", "2026-06-01T08:00:00Z")
    assert found == {"file": str(output), "format": "csv", "bytes": 17}
    assert output.read_bytes() == b"observed_at,lat\r\n"
    assert "Shaun" in terminal.run("track", "export", "Shaun", "-o", str(output)).stdout


def test_a_token_that_no_longer_holds_is_renewed(terminal: Terminal, host: FakeHost, tmp_path: Path) -> None:
    host.answers[POSITIONS] = (200, "x")

    def forget(_: object) -> tuple[int, object]:
        host.valid.clear()
        return 200, {"items": [{"mower_id": "01abc", "name": "Shaun", "setup_error": None}]}

    host.answers["GET /fleet/mowers"] = forget
    assert terminal.ask("track", "export", "Shaun", "-o", str(tmp_path / "a.gpx"))["bytes"] == 1


@pytest.mark.parametrize(("answer", "status"), [((422, problem("invalid-input", "no")), 2), ((0, None), 4)])
def test_what_goes_wrong_leaves_the_old_file(
    terminal: Terminal, host: FakeHost, tmp_path: Path, answer: tuple[int, object], status: int
) -> None:
    host.answers[POSITIONS] = answer
    output = tmp_path / "out" / "a.gpx"
    output.parent.mkdir()
    output.write_text("old", encoding="utf-8")
    assert terminal.run("track", "export", "Shaun", "-o", str(output)).exit_code == status
    assert output.read_text(encoding="utf-8") == "old"
    assert [path.name for path in output.parent.iterdir()] == ["a.gpx"]


def test_half_a_file_never_appears(tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise UnavailableError("broke off")

    with pytest.raises(UnavailableError):
        write_whole(tmp_path / "a.csv", pieces())
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(StorageError):
        write_whole(tmp_path / "no" / "such" / "a.csv", iter([b"x"]))


def test_formats_and_times() -> None:
    assert choose_format(None, Path("a.GPX")) == "gpx"
    assert choose_format("csv", Path("a.gpx")) == "csv"
    assert moment("--from", "2026-06-01T10:00:00+02:00").isoformat() == "2026-06-01T08:00:00+00:00"
    with pytest.raises(InvalidInputError):
        choose_format(None, Path("a.kml"))
    with pytest.raises(InvalidInputError):
        moment("--from", "yesterday")
