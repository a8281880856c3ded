"""`mowdeck relay ...`."""

from __future__ import annotations

import asyncio
import os
import sys

import typer

from cloud_relay.settings import load_settings
from core.command_line.exit_codes import USAGE
from core.domain.errors import MowdeckError, SettingsError
from core.settings.log import configure_logging

app = typer.Typer(no_args_is_help=True, help="The relay: many accounts, their boxes and their mowers.")


@app.callback()
def relay() -> None:
    """The relay: many accounts, their boxes and their mowers."""


@app.command()
def run() -> None:
    """Run the relay until SIGTERM or Ctrl-C (a second one does not wait). Settings: MOWDECK_RELAY_*, docs/settings.md."""
    try:
        settings = load_settings(os.environ)
        configure_logging(settings.log_level, settings.log_format)
        from cloud_relay.app import run as run_relay

        asyncio.run(run_relay(settings))
    except SettingsError as err:
        for mistake in err.mistakes:
            _say(f"{mistake.field}: {mistake.reason}")
        raise typer.Exit(USAGE) from err
    except MowdeckError as err:
        _say(f"{err.detail} ({err.advice})")
        raise typer.Exit(USAGE) from err


def _say(text: str) -> None:
    sys.stderr.write(f"mowdeck relay: {text}\n")
