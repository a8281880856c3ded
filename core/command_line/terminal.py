"""The rim of every command: settings in, errors out as a sentence, a hint and an exit status."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from core.command_line.exit_codes import INTERRUPTED, exit_code_of
from core.command_line.host_client import HostClient
from core.command_line.settings import load_settings
from core.domain.errors import InvalidInputError, MowdeckError

console = Console()
errors = Console(stderr=True)

HostOption = Annotated[
    str | None, typer.Option("--host", help="Address of the box or relay; by default the one signed in to last.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Answer as JSON on standard output, for scripts.")]


@contextmanager
def told(*, as_json: bool) -> Iterator[None]:
    """Turns a MowdeckError into words on stderr (with --json: an object on stdout) and the exit status."""
    try:
        yield
    except MowdeckError as err:
        tell(err, as_json=as_json)
        raise typer.Exit(exit_code_of(err)) from err
    except (KeyboardInterrupt, typer.Abort) as err:
        raise typer.Exit(INTERRUPTED) from err


def tell(err: MowdeckError, *, as_json: bool) -> None:
    """Says what went wrong and what to do."""
    mistakes = err.mistakes if isinstance(err, InvalidInputError) else ()
    if as_json:
        named = [{"field": m.field, "reason": m.reason} for m in mistakes]
        print_json({"error": {"code": err.code, "detail": err.detail, "hint": err.advice, "mistakes": named}})
        return
    if mistakes:
        for mistake in mistakes:
            errors.print(
                f"[bold red]error[/]: {plain(mistake.field)}: {plain(mistake.reason)}", highlight=False, soft_wrap=True
            )
    else:
        errors.print(f"[bold red]error[/]: {plain(err.detail)}", highlight=False, soft_wrap=True)
    if err.advice:
        errors.print(f"       {plain(err.advice)}", highlight=False, soft_wrap=True)


def plain(text: object) -> str:
    """Words that somebody else chose (names, reasons), for a line with markup: no markup and no control characters,
    so that a mower's name cannot steer the terminal."""
    return escape("".join(c if c.isprintable() else " " for c in str(text)))


def print_json(value: Any) -> None:
    """One JSON value and a new line on stdout, at once (a pipe may be reading)."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def open_host(host: str | None) -> HostClient:
    """A client for the chosen host."""
    return HostClient(load_settings(os.environ), host)
