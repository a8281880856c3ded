"""`mowdeck link`: give the box to an account on a relay, or confirm the code that a box shows."""

from __future__ import annotations

import time
from typing import Annotated, Any

import segno
import typer

from core.command_line.exit_codes import FAILED
from core.command_line.host_client import HostClient
from core.command_line.terminal import HostOption, JsonOption, console, errors, open_host, plain, print_json, told

POLL_S = 1.0


def link(
    relay: Annotated[str | None, typer.Argument(help="Address of the relay that the box is to be linked to.")] = None,
    host: HostOption = None,
    confirm: Annotated[
        str | None, typer.Option("--confirm", metavar="CODE", help="On the relay: confirm the code that a box shows.")
    ] = None,
    end: Annotated[bool, typer.Option("--end", help="On the box: end its link.")] = False,
    wait: Annotated[bool, typer.Option(help="Wait until the code is confirmed.")] = True,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before confirming.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Link a box to a relay (RELAY), confirm its code (--confirm), end the link (--end), or show it."""
    with told(as_json=as_json), open_host(host) as client:
        if sum((relay is not None, confirm is not None, end)) > 1:
            raise typer.BadParameter("give only one of RELAY, --confirm and --end")
        if confirm is not None:
            _confirm(client, confirm, is_sure=yes or as_json, as_json=as_json)
        elif end:
            client.request("DELETE", "/box/link")
            _show(client.get("/box/link"), as_json=as_json)
        elif relay is not None:
            _start(client, relay, wait=wait, as_json=as_json)
        else:
            _show(client.get("/box/link"), as_json=as_json)


def _start(client: HostClient, relay: str, *, wait: bool, as_json: bool) -> None:
    view = client.post("/box/link", {"relay_url": relay})
    _show(view, as_json=as_json)
    if not wait:
        return
    with errors.status("Waiting for the code to be confirmed ..."):
        while view["status"] == "waiting":
            time.sleep(POLL_S)
            view = client.get("/box/link")
    _show(view, as_json=as_json)
    if view["status"] != "linked":
        raise typer.Exit(FAILED)


def _confirm(client: HostClient, code: str, *, is_sure: bool, as_json: bool) -> None:
    box = client.get(f"/edges/link/{code}")
    if not as_json:
        console.print(
            f"The box calls itself [bold]{plain(box['name'])}[/] (version {plain(box['version'])}), "
            f"asked from {plain(box['remote'])}."
        )
    if not is_sure and not typer.confirm("Link it to your account?"):
        raise typer.Exit(FAILED)
    edge = client.post(f"/edges/link/{code}/confirm", {})
    print_json(edge) if as_json else console.print(f"Linked: {plain(edge.get('name'))} ({edge.get('edge_id')}).")


def _show(view: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(view)
    elif view["status"] == "linked":
        console.print(f"Linked to {plain(view['relay_url'])} as {view['edge_id']}.")
    elif view["status"] == "waiting":
        console.print(f"Open {plain(view['verification_uri'])} and enter [bold]{plain(view['user_code'])}[/], or scan:")
        if console.is_terminal:
            segno.make(view["verification_uri_complete"], error="l").terminal(compact=True)
        console.print(
            f"or: mowdeck link --host {plain(view['relay_url'])} --confirm {plain(view['user_code'])}", soft_wrap=True
        )
    else:
        console.print("Not linked." + (f" Last attempt: {plain(view['problem'])}." if view.get("problem") else ""))
