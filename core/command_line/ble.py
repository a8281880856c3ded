"""`mowdeck ble`: who is near the box over Bluetooth, and leaving mowers alone for the vendor's app."""

from __future__ import annotations

import time
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.live import Live
from rich.table import Table

from core.command_line import proxies
from core.command_line.host_client import HostClient
from core.command_line.terminal import HostOption, JsonOption, console, open_host, plain, print_json, told
from core.domain.errors import InvalidInputError

app = typer.Typer(no_args_is_help=True, help="The box's Bluetooth: who is near, and leaving mowers alone.")
app.add_typer(proxies.app, name="proxies")

EVERY_S = 1.0
WIDTHS = {"signal": 8, "dBm": 4, "pairable": 8, "address": len("AA:BB:CC:DD:EE:FF")}
"""Columns that are of no use cut short: an address is what `mowdeck pair` takes."""
FULL_DBM, NONE_DBM = -50, -100
"""Strengths of a full and of an empty bar."""


@app.callback()
def ble() -> None:
    """The box's Bluetooth: who is near, and leaving mowers alone."""


@app.command()
def scan(
    every: Annotated[bool, typer.Option("--all", help="Also what no integration knows.")] = False,
    seconds: Annotated[float | None, typer.Option(help="End after this time; 0 shows it once.")] = None,
    host: HostOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the mowers that the box hears, with their signal, as they come (Ctrl-C ends)."""
    with told(as_json=as_json), open_host(host) as client:
        if as_json or seconds == 0:
            found = client.get("/box/bluetooth")
            print_json(found) if as_json else console.print(_table(found, every=every))
            return
        end = None if seconds is None else time.monotonic() + seconds
        with Live(console=console, auto_refresh=False) as live:
            while end is None or time.monotonic() < end:
                live.update(_table(client.get("/box/bluetooth"), every=every), refresh=True)
                time.sleep(EVERY_S)


@app.command()
def ignored(
    device: Annotated[str | None, typer.Argument(help="Offer this one again: its name or its id.")] = None,
    host: HostOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the mowers that are never offered (mowdeck pair --ignore), or let one be offered again."""
    with told(as_json=as_json), open_host(host) as client:
        items = client.get("/config/ignored")["items"]
        wanted = None if device is None else _find_ignored(items, device)
        if wanted is not None:
            client.request("DELETE", f"/config/ignored/{wanted['domain']}/{quote(wanted['unique_id'], safe='')}")
            items.remove(wanted)
        if as_json:
            print_json({"items": items})
        elif wanted is not None:
            console.print(f"{plain(wanted['title'])} is offered again when it is heard.", highlight=False)
        else:
            lines = [f"{plain(one['title'])}  {plain(one['unique_id'])}  {plain(one['domain'])}" for one in items]
            console.print("\n".join(lines) or "None is ignored.", highlight=False)


def _find_ignored(items: list[dict[str, Any]], device: str) -> dict[str, Any]:
    key = device.casefold()
    fits = [one for one in items if key in (one["unique_id"].casefold(), one["title"].casefold())]
    if len(fits) != 1:
        raise InvalidInputError.of("device", "say which one, by its id" if fits else "is not ignored")
    return fits[0]


@app.command()
def release(
    minutes: Annotated[float, typer.Argument(help="For how long; 0 takes the mowers back at once.")] = 10.0,
    host: HostOption = None,
    as_json: JsonOption = False,
) -> None:
    """Leave all mowers alone for some minutes, so that the vendor's app can connect."""
    with told(as_json=as_json), open_host(host) as client:
        found = _release(client, minutes)
        if as_json:
            print_json(found)
        elif found["released_for_s"] > 0:
            left = round(found["released_for_s"] / 60)
            console.print(f"The box leaves all mowers alone for {left} minute{'' if left == 1 else 's'}.")
        else:
            console.print("The box connects to its mowers again.")


def _release(client: HostClient, minutes: float) -> dict[str, Any]:
    found: dict[str, Any] = client.post("/box/bluetooth/release", {"minutes": minutes})
    return found


def _table(found: dict[str, Any], *, every: bool) -> Table:
    adapters = ", ".join(
        f"{a['title'] or a['name']} ({'scanning' if a['is_scanning'] else a['reason'] or 'not scanning'}, "
        f"{a['slots_used']} of {a['slots']} connections)"
        for a in found["adapters"]
    )
    table = Table(
        box=None, pad_edge=False, title=plain(adapters) or "This box has no Bluetooth adapter.", title_justify="left"
    )
    table.caption = (
        "\n".join(f"{plain(a['name'])}: {plain(a['advice'])}" for a in found["adapters"] if a.get("advice")) or None
    )
    for heading in ("signal", "dBm", "mower", "integration", "pairable", "address", "heard by", "seen"):
        table.add_column(heading, no_wrap=True, min_width=WIDTHS.get(heading))
    for near in found["nearby"]:
        if every or near["domains"]:
            table.add_row(
                bar(near["rssi_dbm"]),
                str(near["rssi_dbm"]),
                plain(near["name"] or ""),
                ", ".join(near["domains"]),
                _pairable(near),
                near["address"],
                plain(near["source"]),
                f"{near['seen_s_ago']:.0f} s",
            )
    return table


def _pairable(near: dict[str, Any]) -> str:
    """What the mower itself says of pairing now; most say nothing, and can be tried. `no`: nothing can connect to it."""
    if not near["is_connectable"]:
        return "no"
    return {True: "yes", False: "not now", None: "not told"}[near.get("is_pairable")]


def bar(rssi_dbm: int, width: int = 8) -> str:
    """The signal as a bar; an empty one is too weak to connect."""
    share = (rssi_dbm - NONE_DBM) / (FULL_DBM - NONE_DBM)
    full = round(max(0.0, min(1.0, share)) * width)
    return "▮" * full + "▯" * (width - full)
