"""`mowdeck edge ...`: the process with its exit statuses, and the commands that ask a box."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.core.command_line.conftest import Terminal
from tests.core.command_line.fake_host import FakeHost, fake_host, problem
from tests.fakes.mosquitto import free_port

pytestmark = pytest.mark.timeout(60)


# -- mowdeck edge run


def start(folder: Path, **settings: str) -> subprocess.Popen[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("MOWDECK_")}
    given = {"data_dir": str(folder), "listen_port": "0", "announce": "false", "trust_clock": "true", **settings}
    return subprocess.Popen(
        [sys.executable, "-m", "core.command_line", "edge", "run"],
        env={**kept, **{f"MOWDECK_EDGE_{name.upper()}": value for name, value in given.items()}},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, list[str]]:
    """Exit status and the lines of `mowdeck edge: ...` on stderr; nothing else may look like a crash."""
    try:
        _, said = process.communicate(timeout=30)
    finally:
        process.kill()
    assert "Traceback" not in said
    return process.returncode, [line for line in said.splitlines() if line.startswith("mowdeck edge: ")]


def address_of(folder: Path, process: subprocess.Popen[str]) -> dict[str, Any]:
    deadline = time.monotonic() + 30
    while not (folder / "edge.address").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return dict(json.loads((folder / "edge.address").read_text()))


def test_wrong_settings_are_all_listed(tmp_path: Path):
    status, lines = ended(start(tmp_path, listen_port="many", log_level="loud", histroy_days="7"))
    assert status == 2
    assert len(lines) == 3
    said = "\n".join(lines)
    for name in ("MOWDECK_EDGE_LISTEN_PORT: ", "MOWDECK_EDGE_LOG_LEVEL: ", "MOWDECK_EDGE_HISTROY_DAYS: "):
        assert name in said
    assert "did you mean MOWDECK_EDGE_HISTORY_DAYS?" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_a_signal_and_ends_well(tmp_path: Path, number: signal.Signals):
    process = start(tmp_path)
    try:
        address = address_of(tmp_path, process)
        assert address["pid"] == process.pid
        assert httpx.get(f"{address['url']}/health").json()["status"] == "ok"
        process.send_signal(number)
        assert ended(process) == (0, [])
    finally:
        process.kill()
    assert not (tmp_path / "edge.address").exists()


def test_a_busy_port_or_folder_is_one_line(tmp_path: Path):
    first = start(tmp_path / "one")
    try:
        port = address_of(tmp_path / "one", first)["url"].rsplit(":", 1)[1]
        status, (line,) = ended(start(tmp_path / "two", listen_port=port))
        assert (status, "MOWDECK_EDGE_LISTEN_PORT" in line, port in line) == (2, True, True)
        status, (line,) = ended(start(tmp_path / "one"))
        assert (status, "another box runs on" in line) == (2, True)
        assert first.poll() is None
    finally:
        first.kill()
        first.communicate()


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path):
    (tmp_path / "file").touch()
    status, (line,) = ended(start(tmp_path / "file" / "data"))
    assert (status, "file" in line) == (2, True)


def test_an_address_file_that_cannot_be_written_keeps_no_box_from_serving(tmp_path: Path):
    """As on a full disk: the household must still be able to stop its mowers."""
    (tmp_path / "edge.address").mkdir()
    port = free_port()
    process = start(tmp_path, listen_port=str(port))
    try:
        deadline = time.monotonic() + 30
        while True:
            try:
                assert httpx.get(f"http://127.0.0.1:{port}/health", timeout=5).status_code == 200
                break
            except httpx.TransportError:
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
    finally:
        status, lines = ended(process)
    assert (status, lines) == (0, [])


# -- mowdeck edge add and status


@pytest.fixture
def host() -> Iterator[FakeHost]:
    with fake_host() as running:
        yield running


@pytest.fixture
def terminal(tmp_path: Path, host: FakeHost) -> Terminal:
    host.sign_in(tmp_path)
    return Terminal(tmp_path, host)


FLOW = "POST /config/flows/f1"
END = "DELETE /config/flows/f1"
FIELDS = [{"name": "name", "type": "string", "required": True}, {"name": "seed", "type": "integer", "required": True}]


def form(**errors: str) -> dict[str, Any]:
    return {"flow_id": "f1", "result": {"type": "form", "fields": FIELDS, "errors": errors}}


def play(host: FakeHost, *steps: Any) -> None:
    """The flow begins with a form; every answer to it gets the next step."""
    left = list(steps)
    host.answers["POST /config/flows"] = (201, form())
    host.answers[FLOW] = lambda _: left.pop(0)
    host.answers[END] = (204, None)


def test_an_integration_is_added(terminal: Terminal, host: FakeHost):
    play(host, (200, {"flow_id": "f1", "result": {"type": "create_entry", "title": "[b]Shaun", "entry_id": "e1"}}))
    result = terminal.run("edge", "add", "simulator", "name=Shaun", "seed=7")
    assert (result.exit_code, result.stdout) == (0, "Added: [b]Shaun.\n")
    assert host.asked("POST /config/flows") == [{"domain": "simulator"}]
    assert host.asked(FLOW) == [{"user_input": {"name": "Shaun", "seed": 7}}]
    assert host.asked(END) == []


def test_an_abort_says_why(terminal: Terminal, host: FakeHost):
    play(host, (200, {"flow_id": "f1", "result": {"type": "abort", "reason": "already_configured"}}))
    result = terminal.run("edge", "add", "simulator", "seed=7")
    assert (result.exit_code, result.stdout) == (1, "Not added: already_configured.\n")


def test_what_the_form_refuses_ends_the_flow(terminal: Terminal, host: FakeHost):
    play(host, (200, form(seed="already_taken")))
    said = terminal.ask("edge", "add", "simulator", "seed=7", status=2)
    assert said["error"]["mistakes"] == [{"field": "seed", "reason": "already_taken"}]
    assert len(host.asked(END)) == 1


@pytest.mark.parametrize("answer", [(404, problem("not-found", "no such flow")), (0, None)])
def test_the_first_error_counts_even_when_the_flow_cannot_be_ended(terminal: Terminal, host: FakeHost, answer: Any):
    play(host, (409, problem("conflict", "not now")))
    host.answers[END] = answer
    assert terminal.ask("edge", "add", "simulator", "seed=7", status=1)["error"]["detail"] == "not now"
    assert len(host.asked(END)) >= 1


def test_a_word_that_fits_no_field(terminal: Terminal, host: FakeHost):
    play(host)
    said = terminal.ask("edge", "add", "simulator", "sede=7", status=2)
    assert said["error"]["mistakes"][0]["field"] == "sede"
    assert len(host.asked(END)) == 1


STATUS: dict[str, Any] = {
    "name": "Shed",
    "version": "1",
    "started_at": "2026-06-01T08:00:00Z",
    "link": {"status": "linked", "relay_url": "https://relay.example"},
    "uplink": {"is_online": False, "backlog_rows": 12},
    "recorder": {"is_recording": True},
    "clock": {"is_trusted": False, "quality": "free"},
    "disk": {"free_bytes": 2**31, "database_bytes": 2**21},
    "mowers": [{"mower_id": "01abc", "phase": "parked", "detail": "wrong [pin]"}],
    "problems": [],
}


def test_status_in_words_and_a_problem_in_the_exit_status(terminal: Terminal, host: FakeHost):
    host.answers["GET /box/status"] = (200, STATUS)
    result = terminal.run("edge", "status")
    assert result.exit_code == 0, result.output
    for words in ("linked to https://relay.example, offline, 12 rows waiting", "not synchronised (free)", "2.0 GiB"):
        assert words in result.stdout
    assert "Shaun parked: wrong [pin]" in result.stdout
    host.answers["GET /box/status"] = (200, {**STATUS, "disk": None, "problems": ["The [disk] is full."]})
    result = terminal.run("edge", "status")
    assert (result.exit_code, "! The [disk] is full." in result.stdout) == (1, True)
    assert terminal.ask("edge", "status", status=1)["problems"] == ["The [disk] is full."]


def test_a_mower_with_two_links_is_one_mower_in_the_status(terminal: Terminal, host: FakeHost):
    links = [
        {"mower_id": "01abc", "phase": "online", "link": "ble", "has_reported": True, "detail": None},
        {"mower_id": "01abc", "phase": "waiting", "link": None, "has_reported": False, "detail": "no route"},
        {"mower_id": "01xyz", "phase": "online", "link": "ble", "has_reported": False, "detail": None},
    ]
    host.answers["GET /box/status"] = (200, {**STATUS, "mowers": links})
    said = terminal.run("edge", "status").stdout
    assert "Shaun online (ble); waiting: no route" in said
    assert "01xyz looking for it (ble)" in said, "it is not online before it was met"


def test_status_of_a_box_that_is_away(tmp_path: Path):
    url = f"http://127.0.0.1:{free_port()}"
    FakeHost(url).sign_in(tmp_path)
    assert Terminal(tmp_path).ask("edge", "status", status=4)["error"]["code"] == "unavailable"
