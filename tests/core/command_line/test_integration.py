"""`mowdeck integration`: a stranger's way from nothing to a mower that obeys."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path

import aiohttp
import pytest
import voluptuous as vol

from core.command_line.integration import box_integrations, next_steps
from core.domain.clock import SystemClock
from core.domain.commands import EmergencyStop, StartMow
from core.domain.errors import ConflictError, InvalidInputError, MowdeckError, SettingsError
from core.domain.mower import Activity
from core.platform.bluetooth_mower_flow import BluetoothMowerFlow, Identity
from core.platform.budget import BudgetStore
from core.platform.contract.folder_check import check_folder
from core.platform.contract.running import obeyed, run_link
from core.platform.entries import ConfigEntries
from core.platform.entry import EntryState
from core.platform.entry_store import EntryStore
from core.platform.flow import CreateEntryResult, FormResult
from core.platform.flows import FlowDirector
from core.platform.loader import Loader
from core.platform.secret_store import SecretStore
from core.platform.template.new_folder import make_folder, render
from edge_agent.settings import load_settings
from tests.house.sources import ROOT

BIN = Path(sys.executable).parent
PIN = "1234"


def environment(home: Path, **more: str) -> dict[str, str]:
    """That of somebody who has never heard of this repository."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MOWDECK_", "PYTEST_", "COV_"))}
    return {**kept, "HOME": str(home), "PATH": f"{BIN}:{os.environ['PATH']}", "COLUMNS": "200", **more}


def mowdeck(home: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BIN / "mowdeck", "integration", *arguments],
        env=environment(home, **more),
        cwd=home,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_new_then_check(tmp_path: Path):
    made = mowdeck(tmp_path, "new", "acme")
    assert made.returncode == 0, made.stderr
    folder = tmp_path / ".local/share/mowdeck/edge/integrations/acme"
    assert sorted(str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file()) == sorted(
        render("acme", "Acme")
    )
    for step in next_steps(folder, is_in_box=True):
        assert step in made.stdout
    checked = mowdeck(tmp_path, "check", str(folder), "--quick")
    assert (checked.returncode, checked.stderr) == (0, "")
    assert "leaves_no_task_behind" in checked.stdout
    assert re.search(r"acme: \d+ passed, 1 skipped, \d+ claimed, 2 todo, \d+ exempt", checked.stdout)


def test_what_new_refuses(tmp_path: Path):
    place = ("--directory", str(tmp_path / "here"))
    assert mowdeck(tmp_path, "new", "acme", *place).returncode == 0
    (tmp_path / "here" / "acme" / "wire.py").write_text("mine = True\n")
    again = mowdeck(tmp_path, "new", "acme", *place, "--json")
    assert again.returncode == 1
    assert json.loads(again.stdout)["error"]["code"] == "conflict"
    assert (tmp_path / "here" / "acme" / "wire.py").read_text() == "mine = True\n"
    builtin = mowdeck(tmp_path, "new", "simulator", *place)
    assert builtin.returncode == 1
    assert "built in" in builtin.stderr
    bad = mowdeck(tmp_path, "new", "Bad-Name", *place)
    assert bad.returncode == 2
    assert sorted(f.name for f in (tmp_path / "here").iterdir()) == ["acme"]


def test_check_as_json_and_its_exit_statuses(tmp_path: Path):
    folder = make_folder(tmp_path, "acme")
    (folder / "emulator.py").unlink()
    done = mowdeck(tmp_path, "check", "acme", "--quick", "--json")
    assert done.returncode == 1
    report = json.loads(done.stdout)
    failed = [finding["name"] for finding in report["findings"] if finding["status"] == "failed"]
    assert (report["domain"], report["is_good"], failed) == ("acme", False, ["emulator"])
    assert mowdeck(tmp_path, "check", "nowhere").returncode == 2
    assert mowdeck(tmp_path, "check", str(folder / "wire.py")).returncode == 2
    assert mowdeck(tmp_path, "check").returncode == 2


def test_tasks_that_do_not_end_do_not_hold_up_the_check(tmp_path: Path):
    folder = make_folder(tmp_path, "acme")
    stubborn = (
        "\n\nasync def _stay():\n    while True:\n        try:\n            await asyncio.sleep(9)\n"
        "        except asyncio.CancelledError:\n            pass\n"
        "\n\n@asynccontextmanager\nasync def contract_world(context):\n    await _stay()\n    yield\n"
    )
    quick = "import core.platform.contract.suite as suite\nsuite.CHECK_DEADLINE_S = 0.05\nsuite.call.__kwdefaults__['close_deadline_s'] = 0.05\n"
    emulator = folder / "emulator.py"
    emulator.write_text(emulator.read_text().replace("\nSERIAL =", f"\n{quick}\nSERIAL =") + stubborn)
    done = mowdeck(tmp_path, "check", "acme", "--quick", "--json")
    assert done.returncode == 1
    assert not json.loads(done.stdout)["is_good"]


@pytest.mark.parametrize("domain", ["", "Acme", "1acme", "a-b", "../acme", "a" * 41, "json", "import", "core", "tests"])
def test_domains_that_cannot_be(tmp_path: Path, domain: str):
    with pytest.raises(InvalidInputError):
        make_folder(tmp_path / "here", domain)
    assert not (tmp_path / "here").exists()


@pytest.mark.parametrize("name", ["  ", "x" * 61, 'A"B', "A\\B", "A\nB"])
def test_names_that_cannot_be(tmp_path: Path, name: str):
    with pytest.raises(InvalidInputError):
        make_folder(tmp_path / "here", "acme", name)
    assert not (tmp_path / "here").exists()


def test_a_folder_is_never_overwritten(tmp_path: Path):
    (tmp_path / "acme").mkdir()
    with pytest.raises(ConflictError):
        make_folder(tmp_path, "acme")
    assert list((tmp_path / "acme").iterdir()) == []


async def test_any_name_that_can_be_passes(tmp_path: Path):
    folder = make_folder(tmp_path, "soehne_2", "Mäher & Söhne's {x} <b>")
    report = await check_folder(folder, scope="contract")
    assert [finding for finding in report.findings if finding.status == "failed"] == []


def test_the_template_is_as_clean_as_our_own_code(tmp_path: Path):
    folder = make_folder(tmp_path, "acme")
    for command in (["ruff", "format", "--check"], ["ruff", "check", "--extend-exclude", "tests"]):
        done = subprocess.run(
            [BIN / command[0], *command[1:], "--no-cache", "--config", ROOT / "pyproject.toml", folder],
            capture_output=True, text=True, check=False, cwd=ROOT,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("environ", "file"),
    [
        ({}, None),
        ({"MOWDECK_EDGE_DATA_DIR": "/srv/box"}, None),
        ({"MOWDECK_EDGE_DATA_DIR": "/srv/box", "MOWDECK_EDGE_INTEGRATIONS_DIR": "~/mine"}, None),
        ({}, '[edge]\ndata_dir = "/srv/box"\nlisten_port = 0\n'),
        ({}, '[edge]\nintegrations_dir = "/srv/mine"\n'),
        ({"MOWDECK_EDGE_DATA_DIR": "/srv/box"}, '[edge]\ndata_dir = "/srv/other"\nintegrations_dir = ""\n'),
    ],
)
def test_new_goes_where_the_box_looks(tmp_path: Path, environ: Mapping[str, str], file: str | None):
    given = dict(environ)
    if file is not None:
        (tmp_path / "mowdeck.toml").write_text(file)
        given["MOWDECK_CONFIG"] = str(tmp_path / "mowdeck.toml")
    assert box_integrations(given) == load_settings(given).custom_integrations


def test_a_broken_settings_file_is_named(tmp_path: Path):
    (tmp_path / "mowdeck.toml").write_text("[edge")
    with pytest.raises(SettingsError):
        box_integrations({"MOWDECK_CONFIG": str(tmp_path / "mowdeck.toml")})


async def test_it_is_added_by_its_flow_and_obeys(tmp_path: Path):
    """The folder as the operator's own, in the box's loader, its flow, its entry, its link."""
    make_folder(tmp_path / "custom", "acme_box")
    clock, loader = SystemClock(), Loader("integrations", tmp_path / "custom")
    await loader.load("acme_box")
    module = import_module("mowdeck_custom.acme_box.emulator")
    mower = module.EmulatedMower(clock.monotonic)
    loaded = asyncio.Event()
    async with aiohttp.ClientSession() as session, module.serve(mower) as url:

        async def http() -> aiohttp.ClientSession:
            return session

        entries = ConfigEntries(
            store=EntryStore(tmp_path / "entries.json", clock),
            secrets=SecretStore(tmp_path, clock, machine_id=tmp_path / "machine-id"),
            budgets=BudgetStore(tmp_path / "budgets.json", clock, asyncio.sleep),
            loader=loader,
            clock=clock,
            http=http,
        )
        entries.observe(lambda _record, state, _integration: loaded.set() if state is EntryState.LOADED else None)
        async with entries, FlowDirector(entries=entries, loader=loader, clock=clock, http=http) as flows:
            view = await flows.start("acme_box")
            for given, errors in (
                ({"url": "ftp://x", "pin": PIN}, {"url": "invalid_url"}),
                ({"url": url, "pin": "0000"}, {"pin": "wrong_pin"}),
                ({"url": "http://127.0.0.1:1", "pin": PIN}, {"base": "cannot_connect"}),
            ):
                view = await flows.advance(view.flow_id, given)
                assert isinstance(view.result, FormResult)
                assert view.result.errors == errors
            view = await flows.advance(view.flow_id, {"url": f" {url.removeprefix('http://')}/ ", "pin": PIN})
            assert isinstance(view.result, CreateEntryResult)
            async with asyncio.timeout(10):
                await loaded.wait()
            (entry,) = entries.views()
            assert PIN not in json.dumps(entries.record(entry.entry_id).data)
            integration = entries.integration(entry.entry_id)
            assert integration is not None
            async with run_link(integration, entry.mowers[0]) as running:
                assert running.latest.activity is Activity.DOCKED
                await obeyed(running, EmergencyStop())
                outcome = await running.link.send(StartMow())
                assert outcome.kind == "accepted"
            assert mower.orders == ["stop", "start"]


# The document, as it stands


def blocks() -> Iterator[tuple[dict[str, str], str]]:
    """The shell blocks of the worked example: their options and their text."""
    text = (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")
    part = text.partition("## From nothing to a mower on the screen")[2].partition("\n## ")[0]
    for options, block in re.findall(r"```sh([^\n]*)\n(.*?)```", part, re.DOTALL):
        yield dict(option.split("=") for option in options.split()), block


def test_code_in_the_document_is_that_of_the_folder():
    text = (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")
    shown = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    flows = [block for block in shown if "BluetoothMowerFlow" in block]
    folder = [block for block in shown if block not in flows]
    assert (len(flows), len(folder)) == (1, 2)
    for block in folder:
        assert block in render("acme", "Acme")["emulator.py"]
    kinds = set(re.findall(r"^```(\w+)", text, re.MULTILINE))
    assert kinds == {"sh", "python"}, "a block that nobody runs or compares"
    assert text.count("```sh") == len(list(blocks())), "a block outside of the worked example"


async def test_the_flow_in_the_document_is_one():
    text = (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")
    [block] = [one for one in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "BluetoothMowerFlow" in one]

    async def sign_in(connection: object, pin: str) -> str:
        assert (connection, pin) == ("a connection", "1234")
        return "42"

    class AcmeLockedError(MowdeckError):
        pass

    names = {
        "BluetoothMowerFlow": BluetoothMowerFlow,
        "Identity": Identity,
        "AcmeLockedError": AcmeLockedError,
        "OPTIONS_SCHEMA": vol.Schema({}),
        "sign_in": sign_in,
    }
    exec(block, names)
    made = names["AcmeFlow"]
    assert not made.__abstractmethods__
    hooks = {*dir(BluetoothMowerFlow), *BluetoothMowerFlow.__annotations__}
    assert {name for name in vars(made) if not name.startswith("_")} <= hooks
    flow = object.__new__(made)
    flow.pin = "1234"
    assert await flow.identify("a connection") == Identity(serial="42", name="Acme 300")
    assert flow.may_be_mower(None)


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@contextmanager
def in_another_terminal(block: str, port: str, environ: dict[str, str], log: Path) -> Iterator[None]:
    """Runs until the end of the test; returns once it listens."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["bash", "-c", f"exec bash -ec '{block.strip()}'"],
            env=environ,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
        try:
            deadline = time.monotonic() + 30
            while True:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", int(port))) == 0:
                        break
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.05)
            yield
        finally:
            os.killpg(process.pid, 15)
            process.wait(20)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_worked_example_of_the_document(tmp_path: Path):
    """Every block, in order, typed by somebody with an empty home folder. Only the ports are others."""
    ports = {"8481": free_port(), "8090": free_port()}
    environ = environment(
        tmp_path,
        MOWDECK_EDGE_LISTEN_PORT=ports["8481"],
        MOWDECK_EDGE_ANNOUNCE="false",
        MOWDECK_EDGE_TRUST_CLOCK="true",
        MOWDECK_CLIENT_PASSWORD="a lawn is a slow pond",
        PYTHONDONTWRITEBYTECODE="1",
    )
    said = ""
    with ExitStack() as terminals:
        for options, text in blocks():
            block = text
            for known, port in ports.items():
                block = block.replace(known, port)
            if "terminal" in options:
                log = tmp_path / f"terminal{options['terminal']}.log"
                terminals.enter_context(in_another_terminal(block, ports[options["port"]], environ, log))
                continue
            done = subprocess.run(
                ["bash", "-ec", block],
                env=environ,
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=180,
                check=False,
            )
            said += done.stdout
            assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
    assert "Added: Acme." in said
    assert "Acme: start_mow executed" in said
    assert "32 passed" in said
