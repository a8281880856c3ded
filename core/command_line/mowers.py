"""`mowdeck mowers`: all mowers of a host with their latest state; and how a name finds a mower."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from rich.table import Table

from core.command_line.host_client import HostClient
from core.command_line.terminal import HostOption, JsonOption, console, open_host, plain, print_json, told
from core.domain.errors import InvalidInputError


def mowers(host: HostOption = None, as_json: JsonOption = False) -> None:
    """List the mowers with their latest state."""
    with told(as_json=as_json), open_host(host) as client:
        found = client.get("/fleet/mowers")["items"]
        states = {s["mower_id"]: s for s in client.get("/telemetry/states")["items"]}
        if as_json:
            print_json([{**m, "latest": states.get(m["mower_id"])} for m in found])
            return
        if not found:
            console.print("No mowers yet. Add one on the box: mowdeck edge add simulator")
            return
        console.print(mower_table(found, {i: s["state"] for i, s in states.items()}, datetime.now(UTC)))


def mower_table(
    found: list[dict[str, Any]], states: dict[str, dict[str, Any]], now: datetime, *, are_links_new: bool = True
) -> Table:
    """The mowers as a table; a state that is old says so. `are_links_new`: how each link is was asked just now; later
    only the active one is known, from the state."""
    table = Table(box=None, pad_edge=False)
    for heading in ("mower", "state", "battery", "RTK", "area", "link", "seen", "id"):
        table.add_column(heading, no_wrap=heading != "state")
    for mower in sorted(found, key=lambda m: m["name"].casefold()):
        state = states.get(mower["mower_id"], {})
        table.add_row(
            plain(mower["name"]),
            _words(mower, state),
            _percent(state),
            plain(state.get("rtk_fix") or ""),
            plain(state.get("current_area") or ""),
            _links(mower.get("link_states", []) if are_links_new else [], state),
            _age(state.get("observed_at"), now),
            mower["mower_id"],
        )
    return table


def find_mower(client: HostClient, wanted: str) -> dict[str, Any]:
    """The mower with this id, name, or unique beginning of either. InvalidInputError says which there are."""
    found = client.get("/fleet/mowers")["items"]
    key = wanted.casefold()
    exact = [m for m in found if key in {m["mower_id"], m["name"].casefold()}]
    near = exact or [m for m in found if m["name"].casefold().startswith(key) or m["mower_id"].startswith(key)]
    if len(near) == 1:
        mower: dict[str, Any] = near[0]
        return mower
    names = ", ".join(sorted(m["name"] for m in (near or found))) or "none"
    reason = "fits several mowers" if near else "there is no such mower"
    raise InvalidInputError.of("mower", f"{wanted!r}: {reason} (known: {names})")


def _words(mower: dict[str, Any], state: dict[str, Any]) -> str:
    if mower.get("setup_error"):
        return f"[red]not set up: {plain(mower['setup_error'])}[/]"
    if not state:
        return "[dim]has not reported yet[/]"
    words = plain(state.get("activity", "unknown"))
    error = state.get("error")
    if error:
        words = f"[red]{words}: {plain(error.get('text') or error.get('code'))}[/]"
    if state.get("connectivity") == "offline":
        words += " [yellow](offline)[/]"
    return words


def _links(links: list[dict[str, Any]], state: dict[str, Any]) -> str:
    """The link that a command would take first, then the others that are up, then those that are not."""
    if not links:
        return plain((state.get("signals") or {}).get("active_link") or "")
    words = [f"[bold]{plain(link['kind'])}[/]" if link["is_active"] else _link(link) for link in links]
    return ", ".join(words)


def _link(link: dict[str, Any]) -> str:
    word = link["kind"] if link["state"] == "up" else f"{link['kind']} {link['state']}"
    return f"[dim]{plain(word)}[/]" if link["state"] == "up" else f"[yellow]{plain(word)}[/]"


def _percent(state: dict[str, Any]) -> str:
    battery = state.get("battery_percent")
    if battery is None:
        return ""
    return f"{battery} %" + (" +" if state.get("is_charging") else "")


def _age(observed_at: str | None, now: datetime) -> str:
    if observed_at is None:
        return ""
    seconds = max(0, int((now - datetime.fromisoformat(observed_at)).total_seconds()))
    if seconds < 60:
        return f"{seconds} s ago"
    words = f"{seconds // 60} min ago" if seconds < 7200 else f"{seconds // 3600} h ago"
    return f"[yellow]{words}[/]"
