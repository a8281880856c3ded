"""`mowdeck command`: nothing wrong is sent, and what became of it is told."""

from __future__ import annotations

from typing import Any

import pytest

from core.command_line.command import parse_command
from core.domain.errors import InvalidInputError
from tests.core.command_line.conftest import Terminal
from tests.core.command_line.fake_host import FakeHost, problem

POST = "POST /fleet/mowers/01abc/commands"
GET = "GET /fleet/commands/c1"


@pytest.mark.parametrize(
    ("words", "body"),
    [
        (["start_mow"], {"kind": "start_mow"}),
        (["stop"], {"kind": "emergency_stop"}),
        (["emergency_stop"], {"kind": "emergency_stop"}),
        (["start_mow", "area_ids=front,back", "duration_s=600"],
         {"kind": "start_mow", "area_ids": ["front", "back"], "duration_s": 600}),
        (["start_mow", "area_ids=7"], {"kind": "start_mow", "area_ids": ["7"]}),
        (["set_blade_height", "height_mm=40.5"], {"kind": "set_blade_height", "height_mm": 40.5}),
    ],
)  # fmt: skip
def test_words_become_a_command(words: list[str], body: dict[str, Any]):
    assert parse_command(words[0], words[1:]) == body


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["strat_mow"], "did you mean start_mow?"),
        (["dance"], "one of: "),
        (["start_mow", "front"], "front: must be name=value"),
        (["start_mow", "duration=600"], "duration"),
        (["start_mow", "duration_s=soon"], "duration_s"),
        (["start_mow", "duration_s=1", "duration_s=2"], "duration_s: is given twice"),
        (["stop", "kind=start_mow"], "kind: is given twice"),
        (["set_blade_height"], "height_mm"),
        (["set_blade_height", "height_mm=[1]"], "height_mm"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_sent(words: list[str], said: str):
    with pytest.raises(InvalidInputError) as caught:
        parse_command(words[0], words[1:])
    assert said in caught.value.detail


def view(status: str, reason: str | None = None) -> dict[str, Any]:
    return {"command_id": "c1", "status": status, "reason": reason}


def play(host: FakeHost, *statuses: str) -> None:
    """The command passes through these; the last one stays."""
    left = list(statuses)
    host.answers[POST] = (202, view("pending"))
    host.answers[GET] = lambda _: (200, view(left.pop(0) if len(left) > 1 else left[0], "because"))


@pytest.mark.parametrize(("end", "status"), [("executed", 0), ("rejected", 1), ("expired", 1), ("failed", 1)])
def test_it_waits_for_the_end(terminal: Terminal, host: FakeHost, end: str, status: int):
    play(host, "accepted", end)
    result = terminal.run("command", "shaun", "start_mow", "area_ids=front")
    assert result.exit_code == status
    assert f"Shaun: start_mow {end}: because" in result.stdout
    assert host.asked(POST) == [{"command": {"kind": "start_mow", "area_ids": ["front"]}}]
    assert len(host.asked(GET)) == 2


def test_json_is_the_last_view(terminal: Terminal, host: FakeHost):
    play(host, "executed")
    assert terminal.ask("command", "shaun", "stop")["status"] == "executed"
    assert terminal.ask("command", "shaun", "stop", "--no-wait")["status"] == "pending"


def test_a_host_that_is_away_for_a_while_is_asked_again(terminal: Terminal, host: FakeHost):
    answers = [(200, view("accepted")), (503, problem("unavailable")), (0, None), (200, view("executed"))]
    host.answers[POST] = (202, view("pending"))
    host.answers[GET] = lambda _: answers.pop(0)
    assert terminal.ask("command", "shaun", "stop")["status"] == "executed"
    assert answers == []
    assert len(host.asked(POST)) == 1


def test_an_answer_that_is_lost_is_unknown_and_never_sent_again(terminal: Terminal, host: FakeHost):
    host.answers[POST] = (0, None)
    said = terminal.ask("command", "shaun", "start_mow", status=5)
    assert said["error"]["code"] == "unavailable"
    assert len(host.asked(POST)) == 1


def test_who_is_signed_out_meanwhile_does_not_know(terminal: Terminal, host: FakeHost):
    def end(_: Any) -> tuple[int, Any]:
        host.valid, host.is_ended = set(), True
        return 200, view("accepted")

    host.answers[POST] = (202, view("pending"))
    host.answers[GET] = end
    assert terminal.ask("command", "shaun", "stop", status=5)["status"] == "accepted"


@pytest.mark.parametrize(
    ("code", "http_status", "exit_status"),
    [("forbidden", 403, 3), ("conflict", 409, 1), ("not-published", 503, 4), ("rate-limited", 429, 1)],
)
def test_a_refusal_has_its_status(terminal: Terminal, host: FakeHost, code: str, http_status: int, exit_status: int):
    host.answers[POST] = (http_status, problem(code, "no", hint="ask"))
    said = terminal.ask("command", "shaun", "start_mow", status=exit_status)
    assert said == {"error": {"code": code, "detail": "no", "hint": "ask", "mistakes": []}}
    assert host.asked(GET) == []
