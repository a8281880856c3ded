"""`mowdeck health`: how worn a mower is, and telling that its blades were changed."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

from core.command_line.mowers import find_mower
from core.command_line.terminal import HostOption, JsonOption, console, open_host, plain, print_json, told

DAYS_SHOWN = 7


def health(
    mower: Annotated[str, typer.Argument(help="Name or id, or the beginning of either.")],
    blades_changed: Annotated[bool, typer.Option("--blades-changed", help="New blades were put on now.")] = False,
    note: Annotated[str, typer.Option(help="What to remember of the change.")] = "",
    blade_interval: Annotated[float | None, typer.Option(help="Hours after which blades are due.")] = None,
    host: HostOption = None,
    as_json: JsonOption = False,
) -> None:
    """Totals, blades, battery and faults of a mower."""
    with told(as_json=as_json), open_host(host) as client:
        found = find_mower(client, mower)
        mower_id = found["mower_id"]
        if blade_interval is not None:
            client.request("PUT", f"/fleet/mowers/{mower_id}/blades/interval", body={"interval_h": blade_interval})
        if blades_changed:
            client.post(f"/fleet/mowers/{mower_id}/blades/changed", {"note": note})
        report = client.get(f"/telemetry/mowers/{mower_id}/health")
        days = client.get(f"/telemetry/mowers/{mower_id}/health/days")["items"][-DAYS_SHOWN:]
        if as_json:
            print_json({**report, "recent_days": days})
            return
        for line in summary_lines(found["name"], report):
            console.print(line)
        if days:
            console.print(day_table(days))


def summary_lines(name: str, report: dict[str, Any]) -> list[str]:
    """What a person wants to know first."""
    if not report["days"]:
        return [f"{plain(name)}: nothing is known of its health yet."]
    totals, blades = report["totals"], report["blades"]
    way = "unknown" if totals["distance_m"] is None else f"{totals['distance_m'] / 1000:.1f} km"
    used = f"{blades['used_h']:.1f} of {blades['interval_h']:g} h"
    since = f"since {blades['changed_at'][:10]}" if blades["changed_at"] else "since the first day"
    lines = [
        f"[bold]{plain(name)}[/], {report['days']} days since {report['since']}",
        (
            f"mowing {_hours(totals['mowing_s'])}, charging {_hours(totals['charging_s'])}, way {way}, "
            f"{totals['area_jobs']} jobs, {totals['charge_cycles']} charges"
        ),
        f"blades {used} {since}" + (" [red]change them[/]" if blades["is_due"] else ""),
        f"battery: {_battery(report['battery']['mowing'])}",
    ]
    lines += [
        f"fault {plain(error['code'])} ({error['error_class']}): {error['count']} times, last {error['last_day']}"
        for error in report["errors"][:5]
    ]
    return lines


def day_table(days: list[dict[str, Any]]) -> Table:
    """The newest days."""
    table = Table(box=None, pad_edge=False)
    for heading in ("day", "mowing", "charging", "way", "faults", "observed"):
        table.add_column(heading, no_wrap=True)
    for day in days:
        way = day.get("distance_m")
        table.add_row(
            day["day"],
            _hours(day.get("mowing_s", 0)),
            _hours(day.get("charging_s", 0)),
            "" if way is None else f"{way / 1000:.1f} km",
            str(sum(error.get("count", 0) for error in day.get("errors", []))),
            _hours(day.get("observed_s", 0)),
        )
    return table


def _battery(trend: dict[str, Any]) -> str:
    if trend["seconds_per_percent"] is None:
        return "unknown, it has not been used enough"
    words = f"one per cent lasts {trend['seconds_per_percent']:.0f} s"
    if trend["direction"] == "unknown":
        return f"{words}; too few days for a trend"
    low, high = trend["change_low_percent"], trend["change_high_percent"]
    return f"{words}, {trend['direction']} ({low:+.1f} to {high:+.1f} % a month)"


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h"
