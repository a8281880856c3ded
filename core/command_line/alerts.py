"""`mowdeck alerts`: what is wrong with the mowers, taking care of it, and files of evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from core.command_line.mowers import find_mower
from core.command_line.terminal import HostOption, JsonOption, console, open_host, plain, print_json, told
from core.domain.errors import InvalidInputError
from core.telemetry.evidence_chain import find_flaw

app = typer.Typer(help="Alerts of the mowers.", invoke_without_command=True)

AlertArgument = Annotated[str, typer.Argument(help="The alert's id.")]


@app.callback()
def alerts(
    context: typer.Context,
    mower: Annotated[str | None, typer.Option(help="Only of this mower: name or id, or the beginning.")] = None,
    are_all: Annotated[bool, typer.Option("--all", help="Closed ones too.")] = False,
    host: HostOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the open alerts."""
    if context.invoked_subcommand is not None:
        return
    with told(as_json=as_json), open_host(host) as client:
        names = {m["mower_id"]: m["name"] for m in client.get("/fleet/mowers")["items"]}
        path = "/alerts" if mower is None else f"/mowers/{find_mower(client, mower)['mower_id']}/alerts"
        found = client.get(path, is_open=None if are_all else "true")["items"]
        if as_json:
            print_json(found)
        elif not found:
            console.print("No alerts.")
        else:
            console.print(alert_table(found, names))


@app.command()
def ack(
    alert: AlertArgument,
    note: Annotated[str, typer.Option(help="What to remember.")] = "",
    close: Annotated[bool, typer.Option("--close", help="Close it as well.")] = False,
    host: HostOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say that you take care of an alert."""
    with told(as_json=as_json), open_host(host) as client:
        answer = client.post(f"/alerts/{alert}/acknowledge", {"note": note, "close": close})
        if as_json:
            print_json(answer)
        else:
            console.print(f"Acknowledged by {plain(answer['acknowledged']['by'])}.")


@app.command()
def evidence(
    alert: AlertArgument,
    out: Annotated[Path | None, typer.Option(help="The file; by default evidence-ALERT.jsonl.")] = None,
    host: HostOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write what was seen around an alert to a file that shows every later change."""
    with told(as_json=as_json), open_host(host) as client:
        found = client.get(f"/alerts/{alert}/evidence")
        file = Path(f"evidence-{found['alert_id']}.jsonl") if out is None else out
        try:
            file.write_text("".join(f"{line}\n" for line in found["lines"]), encoding="utf-8", newline="")
        except OSError as err:
            raise InvalidInputError.of("out", f"{file}: {err.strerror}") from err
        if as_json:
            print_json({"file": str(file), "lines": len(found["lines"]), "truncated": found["truncated"]})
            return
        console.print(f"{len(found['lines'])} lines in {plain(file)}")
        if found["truncated"]:
            console.print("There was more than one file holds: the latest part is missing.")


@app.command()
def verify(
    file: Annotated[Path, typer.Argument(help="A file that `mowdeck alerts evidence` has written.")],
    as_json: JsonOption = False,
) -> None:
    """Check that a file of evidence is as it was written."""
    with told(as_json=as_json):
        try:
            lines = file.read_bytes().removesuffix(b"\n").split(b"\n")
        except OSError as err:
            raise InvalidInputError.of("file", f"{file}: {err.strerror}") from err
        flaw = find_flaw(lines)
        if flaw is not None:
            raise InvalidInputError.of("file", f"{file}, line {flaw.line}: {flaw.why}")
        if as_json:
            print_json({"file": str(file), "lines": len(lines), "is_intact": True})
        else:
            console.print(f"{plain(file)}: all {len(lines)} lines are as they were written.")


def alert_table(found: list[dict[str, Any]], names: dict[str, str]) -> Table:
    """Alerts as the host orders them."""
    table = Table(box=None, pad_edge=False)
    for heading in ("mower", "alert", "severity", "since", "what", "state", "id"):
        table.add_column(heading, no_wrap=heading != "what")
    for alert in found:
        newest = alert["evidence"][-1] if alert["evidence"] else {}
        verdict = newest.get("verdict")
        words = verdict if verdict is None else f"{verdict} ({', '.join(newest.get('signs', []))})"
        table.add_row(
            plain(names.get(alert["mower_id"], alert["mower_id"])),
            plain(alert["kind"]),
            plain(alert["severity"]),
            alert["since"][:19].replace("T", " "),
            plain(words or alert["cause"]),
            _state(alert),
            plain(alert["alert_id"]),
        )
    return table


def _state(alert: dict[str, Any]) -> str:
    if alert["closed"] is not None:
        return f"closed ({alert['closed']['why']})"
    said = alert["acknowledged"]
    return "open" if said is None else f"acknowledged by {plain(said['by'])}"
