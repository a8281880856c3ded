"""`mowdeck emulate <integration>`: mowers to try things on, on a virtual radio that a box on this machine joins."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from core.command_line.exit_codes import FAILED, USAGE
from core.domain.errors import MowdeckError

app = typer.Typer(
    help="Emulated mowers on a virtual Bluetooth radio.",
    context_settings={"allow_interspersed_args": True},
)


@app.callback(invoke_without_command=True)
def emulate(
    domain: Annotated[str, typer.Argument(help="Integration whose emulated mower is wanted.")],
    radio: Annotated[str, typer.Option(help="unix:/path or tcp:127.0.0.1:port (0 takes a free one).")] = "tcp::0",
    control: Annotated[str, typer.Option(help="The same, for faults on demand; empty: none.")] = "",
    address: Annotated[list[str] | None, typer.Option(help="Bluetooth address; once per mower.")] = None,
    proxy: Annotated[
        str, typer.Option(help="tcp:127.0.0.1:port of an emulated ESPHome Bluetooth proxy; empty: none.")
    ] = "",
    proxy_key_file: Annotated[Path | None, typer.Option(help="File with the proxy's encryption key.")] = None,
    option: Annotated[list[str] | None, typer.Option(help="name=value for the emulator.")] = None,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            help="What is wrong from the beginning: a word, or 'weak -91'; see what `help` says when it runs."
        ),
    ] = None,
    keys: Annotated[
        Path | None, typer.Option(help="File in which the mowers remember who is paired; by default they forget.")
    ] = None,
) -> None:
    """Put emulated mowers on the air until Ctrl-C. Prints `READY <radio> <control>` when a box can join,
    and `PROXY <address>` before it if one is wanted. While it runs, faults may be typed, one a line: `help` shows them."""
    try:
        from edge_agent.virtual_radio.emulation import run_emulation
    except ImportError as err:
        typer.echo(f"{err.name} is missing: pip install 'mowdeck[ble,emulate]'", err=True)
        raise typer.Exit(FAILED) from err
    try:
        asyncio.run(
            run_emulation(
                domain,
                radio=radio,
                control=control,
                addresses=address or [],
                proxy=proxy,
                proxy_key_file=proxy_key_file,
                options=dict(pair.partition("=")[::2] for pair in option or []),
                keys=keys,
                faults=fault or [],
                typed_fd=0,
                say=lambda text: print(text, file=sys.stdout, flush=True),  # noqa: T201  (its output)
            )
        )
    except KeyboardInterrupt:
        return
    except MowdeckError as err:
        typer.echo(f"{err} ({err.advice})", err=True)
        raise typer.Exit(USAGE) from err
    except OSError as err:
        typer.echo(f"the radio, its control or its keys cannot be had there: {err.strerror or err}", err=True)
        raise typer.Exit(USAGE) from err
