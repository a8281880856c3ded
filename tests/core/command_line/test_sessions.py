"""`mowdeck sessions`."""

from __future__ import annotations

from typing import Any

from tests.core.command_line.conftest import Terminal
from tests.core.command_line.fake_host import FakeHost

DONE: dict[str, Any] = {
    "session_id": "20260601T080000-000000",
    "started_at": "2026-06-01T08:00:00Z",
    "is_start_known": True,
    "seen_at": "2026-06-01T11:00:00Z",
    "ended_at": "2026-06-01T11:00:00Z",
    "ended_by": "sent_home",
    "mowing_s": 5_400.0,
    "charging_s": 5_400.0,
    "distance_m": 1_234.4,
    "battery_used_percent": 95,
    "charges": 1,
    "areas": {"front": 5_000.0, "": 400.0},
    "errors": [{"code": "E1", "count": 2}],
}
OPEN = {**DONE, "is_start_known": False, "ended_at": None, "waits_for": "rain", "distance_m": None}
PATH = "GET /telemetry/mowers/01abc/sessions"


def test_one_line_a_session(terminal: Terminal, host: FakeHost):
    host.answers[PATH] = (200, {"items": [OPEN, DONE], "cursor": "2026-05-01T00:00:00Z"})
    shown = terminal.run("sessions", "Shaun").output
    before, done = [line for line in shown.splitlines() if "2026-06-01 08:00" in line]
    for part in ("90 min", "3 h 00", "1234 m", "95 %", "E1 x2", "front", "11:00 sent home"):
        assert part in done, part
    assert "before 2026-06-01" in before
    assert "goes on (rain)" in before
    assert " m " not in before.replace("90 min", ""), "an unknown way is not shown as nothing"
    assert "older ones" in shown


def test_all_of_it_for_scripts_and_none(terminal: Terminal, host: FakeHost):
    host.answers[PATH] = (200, {"items": [DONE], "cursor": None})
    assert terminal.ask("sessions", "Shaun", "--limit", "3") == [DONE]
    host.answers[PATH] = (200, {"items": [], "cursor": None})
    assert "no sessions" in terminal.run("sessions", "Shaun").output
