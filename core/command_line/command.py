"""`mowdeck command`: one command to one mower, and what became of it."""

from __future__ import annotations

import json
import time
from typing import Annotated, Any

import msgspec
import typer

from core.command_line.exit_codes import FAILED, UNKNOWN
from core.command_line.host_client import HostClient
from core.command_line.mowers import find_mower
from core.command_line.terminal import HostOption, JsonOption, console, errors, open_host, print_json, told
from core.domain import commands as words
from core.domain.errors import InvalidInputError

POLL_S = 0.3
GRACE_S = 30.0
"""Beyond the command's own deadline: the effect of an accepted command may take that long to show."""


def command(
    mower: Annotated[str, typer.Argument(help="Name or id of the mower (or its unique beginning).")],
    kind: Annotated[str, typer.Argument(help=f"One of: {', '.join(words.KINDS)}.")],
    parameters: Annotated[
        list[str] | None, typer.Argument(help="name=value, e.g. area_ids=front height_mm=40 duration_s=600")
    ] = None,
    wait: Annotated[bool, typer.Option(help="Wait for what becomes of it.")] = True,
    host: HostOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send a command, e.g. `mowdeck command Shaun start_mow area_ids=front`. `stop` is short for emergency_stop."""
    with told(as_json=as_json):
        body = parse_command(kind, parameters or [])
        with open_host(host) as client:
            target = find_mower(client, mower)
            issued = client.post(f"/fleet/mowers/{target['mower_id']}/commands", {"command": body})
            view = _await_end(client, issued, is_quiet=as_json) if wait else issued
    status = str(view["status"])
    if as_json:
        print_json(view)
    else:
        reason = f": {view['reason']}" if view.get("reason") else ""
        console.print(f"{target['name']}: {body['kind']} {status}{reason}", soft_wrap=True)
    if status in {"rejected", "expired", "failed"}:
        raise typer.Exit(FAILED)
    if wait and status != "executed":
        raise typer.Exit(UNKNOWN)


def parse_command(kind: str, parameters: list[str]) -> dict[str, Any]:
    """The command as JSON; InvalidInputError says what is wrong with it before anything is sent."""
    tag = "emergency_stop" if kind == "stop" else kind
    fields: dict[str, Any] = {}
    for parameter in parameters:
        name, separator, value = parameter.partition("=")
        if not separator:
            raise InvalidInputError.of(parameter, "must be name=value")
        fields[name] = value.split(",") if name == "area_ids" else _value(value)
    body = {"kind": tag, **fields}
    if tag not in words.KINDS:
        raise InvalidInputError.of("kind", f"{kind!r} is not a command; one of: {', '.join(words.KINDS)}")
    try:
        msgspec.convert(body, words.Command)
    except msgspec.ValidationError as err:
        raise InvalidInputError.of(tag, str(err)) from err
    return body


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _await_end(client: HostClient, issued: dict[str, Any], *, is_quiet: bool) -> dict[str, Any]:
    path = f"/fleet/commands/{issued['command_id']}"
    view: dict[str, Any] = client.get(path)
    deadline = time.monotonic() + GRACE_S + 30.0
    seen = ""
    while view["status"] in {"pending", "accepted"} and time.monotonic() < deadline:
        if view["status"] != seen and not is_quiet:
            seen = view["status"]
            errors.print(f"[dim]{seen} ...[/]")
        time.sleep(POLL_S)
        view = client.get(path)
    return view
