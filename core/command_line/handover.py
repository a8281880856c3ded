"""`mowdeck handover`: give config entries with their secrets from the installer's box to the household's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import segno
import typer

from core.command_line.host_client import HostClient
from core.command_line.terminal import HostOption, JsonOption, console, errors, open_host, plain, print_json, told
from core.domain.errors import ConflictError, InvalidInputError
from core.platform.durable_file import DurableFile

app = typer.Typer(no_args_is_help=True, help="Hand config entries over from one box to another.")

DAYS = 14.0
FILE_BYTES = 1024 * 1024

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@app.callback()
def handover() -> None:
    """Hand config entries over from one box to another."""


@app.command()
def key(host: HostOption = None, as_json: JsonOption = False) -> None:
    """On the household's box: show the key that a bundle has to be made for."""
    with told(as_json=as_json), open_host(host) as client:
        found = client.get("/box/handover/key")
        if as_json:
            print_json(found)
            return
        console.print(f"Key of this box:   [bold]{plain(found['public_key'])}[/]", highlight=False, soft_wrap=True)
        console.print(f"Its fingerprint:   [bold]{plain(found['fingerprint'])}[/]", highlight=False)
        if console.is_terminal:
            segno.make(found["public_key"], error="l").terminal(compact=True)
        console.print("Give the key to the installer, and compare the fingerprint over the phone or by eye.")


@app.command()
def export(
    file: Annotated[Path, typer.Argument(help="File to write; it must not be there.")],
    to: Annotated[str, typer.Option("--to", metavar="KEY", help="What `mowdeck handover key` shows at the other box.")],
    entry: Annotated[
        list[str] | None, typer.Option("--entry", help="Title or id of an entry; may be given several times.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All entries of this box.")] = False,
    days: Annotated[float, typer.Option(min=0.01, max=90, help="For how long the bundle is good.")] = DAYS,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the entries here once the file is written.")] = False,
    yes: YesOption = False,
    host: HostOption = None,
    as_json: JsonOption = False,
) -> None:
    """On the installer's box: write chosen entries into a file that only the other box can open."""
    with told(as_json=as_json), open_host(host) as client:
        if file.exists():
            raise InvalidInputError.of("file", f"{file} is there already; each bundle has a file of its own")
        chosen = _choose(client.get("/config/entries")["items"], entry or [], every=every)
        body = {"entry_ids": [one["entry_id"] for one in chosen], "recipient": to, "days": days}
        made = client.post("/box/handover/exports", body)
        if not as_json:
            titles = ", ".join(plain(one["title"]) for one in chosen)
            errors.print(f"{titles}, for the box with the fingerprint {made['recipient']}.", highlight=False)
        if not (yes or as_json):
            typer.confirm("Is that its fingerprint?", default=True, abort=True)
        _write(file, made["bundle"])
        removed = _remove(client, chosen, is_asked=remove)
        if as_json:
            print_json(_without_bundle(made) | {"file": str(file), "removed": removed})
            return
        _tell_export(file, made, removed)


def _tell_export(file: Path, made: dict[str, Any], removed: list[str]) -> None:
    console.print(f"Written: {plain(file)}, good until {plain(made['expires_at'])}.", highlight=False, soft_wrap=True)
    if removed:
        console.print("The entries are removed here; only the file has them now.")
    else:
        console.print(
            "This box still has the entries. Remove them once the other box has imported the file, so that two boxes do "
            "not fight over one mower.",
            soft_wrap=True,
        )


def _choose(entries: list[dict[str, Any]], wanted: list[str], *, every: bool) -> list[dict[str, Any]]:
    if every == bool(wanted):
        raise InvalidInputError.of("--entry", "name entries, or say --all")
    if every and not entries:
        raise InvalidInputError.of("--all", "this box has no entries")
    chosen: dict[str, dict[str, Any]] = {}
    for word in [] if every else wanted:
        fits = [e for e in entries if word == e["entry_id"] or word.casefold() == str(e["title"]).casefold()]
        if len(fits) != 1:
            known = "; ".join(f"{e['title']} ({e['entry_id']})" for e in entries) or "none"
            reason = "say its id, several have this title" if fits else "there is no such entry"
            raise InvalidInputError.of("--entry", f"{word}: {reason} (known: {known})")
        chosen[fits[0]["entry_id"]] = fits[0]
    return entries if every else list(chosen.values())


def _write(file: Path, text: str) -> None:
    """On the disk, and read back, when this returns."""
    durable = DurableFile(file)
    durable.write_now(text.encode(), durable.ask())
    if durable.read() != text.encode():
        raise ConflictError(f"{file} does not hold what was written to it; nothing was removed")


def _remove(client: HostClient, chosen: list[dict[str, Any]], *, is_asked: bool) -> list[str]:
    removed = []
    for one in chosen if is_asked else []:
        client.request("DELETE", f"/config/entries/{one['entry_id']}")
        removed.append(one["entry_id"])
    return removed


def _without_bundle(made: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in made.items() if name != "bundle"}


@app.command("import")
def take(
    file: Annotated[Path, typer.Argument(help="The bundle.")],
    even_if_missing: Annotated[
        bool, typer.Option("--even-if-missing", help="Also entries whose integration is not installed here yet.")
    ] = False,
    yes: YesOption = False,
    host: HostOption = None,
    as_json: JsonOption = False,
) -> None:
    """On the household's box: look into a bundle, and import it (once)."""
    with told(as_json=as_json), open_host(host) as client:
        body = {"bundle": _read(file)}
        if not as_json:
            _show(client.post("/box/handover/checks", body))
        if not (yes or as_json):
            typer.confirm("Import it?", default=True, abort=True)
        done = client.post("/box/handover/imports", {**body, "even_if_missing": even_if_missing})
        if as_json:
            print_json(done)
            return
        names = ", ".join(plain(one["title"]) for one in done["entries"])
        console.print(f"Imported: {names}. No mower moves for that.", highlight=False)
        pairing = [one["title"] for one in done["bundle"]["entries"] if one["needs_pairing"]]
        if pairing:
            console.print(
                f"Pair anew, for Bluetooth bonds stay with the box that made them: {plain(', '.join(pairing))} "
                "(mowdeck pair, beside the mower).",
                soft_wrap=True,
            )


def _read(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            data = stream.read(FILE_BYTES + 1)
        if len(data) > FILE_BYTES:
            raise InvalidInputError.of("file", "is too large for a bundle")
        return data.decode("utf-8")
    except OSError as err:
        raise InvalidInputError.of("file", f"cannot be read: {err}") from err
    except UnicodeDecodeError as err:
        raise InvalidInputError.of("file", "is no handover bundle, or was damaged") from err


def _show(found: dict[str, Any]) -> None:
    console.print(
        f"Made at {plain(found['created_at'])} by a box that calls itself {plain(found['from_box'])}, "
        f"good until {plain(found['expires_at'])}:",
        highlight=False,
        soft_wrap=True,
    )
    for one in found["entries"]:
        mowers = f": {', '.join(one['mowers'])}" if one["mowers"] else ""
        pairing = "  (has to be paired here)" if one["needs_pairing"] else ""
        console.print(f"  {plain(one['title'])} ({plain(one['domain'])}){plain(mowers)}{pairing}", highlight=False)
    for one in found["missing"]:
        console.print(
            f"  [yellow]missing[/] {plain(one['domain'])}: {plain(one['reason'])}. {plain(one['remedy'])}",
            highlight=False,
            soft_wrap=True,
        )
