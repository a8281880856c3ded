"""`mowdeck pair`: the guided way to a Bluetooth mower that the box hears: what to press, progress, PIN, name."""

from __future__ import annotations

import locale
from pathlib import Path
from typing import Annotated, Any

import typer

from core.command_line.exit_codes import FAILED
from core.command_line.flow_prompts import ENDS, Texts, answer_form, await_work, fill_in
from core.command_line.host_client import HostClient
from core.command_line.terminal import HostOption, JsonOption, console, errors, open_host, plain, print_json, told
from core.domain.errors import InvalidInputError

_PAIR = "pair"
"""The step of an integration's reauth that pairs."""


def pair(
    mower: Annotated[str | None, typer.Argument(help="Address or name of the mower; by default the only one.")] = None,
    pin_file: Annotated[
        Path | None, typer.Option("--pin-file", help="File with the PIN, instead of being asked for it.")
    ] = None,
    ignore: Annotated[
        bool, typer.Option("--ignore", help="Do not pair it: never offer it again (see: mowdeck ble ignored).")
    ] = False,
    host: HostOption = None,
    as_json: JsonOption = False,
) -> None:
    """Pair a mower that the box hears over Bluetooth, step by step. With --json nothing is asked."""
    with told(as_json=as_json), open_host(host) as client:
        pin = None if pin_file is None else _read_pin(pin_file)
        flow = _choose(client, mower)
        if ignore:
            _ignore(client, flow, as_json=as_json)
            return
        texts = _texts(client, flow["domain"])
        result = _walk(client, flow, texts, pin=pin, can_ask=not as_json)
        if as_json:
            print_json(result)
        elif _is_paired(result):
            console.print(f"Paired: {plain(result.get('title') or _placeholders(flow).get('name') or flow['domain'])}.")
        else:
            words = texts.get("abort", {}).get(result.get("reason"), result.get("reason"))
            console.print(f"Not paired: {plain(str(words))}.")
    if not _is_paired(result):
        raise typer.Exit(FAILED)


def _is_paired(result: dict[str, Any]) -> bool:
    """A new mower makes an entry; one that was paired anew (handed over, or bond lost) has one."""
    return result["type"] == "create_entry" or result.get("reason") == "reauth_successful"


def _ignore(client: HostClient, flow: dict[str, Any], *, as_json: bool) -> None:
    client.request("DELETE", f"/config/flows/{flow['flow_id']}", query={"ignore": "true"})
    named = {key: _placeholders(flow).get(key) for key in ("name", "address")}
    if as_json:
        print_json(named)
    else:
        console.print(f"Not offered again: {plain(str(named['name']))}.", highlight=False)


def _choose(client: HostClient, wanted: str | None) -> dict[str, Any]:
    """The flow of the mower meant: one that was found, or one of an entry that has to be paired anew.
    InvalidInputError says which there are."""
    flows = client.get("/config/flows")["items"]
    found = [f for f in flows if f["source"] == "reauth" and "address" in _placeholders(f)]
    known = {_placeholders(f).get("address") for f in found}
    found += [f for f in flows if f["source"] == "discovery" and _placeholders(f).get("address") not in known]
    key = None if wanted is None else wanted.casefold()
    fits = [f for f in found if key is None or key in {str(v).casefold() for v in _placeholders(f).values()}]
    if len(fits) == 1:
        only: dict[str, Any] = fits[0]
        return only
    heard = "; ".join(sorted(f"{_placeholders(f).get('name')} ({_placeholders(f).get('address')})" for f in found))
    reason = "say which one" if len(fits) > 1 else "no such mower is heard"
    raise InvalidInputError.of("mower", f"{reason} (heard: {heard or 'none; mowdeck ble scan shows who is near'})")


def _placeholders(flow: dict[str, Any]) -> dict[str, Any]:
    return dict(flow["result"].get("placeholders") or {})


def _walk(client: HostClient, view: dict[str, Any], texts: Texts, *, pin: str | None, can_ask: bool) -> dict[str, Any]:
    while view["result"]["type"] not in ENDS:
        result = view["result"]
        if result["type"] == "progress":
            view = await_work(client, view, texts)
            continue
        if result["type"] == "menu" and _PAIR in result["options"]:
            view = client.post(f"/config/flows/{view['flow_id']}", {"user_input": {"next_step_id": _PAIR}})
            continue
        _tell_step(result, texts)
        given = []
        if any(field["name"] == "pin" for field in result.get("fields", [])) and pin is not None:
            given, pin = [f"pin={pin}"], None  # a PIN that was refused is never sent again
        answer = answer_form(result, given, can_ask=can_ask, texts=texts, confirm="Go on?")
        view = client.post(f"/config/flows/{view['flow_id']}", {"user_input": answer})
    ended: dict[str, Any] = view["result"]
    return ended


def _tell_step(result: dict[str, Any], texts: Texts) -> None:
    """Title and description of the step in the person's language, with what the integration fills in."""
    step = texts.get("step", {}).get(result.get("step_id"), {})
    for part in ("title", "description"):
        text = fill_in(str(step.get(part) or ""), result)
        if text:
            errors.print(plain(text), style="bold" if part == "title" else "", soft_wrap=True)


def _texts(client: HostClient, domain: str) -> Texts:
    language = (locale.getlocale()[0] or "en")[:2]
    for integration in client.get("/config/integrations")["items"]:
        if integration["domain"] == domain:
            by_language = integration.get("texts") or {}
            return dict((by_language.get(language) or by_language.get("en") or {}).get("config") or {})
    return {}


def _read_pin(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as err:
        raise InvalidInputError.of("--pin-file", f"cannot be read: {err}") from err
