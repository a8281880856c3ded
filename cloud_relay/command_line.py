"""`mowdeck relay ...`."""

from __future__ import annotations

import typer

from core.command_line.host_daemon import become

app = typer.Typer(no_args_is_help=True, help="The relay: many accounts, their boxes and their mowers.")


@app.callback()
def relay() -> None:
    """The relay: many accounts, their boxes and their mowers."""


@app.command()
def run() -> None:
    """Run the relay until SIGTERM or Ctrl-C (a second one does not wait). Settings: MOWDECK_RELAY_*, docs/settings.md."""
    become("cloud_relay")
