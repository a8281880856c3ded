"""`mowdeck register`, `sign-in`, `sign-out`."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from core.command_line.host_client import HostClient
from core.command_line.settings import load_settings
from core.command_line.terminal import HostOption, JsonOption, console, open_host, print_json, told

HostArgument = Annotated[str, typer.Argument(help="Address of the box or relay, e.g. http://127.0.0.1:8481")]
UserOption = Annotated[str | None, typer.Option("--username", "-u", help="User name; asked when not given.")]


def register(
    host: HostArgument,
    username: UserOption = None,
    account: Annotated[str | None, typer.Option("--account", help="Name of the household or company.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Make the owner account: of a new box, or of a new household or company on a relay."""
    with told(as_json=as_json):
        name = username or typer.prompt("User name")
        password = _password(is_new=True)
        with HostClient(load_settings(os.environ), host) as client:
            body = {"username": name, "password": password, "account_name": account or name}
            client.request("POST", "/identity/register", body=body, is_public=True)
        _sign_in(host, name, password, as_json=as_json)


def sign_in(host: HostArgument, username: UserOption = None, as_json: JsonOption = False) -> None:
    """Sign in at a box or relay; later commands use it."""
    with told(as_json=as_json):
        name = username or typer.prompt("User name")
        _sign_in(host, name, _password(is_new=False), as_json=as_json)


def sign_out(host: HostOption = None, as_json: JsonOption = False) -> None:
    """End the session at a host."""
    with told(as_json=as_json), open_host(host) as client:
        client.forget()
        print_json({"host": client.host}) if as_json else console.print(f"Signed out at {client.host}.")


def _password(*, is_new: bool) -> str:
    given = load_settings(os.environ).password
    return given if given is not None else str(typer.prompt("Password", hide_input=True, confirmation_prompt=is_new))


def _sign_in(host: str, name: str, password: str, *, as_json: bool) -> None:
    with HostClient(load_settings(os.environ), host) as client:
        body = {"username": name, "password": password}
        tokens = client.request("POST", "/identity/session", body=body, is_public=True)
        client.keep(tokens, name, is_last=True)
        if as_json:
            print_json({"host": client.host, "username": name})
        else:
            console.print(f"Signed in at {client.host} as {name}.")
