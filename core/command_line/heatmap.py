"""`mowdeck heatmap`: what was mown, or how good fix and signals were, as a picture or as numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from core.command_line.mowers import find_mower
from core.command_line.terminal import HostOption, JsonOption, console, open_host, plain, print_json, told
from core.command_line.track import moment, shown, write_whole
from core.domain.errors import InvalidInputError

LAYERS = ("coverage", "rtk", "wifi", "mobile")
KINDS = ("png", "json")


def heatmap(
    mower: Annotated[str, typer.Argument(help="Name or id of the mower (or its unique beginning).")],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The file, .png or .json; it appears when it is whole.")
    ],
    layer: Annotated[str, typer.Option(help="coverage, rtk, wifi or mobile.")] = "coverage",
    start: Annotated[str | None, typer.Option("--from", help="ISO time; without an offset your own zone's.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="The same; without it: until now.")] = None,
    cell_m: Annotated[
        float | None, typer.Option("--cell", help="Metres; by default 0.25 for coverage, else 1.")
    ] = None,
    width_m: Annotated[
        float | None, typer.Option("--width", help="Metres that the mower cuts; by default 0.22.")
    ] = None,
    host: HostOption = None,
    as_json: JsonOption = False,
) -> None:
    """Draw a heatmap of a mower's lawn; without --from of the last 7 days."""
    with told(as_json=as_json):
        kind = output.suffix.removeprefix(".").lower()
        if kind not in KINDS:
            raise InvalidInputError.of("--output", "must end in .png or .json")
        if layer not in LAYERS:
            raise InvalidInputError.of("--layer", f"must be one of {', '.join(LAYERS)}")
        query = {"layer": layer, "format": kind}
        query |= {name: moment(f"--{name}", text).isoformat() for name, text in (("from", start), ("to", end)) if text}
        query |= {name: f"{value:g}" for name, value in (("cell_m", cell_m), ("width_m", width_m)) if value is not None}
        with open_host(host) as client:
            found = find_mower(client, mower)
            with client.stream(f"/telemetry/mowers/{found['mower_id']}/heatmap", query) as pieces:
                size = write_whole(output, shown(pieces, "heatmap", is_shown=not as_json))
        if as_json:
            print_json({"file": str(output), "layer": layer, "format": kind, "bytes": size})
        else:
            console.print(f"{plain(output)}: {layer} of {plain(found['name'])}, {size} bytes.", soft_wrap=True)
