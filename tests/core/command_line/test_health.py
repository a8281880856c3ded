"""`mowdeck health`."""

from __future__ import annotations

from typing import Any

from core.command_line.health import summary_lines
from tests.core.command_line.conftest import Terminal
from tests.core.command_line.fake_host import FakeHost

UNKNOWN = {"direction": "unknown", "days": 0, "seconds_per_percent": None}
TREND = {
    "direction": "falling",
    "days": 40,
    "seconds_per_percent": 88.0,
    "change_percent": -2.0,
    "change_low_percent": -3.0,
    "change_high_percent": -1.0,
}
REPORT: dict[str, Any] = {
    "mower_id": "01abc",
    "days": 12,
    "since": "2026-06-01",
    "updated_at": "2026-06-12T08:00:00Z",
    "totals": {
        "mowing_s": 36_000,
        "charging_s": 7_200,
        "distance_m": 12_345.0,
        "area_jobs": 9,
        "charge_cycles": 11,
    },
    "blades": {"used_h": 10.5, "interval_h": 10, "is_due": True, "changed_at": "2026-06-02T08:00:00Z"},
    "battery": {"mowing": TREND, "charging": UNKNOWN},
    "errors": [{"code": "E1", "error_class": "stuck", "count": 3, "last_day": "2026-06-10"}],
}
DAY = {"day": "2026-06-11", "mowing_s": 3_600.0, "errors": [{"code": "E1", "count": 2}], "distance_m": 500.0}


def play(host: FakeHost) -> None:
    host.answers["GET /telemetry/mowers/01abc/health"] = (200, REPORT)
    host.answers["GET /telemetry/mowers/01abc/health/days"] = (200, {"items": [DAY]})


def test_the_most_important_first(terminal: Terminal, host: FakeHost):
    play(host)
    shown = terminal.run("health", "Shaun").output
    for part in ("12 days", "12.3 km", "10.5 of 10 h since 2026-06-02", "change them", "-3.0 to -1.0 %", "fault E1"):
        assert part in shown, part
    assert "2026-06-11" in shown


def test_all_of_it_for_scripts(terminal: Terminal, host: FakeHost):
    play(host)
    assert terminal.ask("health", "Shaun") == {**REPORT, "recent_days": [DAY]}


def test_new_blades_and_an_interval_are_entered(terminal: Terminal, host: FakeHost):
    play(host)
    host.answers["POST /fleet/mowers/01abc/blades/changed"] = (201, {})
    host.answers["PUT /fleet/mowers/01abc/blades/interval"] = (200, {})
    terminal.ask("health", "Shaun", "--blades-changed", "--note", "steel", "--blade-interval", "80")
    entered = [(what, body) for what, body in host.requests if "blades" in what]
    assert entered == [
        ("PUT /fleet/mowers/01abc/blades/interval", {"interval_h": 80.0}),
        ("POST /fleet/mowers/01abc/blades/changed", {"note": "steel"}),
    ]


def test_what_is_not_known_is_not_shown_as_nothing():
    assert summary_lines("Shaun", {**REPORT, "days": 0}) == ["Shaun: nothing is known of its health yet."]
    report = {**REPORT, "totals": {**REPORT["totals"], "distance_m": None}, "battery": {"mowing": UNKNOWN}}
    lines = "\n".join(summary_lines("Shaun", report))
    assert "way unknown" in lines
    assert "battery: unknown" in lines
