"""`mowdeck command`: one command to one mower, and what became of it."""

from __future__ import annotations

import difflib
import json
import time
from typing import Annotated, Any

import msgspec
import typer

from core.command_line.exit_codes import FAILED, UNKNOWN
from core.command_line.host_client import HostClient, may_have_arrived
from core.command_line.mowers import find_mower
from core.command_line.terminal import HostOption, JsonOption, console, errors, open_host, plain, print_json, tell, told
from core.domain import commands as words
from core.domain.errors import InvalidInputError, MowdeckError, RateLimitedError, UnavailableError

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
            issued = _issue(client, f"/fleet/mowers/{target['mower_id']}/commands", body, as_json=as_json)
            view = _await_end(client, issued, is_quiet=as_json) if wait else issued
    status = str(view["status"])
    if as_json:
        print_json(view)
    else:
        reason = f": {plain(view['reason'])}" if view.get("reason") else ""
        console.print(f"{plain(target['name'])}: {body['kind']} {status}{reason}", soft_wrap=True)
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
        if name == "kind" or name in fields:
            raise InvalidInputError.of(name, "is given twice")
        fields[name] = value.split(",") if name == "area_ids" else _value(value)
    body = {"kind": tag, **fields}
    if tag not in words.KINDS:
        near = difflib.get_close_matches(tag, words.KINDS, n=1)
        advice = f"did you mean {near[0]}?" if near else f"one of: {', '.join(words.KINDS)}"
        raise InvalidInputError.of("kind", f"{kind!r} is not a command; {advice}")
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


def _issue(client: HostClient, path: str, body: dict[str, Any], *, as_json: bool) -> dict[str, Any]:
    try:
        issued: dict[str, Any] = client.post(path, {"command": body})
    except UnavailableError as err:
        if not may_have_arrived(err):
            raise
        tell(err, as_json=as_json)
        raise typer.Exit(UNKNOWN) from err
    return issued


def _await_end(client: HostClient, issued: dict[str, Any], *, is_quiet: bool) -> dict[str, Any]:
    """What has become of it. A host that does not answer meanwhile is asked again: the command is on its way."""
    path = f"/fleet/commands/{issued['command_id']}"
    view = issued
    deadline = time.monotonic() + GRACE_S + 30.0
    seen = ""
    while view["status"] in {"pending", "accepted"} and time.monotonic() < deadline:
        if view["status"] != seen and not is_quiet:
            seen = view["status"]
            errors.print(f"[dim]{seen} ...[/]")
        time.sleep(POLL_S)
        try:
            view = client.get(path)
        except (UnavailableError, RateLimitedError):
            continue
        except MowdeckError as err:  # the sign-in has ended, say: only we have lost sight of it
            errors.print(f"[red]{plain(err.detail)}[/]", highlight=False, soft_wrap=True)
            break
    return view
