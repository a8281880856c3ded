"""`mowdeck db`: what is in a telemetry file of a box or relay, whether it hangs together, and what thinning would do.
The file is only read; its host may run meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from core.command_line.exit_codes import FAILED
from core.command_line.terminal import JsonOption, console, errors, plain, print_json, told
from core.domain import limits
from core.domain.errors import InvalidInputError
from core.storage.sqlite_inspection import FileSize, find_faults, measure_file, open_to_look
from core.storage.thinning_forecast import TrackForecast, forecast

app = typer.Typer(no_args_is_help=True, help="Look into a telemetry file; its host may run meanwhile.")

FileArgument = Annotated[Path, typer.Argument(help="telemetry.sqlite3 of a box or relay.")]


@app.callback()
def database() -> None:
    """Look into a telemetry file; its host may run meanwhile."""


@app.command()
def stats(file: FileArgument, as_json: JsonOption = False) -> None:
    """Rows and bytes by table and mower, oldest and newest row, what the relay has yet to get, and free space."""
    with told(as_json=as_json):
        with open_to_look(file) as connection:
            size = measure_file(connection)
        if as_json:
            print_json(msgspec.to_builtins(size))
            return
        console.print(
            f"{plain(file)}: version {size.version}, {_mib(size.file_bytes)}, {_mib(size.free_bytes)} of it free"
        )
        if size.backlog_numbers is not None:
            console.print(f"{size.backlog_numbers} numbers of the journal are not acknowledged by a relay")
        console.print(table_sizes(size))
        console.print(mower_sizes(size))


@app.command()
def check(file: FileArgument, as_json: JsonOption = False) -> None:
    """Whether the file is whole and its tables agree. Ends with 1 when something is wrong."""
    with told(as_json=as_json):
        with open_to_look(file) as connection:
            found = find_faults(connection)
        if as_json:
            print_json(msgspec.to_builtins(found))
        elif not found:
            console.print("Nothing is wrong.")
        for finding in () if as_json else found:
            console.print(f"[red]{finding.code}[/]: {plain(finding.detail)}", soft_wrap=True)
            console.print(f"       {plain(finding.advice)}", soft_wrap=True)
    if found:
        raise typer.Exit(FAILED)


@app.command()
def thin(
    file: FileArgument,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Needed: only the host itself thins, at night.")] = False,
    detail_days: Annotated[int, typer.Option(min=7, help="14 on a box, 90 on a relay, unless set otherwise.")] = 14,
    positions_days: Annotated[int, typer.Option(min=0, help="Retention of the track; 0 is for ever.")] = (
        limits.POSITIONS_RETENTION.days
    ),
    as_json: JsonOption = False,
) -> None:
    """Show what thinning and retention of the track would take away now."""
    with told(as_json=as_json):
        if not dry_run:
            raise InvalidInputError.of("--dry-run", "is needed: only the host itself thins, at night")
        if 0 < positions_days < detail_days:
            raise InvalidInputError.of("--positions-days", "must be 0 or at least the detail days")
        with open_to_look(file) as connection, _progress(is_shown=not as_json) as on_progress:
            found = forecast(
                connection,
                datetime.now(UTC),
                detail=timedelta(days=detail_days),
                retention=timedelta(days=positions_days) if positions_days else None,
                on_progress=on_progress,
            )
        if as_json:
            print_json(msgspec.to_builtins(found))
        else:
            console.print(forecasts(found))


def table_sizes(size: FileSize) -> Table:
    """Tables with rows."""
    table = _table("table", "rows", "bytes", "bytes/row")
    for one in sorted(size.tables, key=lambda t: (-(t.used_bytes or 0), t.name)):
        if one.rows:
            each = "" if one.used_bytes is None else f"{one.used_bytes / one.rows:.1f}"
            table.add_row(one.name, str(one.rows), "" if one.used_bytes is None else str(one.used_bytes), each)
    return table


def mower_sizes(size: FileSize) -> Table:
    """Mowers with their share."""
    table = _table("mower", "history", "track", "bytes", "oldest", "newest")
    for one in size.mowers:
        used = "" if one.used_bytes is None else str(one.used_bytes)
        times = ["" if at is None else f"{at:%Y-%m-%d %H:%M}Z" for at in (one.oldest_at, one.newest_at)]
        table.add_row(plain(one.mower_id), str(one.history_rows), str(one.position_rows), used, *times)
    return table


def forecasts(found: list[TrackForecast]) -> Table:
    """Tracks by age: too young, thinned already, to be thinned, too old."""
    table = _table("mower", "young", "thinned already", "old", "would be thinned", "error", "older than kept")
    for one in found:
        share = f" ({100 * one.thinned_rows / one.scanned_rows:.0f} %)" if one.scanned_rows else ""
        numbers = (one.young_rows, one.behind_rows, one.scanned_rows)
        error = f"{one.error_m:.3f} m"
        table.add_row(
            plain(one.mower_id), *map(str, numbers), f"{one.thinned_rows}{share}", error, str(one.expired_rows)
        )
    return table


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    return table


def _mib(count: int) -> str:
    return f"{count / 2**20:.1f} MiB"


@contextmanager
def _progress(*, is_shown: bool) -> Iterator[Callable[[int, int], None]]:
    columns = (TextColumn("old rows"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors, disable=not is_shown, transient=True) as progress:
        task = progress.add_task("old rows", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
