"""`mowdeck integration`: make the folder of a new one, check one as the box would meet it."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from core.command_line.exit_codes import DONE, FAILED
from core.command_line.terminal import JsonOption, console, errors, plain, print_json, told
from core.domain.errors import ConflictError, SettingsError
from core.platform.contract.finding import Finding, FindingStatus, FolderReport
from core.platform.contract.folder_check import check_folder
from core.platform.fire_door import abandoned
from core.platform.loader import Loader
from core.platform.template.new_folder import make_folder
from core.settings.log import configure_logging
from core.settings.table import CONFIG_VARIABLE

app = typer.Typer(no_args_is_help=True, help="Write an integration: make its folder, check it.")

DATA_DIR = "~/.local/share/mowdeck/edge"
COLOURS = {"passed": "green", "failed": "bold red", "claimed": "yellow", "todo": "yellow"}
WORDS: tuple[FindingStatus, ...] = ("passed", "failed", "skipped", "claimed", "todo", "exempt")
PORT = 8090


@app.callback()
def integration() -> None:
    """Write an integration: make its folder, check it."""


@app.command()
def new(
    domain: Annotated[str, typer.Argument(help="Its name for machines and that of its folder: a-z, 0-9 and _.")],
    name: Annotated[str | None, typer.Option("--name", help="Its name for people; by default made of DOMAIN.")] = None,
    directory: Annotated[
        Path | None, typer.Option("--directory", help="Where the folder is made; by default where the box looks.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make the folder of a new integration: a small mower over HTTP that passes the check as it is."""
    with told(as_json=as_json):
        configure_logging("error", "console")
        if domain in Loader().manifests():
            raise ConflictError(f"{domain} is built in; a folder of that name would replace it", hint="Choose another.")
        parent = directory.expanduser() if directory is not None else box_integrations(os.environ)
        folder = make_folder(parent.resolve(), domain, name)
    files = sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())
    if as_json:
        print_json({"domain": domain, "folder": str(folder), "files": files})
        return
    console.print(f"Made {plain(folder)} with {len(files)} files. Next:", soft_wrap=True, highlight=False)
    for line in next_steps(folder, is_in_box=directory is None):
        console.print(f"  {plain(line)}", soft_wrap=True, highlight=False)


def next_steps(folder: Path, *, is_in_box: bool) -> list[str]:
    """What to type to see the new mower."""
    place, parent = shlex.quote(str(folder)), shlex.quote(str(folder.parent))
    run = "mowdeck edge run" if is_in_box else f"MOWDECK_EDGE_INTEGRATIONS_DIR={parent} mowdeck edge run"
    return [
        f"mowdeck integration check {place}",
        f"cd {parent} && python -m {folder.name}.emulator --port {PORT}     # a mower to try it on",
        f"{run}     # a box that runs already has to be started anew",
        f"mowdeck edge add {folder.name} url=http://127.0.0.1:{PORT} pin=1234",
        f"then {folder / 'README.md'} says what to change",
    ]


def box_integrations(environ: Mapping[str, str]) -> Path:
    """Where the box on this machine looks for integrations, by its settings; SettingsError when they cannot be read."""
    given: dict[str, Any] = {}
    if path := environ.get(CONFIG_VARIABLE):
        try:
            section = tomllib.loads(Path(path).read_text(encoding="utf-8")).get("edge", {})
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as err:
            raise SettingsError.of(f"{CONFIG_VARIABLE}={path}", f"cannot be read: {err}") from err
        given = section if isinstance(section, dict) else {}
    folder = environ.get("MOWDECK_EDGE_INTEGRATIONS_DIR", given.get("integrations_dir"))
    if folder:
        return Path(str(folder)).expanduser()
    data = environ.get("MOWDECK_EDGE_DATA_DIR", given.get("data_dir")) or DATA_DIR
    return Path(str(data)).expanduser() / "integrations"


@app.command()
def check(
    folder: Annotated[Path, typer.Argument(help="The integration's folder.")],
    is_quick: Annotated[bool, typer.Option("--quick", help="Leave the faults out; they take a minute or two.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Check a folder: manifest, import, forms, texts, the contract on its emulated mower, its faults, the quality list.

    Exits with 0 when nothing failed, 1 when something did, 2 when there is no such folder. It runs the folder's code."""
    with told(as_json=as_json):
        configure_logging("error", "console")
        status = asyncio.run(_check(folder, is_quick=is_quick, as_json=as_json))
    if status != DONE:
        raise typer.Exit(status)


async def _check(folder: Path, *, is_quick: bool, as_json: bool) -> int:
    count = 0
    with errors.status("checking ...") as progress:

        def begin(name: str) -> None:
            nonlocal count
            count += 1
            progress.update(f"checking {plain(name)} ({count})")

        report = await check_folder(folder, begin=begin, scope="contract" if is_quick else "all")
    status = DONE if report.is_good else FAILED
    _show(report, as_json=as_json)
    if abandoned():  # tasks of the plugin that would not end would hold up asyncio.run for ever
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(FAILED)
    return status


def _show(report: FolderReport, *, as_json: bool) -> None:
    if as_json:
        findings = [asdict(finding) for finding in report.findings]
        print_json({"domain": report.domain, "is_good": report.is_good, "findings": findings})
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    for _ in range(3):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    before = ""
    for finding in report.findings:
        area = finding.area if finding.area != before else ""
        before = finding.area
        table.add_row(f"[bold]{area}[/]", plain(finding.name), _coloured(finding.status), _detail(finding))
        if finding.status in ("failed", "skipped") and finding.hint:
            table.add_row("", "", "", Text(f"-> {finding.hint}", style="cyan"))
    console.print(table)
    counts = ", ".join(f"{count} {word}" for word in WORDS if (count := report.count(word)))
    console.print(f"{plain(report.domain)}: {counts}", highlight=False)


def _coloured(status: FindingStatus) -> str:
    return f"[{COLOURS.get(status, 'dim')}]{status}[/]"


def _detail(finding: Finding) -> Text:
    """All of what went wrong; of the rest as much as fits on the line."""
    if finding.status == "failed":
        return Text.from_markup(plain(finding.detail))
    text = Text.from_markup(f"[dim]{plain(finding.detail)}[/]", overflow="ellipsis")
    text.no_wrap = True
    return text
