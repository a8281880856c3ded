"""`mowdeck alerts`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from core.telemetry.evidence_chain import chain
from tests.core.command_line.conftest import Terminal
from tests.core.command_line.fake_host import FakeHost

ALERT: dict[str, Any] = {
    "alert_id": "a1",
    "mower_id": "01abc",
    "kind": "theft",
    "cause": "moved",
    "severity": "critical",
    "since": "2026-06-01T08:00:00Z",
    "evidence": [{"verdict": "carried_away", "signs": ["lifted", "moved"]}],
    "acknowledged": None,
    "closed": None,
}


def test_open_alerts_are_listed_in_words(terminal: Terminal, host: FakeHost):
    host.answers["GET /alerts"] = (200, {"items": [ALERT]})
    shown = terminal.run("alerts").output
    for part in ("Shaun", "theft", "critical", "carried_away (lifted,", "moved)", "open", "a1"):
        assert part in shown, part
    assert terminal.ask("alerts") == [ALERT]
    host.answers["GET /mowers/01abc/alerts"] = (200, {"items": []})
    assert "No alerts" in terminal.run("alerts", "--mower", "Shaun").output


def test_somebody_takes_care(terminal: Terminal, host: FakeHost):
    said = {**ALERT, "acknowledged": {"by": "anna", "at": "2026-06-01T08:01:00Z", "note": "mine"}}
    host.answers["POST /alerts/a1/acknowledge"] = (200, said)
    assert "anna" in terminal.run("alerts", "ack", "a1", "--note", "mine", "--close").output
    assert host.asked("POST /alerts/a1/acknowledge") == [{"note": "mine", "close": True}]


def test_a_file_of_evidence_is_written_and_every_change_of_it_is_found(
    terminal: Terminal, host: FakeHost, tmp_path: Path
):
    lines = [line.decode() for line in chain([("alert", ALERT), ("link", {"connectivity": "offline"})])]
    host.answers["GET /alerts/a1/evidence"] = (200, {"alert_id": "a1", "lines": lines, "truncated": False})
    file = tmp_path / "e.jsonl"
    assert terminal.ask("alerts", "evidence", "a1", "--out", str(file))["lines"] == 3
    assert terminal.ask("alerts", "verify", str(file)) == {"file": str(file), "lines": 3, "is_intact": True}
    file.write_bytes(file.read_bytes().replace(b"offline", b"online_"))
    result = terminal.run("alerts", "verify", str(file))
    assert result.exit_code != 0
    assert "line 2" in result.output
    assert terminal.run("alerts", "verify", str(tmp_path / "none")).exit_code != 0
