"""The command as a whole: its tree, accounts, errors as words and as JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from core.command_line.sign_ins import SignIns
from tests.core.command_line.conftest import Terminal
from tests.core.command_line.fake_host import FakeHost, problem
from tests.fakes.mosquitto import free_port


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# -- the tree


@pytest.mark.parametrize("words", [["mowers", "--help"], ["watch", "--help"], ["link", "--help"]])
def test_help_of_a_command_imports_no_host(words: list[str]):
    code = f"""
import sys
from core.command_line.main import build
from typer.testing import CliRunner
words = {words!r}
result = CliRunner().invoke(build(words), words)
assert result.exit_code == 0, result.output
print(sorted({{name.partition('.')[0] for name in sys.modules}} & {{'edge_agent', 'cloud_relay', 'sqlalchemy'}}))
"""
    assert python(code).strip() == "[]"


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["edge", "--help"], ["edge", "run", "--help"]])
def test_help_starts_no_part_of_a_host(words: list[str]):
    code = f"""
import sys
from core.command_line.main import build
from typer.testing import CliRunner
words = {words!r}
result = CliRunner().invoke(build(words), words)
assert result.exit_code == 0, result.output
print(sorted({{'edge_agent.app', 'cloud_relay.app', 'sqlalchemy', 'paho'}} & sys.modules.keys()))
"""
    assert python(code).strip() == "[]"


def test_help_of_a_host_imports_only_that_one():
    code = """
import sys
from core.command_line.main import build
from typer.testing import CliRunner
words = ['edge', '--help']
result = CliRunner().invoke(build(words), words)
assert result.exit_code == 0 and 'status' in result.output, result.output
print(sorted({n for n in sys.modules if n in {'edge_agent.app', 'cloud_relay', 'edge_agent.command_line'}}))
"""
    assert python(code).strip() == "['edge_agent.command_line']"


def test_help_shows_every_command(tmp_path: Path):
    said = Terminal(tmp_path).run("--help").output
    for name in ("register", "sign-in", "sign-out", "link", "mowers", "watch", "command", "demo", "edge", "relay"):
        assert name in said


@pytest.mark.parametrize(("typo", "meant"), [("mowres", "mowers"), ("wacth", "watch"), ("sign-inn", "sign-in")])
def test_a_typo_gets_a_suggestion(tmp_path: Path, typo: str, meant: str):
    result = Terminal(tmp_path).run(typo)
    assert result.exit_code == 2
    assert f"Did you mean '{meant}'" in result.output.replace('"', "'")


def test_a_typo_of_a_host_gets_one_too(tmp_path: Path):
    result = Terminal(tmp_path).run("egde", "run")
    assert result.exit_code == 2
    assert "Did you mean 'edge'" in result.output.replace('"', "'")


# -- accounts


def test_register_sign_in_and_out(tmp_path: Path, host: FakeHost):
    terminal = Terminal(tmp_path, host)
    assert terminal.run("register", host.url, "-u", "anna").exit_code == 0
    (body,) = host.asked("POST /identity/register")
    assert body == {"username": "anna", "password": "a lawn is a slow pond", "account_name": "anna"}
    assert SignIns(tmp_path).last_host == host.url
    host.answers["DELETE /identity/session"] = (204, None)
    assert terminal.ask("sign-out") == {"host": host.url}
    assert SignIns(tmp_path).get(host.url) is None
    assert terminal.ask("sign-in", host.url, "-u", "anna") == {"host": host.url, "username": "anna"}
    assert terminal.ask("mowers")[0]["name"] == "Shaun"


def test_the_password_is_asked_for_and_never_shown(tmp_path: Path, host: FakeHost):
    terminal = Terminal(tmp_path, host)
    terminal.env.pop("MOWDECK_CLIENT_PASSWORD")
    result = terminal.run("sign-in", host.url, stdin="anna\nsecret word\n")
    assert result.exit_code == 0, result.output
    assert host.asked("POST /identity/session") == [{"username": "anna", "password": "secret word"}]
    assert "secret word" not in result.output


def test_nobody_to_answer_a_question_is_an_interruption(tmp_path: Path, host: FakeHost):
    terminal = Terminal(tmp_path, host)
    terminal.env.pop("MOWDECK_CLIENT_PASSWORD")
    assert terminal.run("sign-in", host.url, "-u", "anna", stdin="").exit_code == 130


def test_a_wrong_password(tmp_path: Path, host: FakeHost):
    host.answers["POST /identity/session"] = (401, problem("unauthenticated", "name or password is wrong"))
    result = Terminal(tmp_path, host).run("sign-in", host.url, "-u", "anna")
    assert result.exit_code == 3
    assert "error: name or password is wrong" in result.stderr
    assert result.stdout == ""


# -- errors


def test_errors_are_words_on_stderr_or_json_on_stdout(tmp_path: Path):
    url = f"http://127.0.0.1:{free_port()}"
    FakeHost(url).sign_in(tmp_path)
    terminal = Terminal(tmp_path)
    words = terminal.run("mowers")
    assert (words.exit_code, words.stdout) == (4, "")
    assert f"error: {url} does not answer" in words.stderr
    assert "Is it running" in words.stderr
    as_json = terminal.run("mowers", "--json")
    assert as_json.exit_code == 4
    error = json.loads(as_json.stdout)["error"]
    assert (error["code"], error["mistakes"]) == ("unavailable", [])
    assert as_json.stderr == ""


def test_every_mistake_has_a_line(terminal: Terminal, host: FakeHost):
    listed = [{"field": "a", "reason": "[b] too long"}, {"field": "c", "reason": "missing"}]
    host.answers["GET /fleet/mowers"] = (422, problem("invalid-input", mistakes=listed, hint="Mend [it]."))
    result = terminal.run("mowers")
    assert result.exit_code == 2
    assert [line.strip() for line in result.stderr.splitlines()] == [
        "error: a: [b] too long",
        "error: c: missing",
        "Mend [it].",
    ]
    assert terminal.ask("mowers", status=2)["error"]["mistakes"] == listed


def test_wrong_settings_of_the_client_are_all_named(tmp_path: Path):
    result = Terminal(tmp_path).run("mowers", MOWDECK_CLIENT_HOST="nowhere", MOWDECK_CLIENT_TOKNE="x")
    assert result.exit_code == 2
    assert "MOWDECK_CLIENT_HOST: " in result.stderr
    assert "did you mean MOWDECK_CLIENT_TOKEN?" in result.stderr


def test_a_service_token_needs_no_sign_in(tmp_path: Path, host: FakeHost):
    host.valid = {"service"}
    terminal = Terminal(tmp_path, host)
    terminal.env |= {"MOWDECK_CLIENT_TOKEN": "service", "MOWDECK_CLIENT_HOST": host.url}
    assert len(terminal.ask("mowers")) == 2
    host.valid = set()
    assert terminal.ask("mowers", status=3)["error"]["code"] == "unauthenticated"


# -- linking


def test_a_link_is_waited_for(terminal: Terminal, host: FakeHost):
    waiting = {
        "status": "waiting",
        "relay_url": "https://relay.example",
        "user_code": "ABCD",
        "verification_uri": "https://relay.example/link",
        "verification_uri_complete": "https://relay.example/link?code=ABCD",
    }
    host.answers["POST /box/link"] = (200, waiting)
    host.answers["GET /box/link"] = (200, {**waiting, "status": "linked", "edge_id": "e1"})
    result = terminal.run("link", "https://relay.example")
    assert result.exit_code == 0, result.output
    assert "enter ABCD" in result.stdout
    assert "Linked to https://relay.example as e1." in result.stdout
    host.answers["GET /box/link"] = (200, {"status": "unlinked", "problem": "the link was [refused]"})
    refused = terminal.run("link", "https://relay.example")
    assert refused.exit_code == 1
    assert "Last attempt: the link was [refused]." in refused.stdout
    assert terminal.run("link", "https://relay.example", "--end").exit_code == 2


def test_a_code_is_confirmed_only_by_somebody_who_is_sure(terminal: Terminal, host: FakeHost):
    host.answers["GET /edges/link/ABCD"] = (200, {"name": "[b]Shed", "version": "1", "remote": "10.0.0.9"})
    host.answers["POST /edges/link/ABCD/confirm"] = (200, {"name": "Shed", "edge_id": "e1"})
    assert terminal.run("link", "--confirm", "ABCD", stdin="n\n").exit_code == 1
    assert host.asked("POST /edges/link/ABCD/confirm") == []
    done = terminal.run("link", "--confirm", "ABCD", stdin="y\n")
    assert (done.exit_code, "calls itself [b]Shed" in done.stdout) == (0, True)
    assert terminal.ask("link", "--confirm", "ABCD")["edge_id"] == "e1"
