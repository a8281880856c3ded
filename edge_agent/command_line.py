"""`mowdeck edge ...`: run the box, look at it, add an integration to it."""

from __future__ import annotations

import contextlib
import sys
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.table import Table

from core.command_line.exit_codes import FAILED
from core.command_line.flow_prompts import ENDS, answer_form, await_work
from core.command_line.host_client import HostClient
from core.command_line.host_daemon import become
from core.command_line.terminal import HostOption, JsonOption, console, open_host, plain, print_json, told
from core.domain.errors import MowdeckError

app = typer.Typer(no_args_is_help=True, help="The box at home: run it, look at it, add integrations.")


@app.callback()
def edge() -> None:
    """The box at home: run it, look at it, add integrations."""


@app.command()
def run() -> None:
    """Run the box until SIGTERM or Ctrl-C. Settings: MOWDECK_EDGE_*, docs/settings.md."""
    become("edge_agent")


@app.command()
def status(host: HostOption = None, as_json: JsonOption = False) -> None:
    """Show how the box is: clock, disk, records, link, mowers, and what needs a person."""
    with told(as_json=as_json), open_host(host) as client:
        found = client.get("/box/status")
        if as_json:
            print_json(found)
        else:
            names = {m["mower_id"]: m["name"] for m in client.get("/fleet/mowers")["items"]}
            _show_status(found, names)
    if found["problems"]:
        raise typer.Exit(FAILED)


@app.command()
def add(
    domain: Annotated[str, typer.Argument(help="Which integration, e.g. simulator.")],
    values: Annotated[list[str] | None, typer.Argument(help="name=value for the form's fields.")] = None,
    host: HostOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add an integration by its own flow; asks for what is not given (never with --json)."""
    with told(as_json=as_json), open_host(host) as client:
        view = client.post("/config/flows", {"domain": domain})
        try:
            view = _walk(client, view, values or [], can_ask=not as_json and sys.stdin.isatty())
        except (MowdeckError, KeyboardInterrupt, typer.Abort):
            with contextlib.suppress(MowdeckError):  # it may have ended, or the host is away: the first error counts
                client.request("DELETE", f"/config/flows/{view['flow_id']}")
            raise
        result = view["result"]
        if as_json:
            print_json(result)
        elif result["type"] == "create_entry":
            console.print(f"Added: {plain(result['title'])}.")
        else:
            console.print(f"Not added: {plain(result.get('reason'))}.")
    if result["type"] != "create_entry":
        raise typer.Exit(FAILED)


def _walk(client: HostClient, view: dict[str, Any], values: list[str], *, can_ask: bool) -> dict[str, Any]:
    given = values
    while view["result"]["type"] not in ENDS:
        if view["result"]["type"] == "progress":
            view = await_work(client, view)
            continue
        answer = answer_form(view["result"], given, can_ask=can_ask)
        given = []  # said once; asked again only by a person
        view = client.post(f"/config/flows/{view['flow_id']}", {"user_input": answer})
    return view


def _show_status(found: dict[str, Any], names: dict[str, str]) -> None:
    link, uplink, recorder, clock = found["link"], found["uplink"], found["recorder"], found["clock"]
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_row("box", f"{plain(found['name'])} ({found['version']}), up since {_local(found['started_at'])}")
    table.add_row(
        "clock", ("right" if clock["is_trusted"] else "[yellow]not synchronised[/]") + f" ({clock['quality']})"
    )
    table.add_row("records", "being kept" if recorder["is_recording"] else "[yellow]waiting in memory[/]")
    if found["disk"] is not None:
        free, used = found["disk"]["free_bytes"] / 2**30, found["disk"]["database_bytes"] / 2**20
        table.add_row("disk", f"{free:.1f} GiB free, {used:.1f} MiB of records")
    words = link["status"] if link["status"] != "linked" else f"linked to {plain(link['relay_url'])}"
    if uplink is not None:
        words += f", {'online' if uplink['is_online'] else '[yellow]offline[/]'}, {uplink['backlog_rows']} rows waiting"
    table.add_row("relay", words)
    doors: dict[str, list[str]] = {}
    for door in found["mowers"]:
        doors.setdefault(door["mower_id"], []).append(_door(door))
    for mower_id, words_of_links in doors.items():
        table.add_row("mower", f"{plain(names.get(mower_id, mower_id))} {'; '.join(words_of_links)}")
    console.print(table)
    for problem in found["problems"]:
        console.print(f"[yellow]! {plain(problem)}[/]", soft_wrap=True)


def _door(door: dict[str, Any]) -> str:
    """One link of a mower: what it is doing, over which kind when it is up, and else why it is not."""
    if door["phase"] == "online" and not door.get("has_reported", True):
        return f"looking for it ({plain(door['link'])})"
    if door["phase"] == "online":
        return f"online ({plain(door['link'])})" if door.get("link") else "online"
    return str(door["phase"]) + (f": {plain(door['detail'])}" if door.get("detail") else "")


def _local(text: str) -> str:
    return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M")
