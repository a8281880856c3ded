"""`mowdeck sessions`: what a mower has mown, job by job."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

from core.command_line.mowers import find_mower
from core.command_line.terminal import HostOption, JsonOption, console, open_host, plain, print_json, told

SHOWN = 20
KINDS = ("mowing", "driving", "charging", "docked", "paused", "error", "unseen")


def sessions(
    mower: Annotated[str, typer.Argument(help="Name or id, or the beginning of either.")],
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many, newest first.")] = SHOWN,
    host: HostOption = None,
    as_json: JsonOption = False,
) -> None:
    """The newest jobs of a mower, from leaving to docking (those of the last 30 days)."""
    with told(as_json=as_json), open_host(host) as client:
        found = find_mower(client, mower)
        answer = client.get(f"/telemetry/mowers/{found['mower_id']}/sessions", limit=limit)
        if as_json:
            print_json(answer["items"])
            return
        if not answer["items"]:
            console.print(f"{plain(found['name'])}: no sessions in the last 30 days.")
            return
        console.print(session_table(answer["items"]))
        if answer.get("cursor"):
            console.print(f"[dim]There are older ones: --limit (now {limit}).[/]")


def session_table(found: list[dict[str, Any]]) -> Table:
    """One line a session; what is not known stays empty."""
    table = Table(box=None, pad_edge=False)
    for heading in ("began (UTC)", "mowing", "in all", "way", "battery", "charges", "faults", "areas", "ended"):
        table.add_column(heading, no_wrap=heading != "areas")
    for session in found:
        way, battery = session.get("distance_m"), session.get("battery_used_percent")
        faults = ", ".join(f"{plain(error['code'])} x{error['count']}" for error in session.get("errors", []))
        table.add_row(
            ("" if session["is_start_known"] else "before ") + session["started_at"][:16].replace("T", " "),
            _minutes(session.get("mowing_s", 0)),
            _minutes(sum(session.get(f"{kind}_s", 0) for kind in KINDS)),
            "" if way is None else f"{way:.0f} m",
            "" if battery is None else f"{battery} %",
            str(session.get("charges", 0)),
            faults,
            ", ".join(plain(area) for area in session.get("areas", {}) if area),
            _ended(session),
        )
    return table


def _ended(session: dict[str, Any]) -> str:
    if session.get("ended_at") is None:
        waits_for = session.get("waits_for")
        return "goes on" if waits_for is None else f"goes on ({plain(waits_for)})"
    return f"{session['ended_at'][11:16]} {plain(session['ended_by']).replace('_', ' ')}"


def _minutes(seconds: float) -> str:
    minutes = int(seconds // 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d}"
