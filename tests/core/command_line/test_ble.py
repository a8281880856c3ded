"""`mowdeck ble` and `mowdeck pair` against a host that plays along."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.command_line.ble import bar
from tests.core.command_line.conftest import Terminal
from tests.core.command_line.fake_host import FakeHost

NEAR = {
    "address": "C0:00:00:00:00:01",
    "name": "[b]305",
    "rssi_dbm": -60,
    "source": "hci0",
    "is_connectable": True,
    "is_pairable": None,
    "domains": ["husqvarna_ble"],
    "seen_s_ago": 1.0,
}
RADIO = {
    "adapters": [
        {
            "name": "hci0",
            "title": None,
            "is_scanning": True,
            "reason": None,
            "slots": 3,
            "slots_used": 1,
            "can_connect": True,
        }
    ],
    "nearby": [NEAR, {**NEAR, "name": "a phone", "domains": []}],
    "released_for_s": 0,
}


def form(step: str, *fields: str, errors: dict[str, str] | None = None) -> dict[str, Any]:
    return {
        "flow_id": "f1",
        "domain": "husqvarna_ble",
        "source": "discovery",
        "result": {
            "type": "form",
            "step_id": step,
            "fields": [{"name": name, "type": "string", "format": "password", "required": True} for name in fields],
            "errors": errors or {},
            "placeholders": {"name": "305", "address": "C0:00:00:00:00:01"},
        },
    }


def ended(**result: Any) -> dict[str, Any]:
    return {"flow_id": "f1", "domain": "husqvarna_ble", "result": result}


def play(host: FakeHost, *steps: dict[str, Any]) -> None:
    """The host's answers to the steps, in order; texts in English."""
    words = {
        "step": {"confirm": {"title": "Add {name}?"}},
        "abort": {"gone": "It has left."},
        "error": {"wrong_pin": "{name} refused this PIN.", "no_answer": "It does not answer."},
    }
    texts = {"en": {"config": words}}
    waiting = list(steps)
    host.answers["GET /config/flows"] = (200, {"items": [form("confirm")]})
    host.answers["GET /config/integrations"] = (200, {"items": [{"domain": "husqvarna_ble", "texts": texts}]})
    host.answers["POST /config/flows/f1"] = lambda _body: (200, waiting.pop(0))


def test_a_bar_is_empty_where_nothing_connects():
    assert (bar(-50), bar(-100), bar(-120), bar(-75)) == ("▮" * 8, "▯" * 8, "▯" * 8, "▮▮▮▮▯▯▯▯")


def test_scan_shows_mowers_and_with_all_everything(terminal: Terminal, host: FakeHost):
    host.answers["GET /box/bluetooth"] = (200, RADIO)
    shown = terminal.run("ble", "scan", "--seconds", "0")
    assert "[b]305" in shown.stdout
    assert "1 of 3 connections" in shown.stdout
    assert "a phone" not in shown.stdout
    assert "a phone" in terminal.run("ble", "scan", "--seconds", "0", "--all").stdout
    assert terminal.ask("ble", "scan") == RADIO


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ({"is_pairable": True}, "yes"),
        ({"is_pairable": False}, "not now"),
        ({"is_pairable": None}, "not told"),
        ({"is_pairable": True, "is_connectable": False}, "no"),
    ],
)
def test_scan_shows_what_the_mower_says_of_pairing(
    terminal: Terminal, host: FakeHost, said: dict[str, bool | None], shown: str
):
    host.answers["GET /box/bluetooth"] = (200, {**RADIO, "nearby": [{**NEAR, **said}]})
    assert f" {shown} " in terminal.run("ble", "scan", "--seconds", "0").stdout


def test_an_address_is_whole_on_a_narrow_screen(terminal: Terminal, host: FakeHost):
    host.answers["GET /box/bluetooth"] = (200, RADIO)
    assert NEAR["address"] in terminal.run("ble", "scan", "--seconds", "0", COLUMNS="80").stdout


def test_release_says_for_how_long(terminal: Terminal, host: FakeHost):
    host.answers["POST /box/bluetooth/release"] = lambda body: (200, {**RADIO, "released_for_s": body["minutes"] * 60})
    assert "10 minutes" in terminal.run("ble", "release").stdout
    assert "connects to its mowers again" in terminal.run("ble", "release", "0").stdout
    assert host.asked("POST /box/bluetooth/release") == [{"minutes": 10.0}, {"minutes": 0.0}]


def test_why_it_did_not_pair_is_told_before_the_question(terminal: Terminal, host: FakeHost):
    play(host, form("confirm", errors={"base": "no_answer"}), ended(type="abort", reason="gone"))
    result = terminal.run("pair", stdin="y\ny\n")
    assert result.output.index("It does not answer.") < result.output.rindex("Go on?")


def test_pairing_step_by_step(terminal: Terminal, host: FakeHost):
    play(
        host,
        form("pin", "pin"),
        form("pin", "pin", errors={"pin": "wrong_pin"}),
        ended(type="create_entry", title="305"),
    )
    result = terminal.run("pair", stdin="y\n1111\n4711\n")
    assert result.exit_code == 0, result.output
    assert "Add 305?" in result.stderr
    assert "Paired: 305." in result.stdout
    given = [body["user_input"] for body in host.asked("POST /config/flows/f1")]
    assert given == [{}, {"pin": "1111"}, {"pin": "4711"}]
    assert "1111" not in result.stdout
    assert "pin: 305 refused this PIN." in result.stderr


def test_what_went_wrong_is_told_in_the_integrations_words(terminal: Terminal, host: FakeHost):
    play(host, form("pair", errors={"base": "no_answer"}), ended(type="create_entry", title="305"))
    result = terminal.run("pair", stdin="y\ny\n")
    assert "It does not answer." in result.stderr
    assert "base" not in result.stderr


def test_a_mower_of_the_neighbour_is_ignored(terminal: Terminal, host: FakeHost):
    play(host)
    host.answers["DELETE /config/flows/f1"] = (204, None)
    assert "Not offered again: 305." in terminal.run("pair", "305", "--ignore").stdout
    assert len(host.asked("DELETE /config/flows/f1")) == 1
    assert host.asked("POST /config/flows/f1") == []


def test_ignored_mowers_are_shown_and_offered_again(terminal: Terminal, host: FakeHost):
    device = {"domain": "husqvarna_ble", "unique_id": "C0:01", "title": "[b]305", "ignored_at": "2026-06-01T08:00:00Z"}
    host.answers["GET /config/ignored"] = (200, {"items": [device]})
    host.answers["DELETE /config/ignored/husqvarna_ble/C0:01"] = (204, None)
    assert "[b]305  C0:01" in terminal.run("ble", "ignored").stdout
    assert terminal.ask("ble", "ignored") == {"items": [device]}
    assert "is offered again" in terminal.run("ble", "ignored", "c0:01").stdout
    assert len(host.asked("DELETE /config/ignored/husqvarna_ble/C0:01")) == 1
    said = terminal.ask("ble", "ignored", "nobody", status=2)
    assert said["error"]["mistakes"] == [{"field": "device", "reason": "is not ignored"}]


def test_a_refused_pin_from_a_file_is_sent_once(terminal: Terminal, host: FakeHost, tmp_path: Path):
    pin = tmp_path / "pin"
    pin.write_text("1111\n")
    play(host, form("pin", "pin"), form("pin", "pin", errors={"pin": "wrong_pin"}))
    said = terminal.ask("pair", "--pin-file", str(pin), status=2)
    assert said["error"]["mistakes"] == [{"field": "pin", "reason": "wrong_pin"}]
    assert len(host.asked("POST /config/flows/f1")) == 2


def test_an_abort_is_told_in_the_integrations_words(terminal: Terminal, host: FakeHost):
    play(host, ended(type="abort", reason="gone"))
    result = terminal.run("pair", stdin="y\n")
    assert (result.exit_code, "It has left." in result.stdout) == (1, True)


def test_no_such_mower(terminal: Terminal, host: FakeHost):
    play(host)
    said = terminal.ask("pair", "Shaun", status=2)
    assert "305 (C0:00:00:00:00:01)" in said["error"]["mistakes"][0]["reason"]
