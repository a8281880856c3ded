"""The root of `mowdeck`. The hosts' own commands (`edge`, `relay`) come from the entry points `mowdeck.commands`,
so that core imports neither host, and are loaded only when they are called.
"""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint, entry_points, version
from typing import Annotated

import typer

from core.command_line.account import register, sign_in, sign_out
from core.command_line.alerts import app as alerts
from core.command_line.ble import app as ble
from core.command_line.command import command
from core.command_line.database import app as database
from core.command_line.demo import demo
from core.command_line.drive import drive
from core.command_line.handover import app as handover
from core.command_line.health import health
from core.command_line.heatmap import heatmap
from core.command_line.integration import app as integration
from core.command_line.link import link
from core.command_line.mowers import mowers
from core.command_line.pair import pair
from core.command_line.sessions import sessions
from core.command_line.survey import survey
from core.command_line.track import app as track
from core.command_line.watch import watch

GROUP = "mowdeck.commands"


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mowdeck {version('mowdeck')}")
        raise typer.Exit


def build(arguments: list[str]) -> typer.Typer:
    """The command tree; of the hosts' commands only the one called, or all for help and after a typo."""
    app = typer.Typer(
        name="mowdeck", no_args_is_help=True, pretty_exceptions_show_locals=False, help="Robot mowers of many brands."
    )

    @app.callback()
    def root(
        _: Annotated[
            bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
        ] = False,
    ) -> None:
        """Robot mowers of many brands from one place."""

    for function in (
        register,
        sign_in,
        sign_out,
        link,
        mowers,
        health,
        heatmap,
        sessions,
        watch,
        command,
        drive,
        pair,
        survey,
        demo,
    ):
        app.command()(function)
    app.add_typer(alerts, name="alerts")
    app.add_typer(ble, name="ble")
    app.add_typer(integration, name="integration")
    app.add_typer(handover, name="handover")
    app.add_typer(track, name="track")
    app.add_typer(database, name="db")
    called = next((a for a in arguments if not a.startswith("-")), None)
    points = {point.name: point for point in entry_points(group=GROUP)}
    own = {c.name or getattr(c.callback, "__name__", "").replace("_", "-") for c in app.registered_commands}
    wanted = [] if called in own else [points[called]] if called in points else list(points.values())
    for point in wanted:
        app.add_typer(_load(point), name=point.name)
    return app


def _load(point: EntryPoint) -> typer.Typer:
    loaded = point.load()
    if not isinstance(loaded, typer.Typer):
        raise TypeError(f"entry point {point.value} is not a typer application")
    return loaded


def main() -> None:
    """The console script."""
    build(sys.argv[1:])()
