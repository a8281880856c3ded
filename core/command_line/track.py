"""`mowdeck track`: the track of a mower as a file."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.progress import DownloadColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TransferSpeedColumn

from core.command_line.mowers import find_mower
from core.command_line.terminal import HostOption, JsonOption, console, errors, open_host, plain, print_json, told
from core.domain.errors import InvalidInputError, StorageError

Format = Literal["gpx", "geojson", "csv"]
FORMATS: tuple[Format, ...] = ("gpx", "geojson", "csv")

app = typer.Typer(no_args_is_help=True, help="The track of a mower as a file.")


@app.callback()
def track() -> None:
    """The track of a mower as a file."""


@app.command()
def export(
    mower: Annotated[str, typer.Argument(help="Name or id of the mower (or its unique beginning).")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The file; it appears when it is whole.")],
    start: Annotated[str | None, typer.Option("--from", help="ISO time; without an offset your own zone's.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="The same; without it: until now.")] = None,
    kind: Annotated[str | None, typer.Option("--format", help="gpx, geojson or csv; by default by the file.")] = None,
    host: HostOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write every stored row of a track; without --from the last 24 hours."""
    with told(as_json=as_json):
        chosen = choose_format(kind, output)
        query = {"format": chosen} | {
            name: moment(f"--{name}", text).isoformat() for name, text in (("from", start), ("to", end)) if text
        }
        with open_host(host) as client:
            found = find_mower(client, mower)
            path = f"/telemetry/mowers/{found['mower_id']}/positions"
            with client.stream(path, query) as pieces:
                size = write_whole(output, shown(pieces, "track", is_shown=not as_json))
        if as_json:
            print_json({"file": str(output), "format": chosen, "bytes": size})
        else:
            console.print(f"{plain(output)}: the track of {plain(found['name'])}, {size} bytes.", soft_wrap=True)


def choose_format(kind: str | None, output: Path) -> Format:
    """The one that is asked for, else by the file's name. InvalidInputError."""
    name = kind if kind is not None else output.suffix.removeprefix(".").lower()
    if name not in FORMATS:
        raise InvalidInputError.of("--format", f"must be one of {', '.join(FORMATS)}")
    return name


def moment(option: str, text: str) -> datetime:
    """A time as a person writes it, in UTC. InvalidInputError names the option."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError) as err:
        raise InvalidInputError.of(option, f"{text!r} is no time, e.g. 2026-06-01T08:00") from err


def write_whole(path: Path, pieces: Iterator[bytes]) -> int:
    """Writes beside the file and puts it in place when all is there and on the disk; its size. An old file stays until
    then, and nothing is left of one that breaks off. StorageError; whatever `pieces` raises."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    size = 0
    try:
        try:
            with draft.open("xb") as file:
                for piece in pieces:
                    size += file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        except OSError as err:
            raise StorageError(f"{path} cannot be written: {err.strerror}") from err
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise
    return size


def shown(pieces: Iterator[bytes], name: str, *, is_shown: bool) -> Iterator[bytes]:
    """The pieces, with what has come on the terminal. How many there will be nobody knows."""
    columns = (SpinnerColumn(), TextColumn(name), DownloadColumn(), TransferSpeedColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors, disable=not is_shown, transient=True) as progress:
        task = progress.add_task(name, total=None)
        for piece in pieces:
            yield piece
            progress.advance(task, len(piece))
