"""`mowdeck ble proxies`: ESPHome Bluetooth proxies of the box; list, add, remove."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from core.command_line.terminal import HostOption, JsonOption, console, open_host, plain, print_json, told
from core.domain.errors import InvalidInputError, NotFoundError

app = typer.Typer(help="ESPHome Bluetooth proxies: list them, add and remove them.")

PATH = "/box/bluetooth/proxies"
PORT = 6053


@app.callback(invoke_without_command=True)
def proxies(context: typer.Context, host: HostOption = None, as_json: JsonOption = False) -> None:
    """List the proxies with their state, and the ESPHome devices that the network offers."""
    if context.invoked_subcommand is not None:
        return
    with told(as_json=as_json), open_host(host) as client:
        found = client.get(PATH)
        print_json(found) if as_json else _show(found)


@app.command()
def add(
    address: Annotated[str, typer.Argument(help="Host name or IP address of the proxy.")],
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Port of its API.")] = PORT,
    key_file: Annotated[
        Path | None, typer.Option(help="File with its encryption key; without one you are asked for it.")
    ] = None,
    has_key: Annotated[bool, typer.Option("--key/--no-key", help="Whether it encrypts.")] = True,
    host: HostOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add a proxy. Its key stands under `api: encryption: key:` of its ESPHome configuration."""
    with told(as_json=as_json), open_host(host) as client:
        body = {"host": address, "port": port, "encryption_key": _key(key_file) if has_key else None}
        added = client.post(PATH, body)
        if as_json:
            print_json(added)
        else:
            console.print(f"Added {plain(address)}. `mowdeck ble proxies` says how it is.")


@app.command()
def remove(
    proxy: Annotated[str, typer.Argument(help="Its name, address or id, as in the list.")],
    host: HostOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a proxy go; the box forgets its key."""
    with told(as_json=as_json), open_host(host) as client:
        found = [one for one in client.get(PATH)["items"] if proxy in (one["proxy_id"], one["host"], one["name"])]
        if len(found) != 1:
            raise NotFoundError(
                f"{len(found)} proxies are called {proxy}", hint="`mowdeck ble proxies` lists them with their ids."
            )
        client.request("DELETE", f"{PATH}/{found[0]['proxy_id']}")
        if as_json:
            print_json({"removed": found[0]["proxy_id"]})
        else:
            console.print(f"Removed {plain(found[0]['name'] or found[0]['host'])}.")


def _key(file: Path | None) -> str:
    """Never an argument: those are seen in the list of processes and stay in the shell's history."""
    if file is None:
        return str(typer.prompt("Encryption key", hide_input=True)).strip()
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as err:
        raise InvalidInputError.of("key_file", f"{file} cannot be read") from err


def _show(found: dict[str, Any]) -> None:
    if not found["items"]:
        console.print("This box uses no Bluetooth proxies.")
    else:
        console.print(_table(found["items"]))
        for one in found["items"]:
            if one["reason"]:
                name = plain(one["name"] or one["host"])
                console.print(f"{name}: {plain(one['reason'])}. {plain(one['hint'] or '')}", soft_wrap=True)
    for offer in found["offers"]:
        kind = "a Bluetooth proxy" if offer["is_proxy"] else "an ESPHome device"
        key = "" if offer["is_encrypted"] else " --no-key"
        port = "" if offer["port"] == PORT else f" --port {offer['port']}"
        console.print(
            f"In the network: {plain(offer['name'])}, {kind}: mowdeck ble proxies add {plain(offer['host'])}{port}{key}",
            soft_wrap=True,
        )


def _table(items: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("proxy", "address", "state", "connections free", "encrypted", "firmware", "id"):
        table.add_column(heading, no_wrap=heading == "id")
    for one in items:
        slots = "" if one["slots"] is None else f"{one['slots_free']} of {one['slots']}"
        table.add_row(
            plain(one["name"] or ""),
            plain(f"{one['host']}:{one['port']}"),
            one["state"].replace("_", " "),
            slots,
            "yes" if one["is_encrypted"] else "no",
            plain(one["firmware"] or ""),
            one["proxy_id"],
        )
    return table
