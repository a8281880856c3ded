"""`mowdeck handover` against a host that plays along: what is asked, what is written, and in which order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.core.command_line.conftest import Terminal
from tests.core.command_line.fake_host import FakeHost, problem

ENTRIES = [
    {"entry_id": "e1", "title": "Shaun"},
    {"entry_id": "e2", "title": "Timmy"},
    {"entry_id": "e3", "title": "Timmy"},
]
MADE = {"bundle_id": "b1", "recipient": "12345 67890", "expires_at": "2026-06-15T08:00:00Z", "bundle": '{"sealed": 1}'}
BUNDLE = {
    "bundle_id": "b1",
    "from_box": "[b]Van",
    "created_at": "2026-06-01T08:00:00Z",
    "expires_at": "2026-06-15T08:00:00Z",
    "entries": [{"domain": "ble", "title": "Shaun", "mowers": ["305"], "needs_pairing": True}],
    "missing": [{"domain": "ble", "reason": "is not there", "remedy": "Run: pip install x"}],
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "garden.mowdeck"


@pytest.fixture
def box(host: FakeHost) -> FakeHost:
    host.answers["GET /config/entries"] = (200, {"items": ENTRIES})
    host.answers["POST /box/handover/exports"] = (201, MADE)
    host.answers["POST /box/handover/checks"] = (200, BUNDLE)
    host.answers["POST /box/handover/imports"] = (201, {"bundle": BUNDLE, "entries": [{"title": "Shaun"}]})
    return host


def test_the_key_is_shown(terminal: Terminal, box: FakeHost):
    box.answers["GET /box/handover/key"] = (200, {"public_key": "AAAA-BBBB", "fingerprint": "12345 67890"})
    shown = terminal.run("handover", "key").stdout
    assert "AAAA-BBBB" in shown
    assert "12345 67890" in shown


def test_an_export_is_written_for_its_owner_only(terminal: Terminal, box: FakeHost, file: Path):
    result = terminal.run("handover", "export", str(file), "--entry", "shaun", "--to", "KEY", stdin="y\n")
    assert result.exit_code == 0, result.output
    assert box.asked("POST /box/handover/exports") == [{"entry_ids": ["e1"], "recipient": "KEY", "days": 14.0}]
    assert file.read_text() == MADE["bundle"]
    assert file.stat().st_mode & 0o777 == 0o600
    assert "two boxes do not fight" in result.stdout.replace("\n", " ")
    assert not any(name.startswith("DELETE") for name, _ in box.requests)


def test_a_no_writes_nothing(terminal: Terminal, box: FakeHost, file: Path):
    result = terminal.run("handover", "export", str(file), "--all", "--remove", "--to", "KEY", stdin="n\n")
    assert result.exit_code == 130
    assert not file.exists()
    assert not any(name.startswith("DELETE") for name, _ in box.requests)


def test_nothing_is_removed_before_the_file_is_there(terminal: Terminal, box: FakeHost, file: Path):
    there: list[bool] = []

    def remove(_: Any) -> tuple[int, None]:
        there.append(file.read_text() == MADE["bundle"])
        return 204, None

    box.answers |= {f"DELETE /config/entries/e{n}": remove for n in (1, 2, 3)}
    made = terminal.ask("handover", "export", str(file), "--all", "--remove", "--to", "KEY")
    assert made["removed"] == ["e1", "e2", "e3"]
    assert there == [True] * 3
    assert "bundle" not in made


def test_nothing_is_removed_when_the_file_cannot_be_written(terminal: Terminal, box: FakeHost, tmp_path: Path):
    (tmp_path / "no-folder").write_text("a file")
    said = terminal.ask(
        "handover", "export", str(tmp_path / "no-folder" / "x"), "--all", "--remove", "--to", "KEY", status=1
    )
    assert said["error"]["code"] == "storage"
    assert not any(name.startswith("DELETE") for name, _ in box.requests)


@pytest.mark.parametrize("words", [("--entry", "Timmy"), ("--entry", "Nobody"), (), ("--all", "--entry", "Shaun")])
def test_it_has_to_be_clear_which(terminal: Terminal, box: FakeHost, file: Path, words: tuple[str, ...]):
    terminal.ask("handover", "export", str(file), *words, "--to", "KEY", status=2)
    assert not file.exists()


def test_a_bundle_is_never_written_over(terminal: Terminal, box: FakeHost, file: Path):
    file.write_text("the last one")
    terminal.ask("handover", "export", str(file), "--all", "--to", "KEY", status=2)
    assert file.read_text() == "the last one"


def test_an_import_shows_first_and_asks(terminal: Terminal, box: FakeHost, file: Path):
    file.write_text(MADE["bundle"])
    result = terminal.run("handover", "import", str(file), stdin="n\n")
    assert "[b]Van" in result.stdout
    assert "pip install x" in result.stdout
    assert box.asked("POST /box/handover/imports") == []
    result = terminal.run("handover", "import", str(file), "--even-if-missing", stdin="y\n")
    assert box.asked("POST /box/handover/imports") == [{"bundle": MADE["bundle"], "even_if_missing": True}]
    assert "Pair anew" in result.stdout


def test_refusals_come_through(terminal: Terminal, box: FakeHost, file: Path):
    file.write_bytes(b"\xff\xfe")
    assert terminal.ask("handover", "import", str(file), status=2)["error"]["code"] == "invalid-input"
    terminal.ask("handover", "import", str(file.with_name("none")), status=2)
    file.write_text(MADE["bundle"])
    box.answers["POST /box/handover/imports"] = (409, problem("conflict", "was imported here at noon"))
    assert "at noon" in terminal.ask("handover", "import", str(file), status=1)["error"]["detail"]
