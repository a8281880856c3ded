"""Finding a mower by name, and the table of all."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from core.command_line.mowers import find_mower, mower_table
from core.domain.errors import InvalidInputError
from tests.core.command_line.conftest import Terminal
from tests.core.command_line.fake_host import FakeHost

NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


def named(*names: str) -> list[dict[str, Any]]:
    return [{"mower_id": f"01{i}", "name": name, "setup_error": None} for i, name in enumerate(names)]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [("Shaun", "Shaun"), ("shaun", "Shaun"), ("sh", "Shaun"), ("01abd", "Timmy"), ("01abc", "Shaun"), ("T", "Timmy")],
)
def test_name_id_or_a_unique_beginning(host: FakeHost, tmp_path: Path, wanted: str, found: str):
    host.sign_in(tmp_path)
    with host.client(tmp_path) as client:
        assert find_mower(client, wanted)["name"] == found


def test_an_exact_name_goes_before_a_beginning(host: FakeHost, tmp_path: Path):
    host.sign_in(tmp_path)
    host.answers["GET /fleet/mowers"] = (200, {"items": named("Max", "Maxine")})
    with host.client(tmp_path) as client:
        assert find_mower(client, "max")["name"] == "Max"


@pytest.mark.parametrize(
    ("names", "wanted", "said"),
    [
        (["Maxine", "Maximus", "Bo"], "max", "fits several mowers (known: Maximus, Maxine)"),
        (["Max", "max"], "max", "fits several mowers (known: Max, max)"),
        (["Max", "Bo"], "x", "there is no such mower (known: Bo, Max)"),
        ([], "x", "there is no such mower (known: none)"),
    ],
)
def test_what_cannot_be_decided_names_those_there_are(
    host: FakeHost, tmp_path: Path, names: list[str], wanted: str, said: str
):
    host.sign_in(tmp_path)
    host.answers["GET /fleet/mowers"] = (200, {"items": named(*names)})
    with host.client(tmp_path) as client, pytest.raises(InvalidInputError) as caught:
        find_mower(client, wanted)
    assert said in caught.value.detail


def shown(mowers: list[dict[str, Any]], states: dict[str, Any] | None = None) -> list[str]:
    console = Console(width=200, no_color=True, record=True, quiet=False, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    with console.file:
        console.print(mower_table(mowers, states or {}, NOW))
    return [" ".join(line.split()) for line in console.export_text().splitlines()]


def test_a_state_with_all_its_parts():
    state = {
        "activity": "mowing",
        "battery_percent": 81,
        "is_charging": True,
        "rtk_fix": "fixed",
        "current_area": "front",
        "connectivity": "online",
        "observed_at": "2026-06-01T11:59:30+00:00",
    }
    assert shown(named("Shaun"), {"010": state})[1] == "Shaun mowing 81 % + fixed front 30 s ago 010"


def test_links_are_shown_the_active_one_first():
    ble, lan, cloud = (
        {"kind": "ble", "state": "up", "is_active": True},
        {"kind": "lan", "state": "up", "is_active": False},
        {"kind": "cloud", "state": "down", "is_active": False},
    )
    (mower,) = named("Shaun")
    assert shown([{**mower, "link_states": [ble, lan, cloud]}])[1].endswith("ble, lan, cloud down 010")
    state = {"010": {"activity": "docked", "signals": {"active_link": "cloud"}}}
    assert shown([mower], state)[1] == "Shaun docked cloud 010", "a relay knows the active one only"


def test_silence_errors_and_age_are_said():
    (mower,) = named("Shaun")
    assert "has not reported yet" in shown([mower])[1]
    assert "not set up: wrong password" in shown([{**mower, "setup_error": "wrong password"}])[1]
    lost = {"activity": "error", "error": {"code": "lifted"}, "connectivity": "offline"}
    row = shown([mower], {"010": {**lost, "observed_at": "2026-06-01T11:00:00+00:00"}})[1]
    assert "error: lifted (offline)" in row
    assert "60 min ago" in row
    assert "12 h ago" in shown([mower], {"010": {**lost, "observed_at": "2026-06-01T00:00:00Z"}})[1]
    assert "0 s ago" in shown([mower], {"010": {**lost, "observed_at": "2026-06-01T13:00:00Z"}})[1], "clocks differ"


@pytest.mark.parametrize("name", ["[/]", "[red]Shaun", "[/red]", "a[b]c", "\x1b[2Jgone", "two\nlines", "\x07"])
def test_a_name_cannot_steer_the_terminal(name: str):
    (heading, row) = shown([{"mower_id": "01", "name": name, "setup_error": f"[{name}"}])
    assert heading.startswith("mower")
    assert "\x1b" not in row
    assert "not set up" in row
    assert all(letter in row for letter in name if letter.isprintable() and letter != " ")


def test_the_list_as_a_table_and_as_json(terminal: Terminal, host: FakeHost):
    host.answers["GET /telemetry/states"] = (
        200,
        {"items": [{"mower_id": "01abc", "state": {"activity": "docked"}}]},
    )
    assert "docked" in terminal.run("mowers").stdout
    shaun, timmy = terminal.ask("mowers")
    assert shaun["latest"]["state"] == {"activity": "docked"}
    assert timmy["latest"] is None
    host.answers["GET /fleet/mowers"] = (200, {"items": []})
    assert "mowdeck edge add simulator" in terminal.run("mowers").stdout
    assert terminal.ask("mowers") == []
