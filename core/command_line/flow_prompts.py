"""Answers to a config flow's form: from `name=value` words, else asked of the person at the terminal."""

from __future__ import annotations

import time
from typing import Any

import typer

from core.command_line.host_client import HostClient
from core.command_line.terminal import errors, plain
from core.domain.errors import ConflictError, InvalidInputError, Mistake

ENDS = ("create_entry", "abort")
POLL_S = 0.5

Texts = dict[str, Any]
"""An integration's texts under `config`, in the person's language."""


def await_work(client: HostClient, view: dict[str, Any], texts: Texts | None = None) -> dict[str, Any]:
    """The flow once its work (pairing, signing in) is done; says what is being done meanwhile, in the integration's
    own `texts` if they are given."""
    result = view["result"]
    action = str(result.get("action", "working"))
    said = fill_in(str((texts or {}).get("progress", {}).get(action) or f"{action} ..."), result)
    with errors.status(plain(said)):
        while view["result"]["type"] == "progress":
            time.sleep(POLL_S)
            view = client.get(f"/config/flows/{view['flow_id']}")
    return view


def fill_in(text: str, result: dict[str, Any]) -> str:
    """A text with the placeholders of a step put into it."""
    for name, value in (result.get("placeholders") or {}).items():
        text = text.replace("{" + name + "}", str(value))
    return text


def answer_form(
    result: dict[str, Any], given: list[str], *, can_ask: bool, texts: Texts | None = None, confirm: str = ""
) -> dict[str, Any]:
    """The user input for a form, menu or confirmation. InvalidInputError for words that fit no field, ConflictError
    for a step that needs a person when nobody can be asked. `confirm` is asked where there is nothing to fill in."""
    if result["type"] == "menu":
        return _choose(result, given, can_ask=can_ask)
    if result["type"] != "form":
        raise ConflictError(f"this step ({result['type']}) needs the web app")
    fields = {field["name"]: field for field in result["fields"]}
    _tell_errors(result, (texts or {}).get("error", {}), can_ask=can_ask)
    if can_ask and not fields and confirm:
        typer.confirm(confirm, default=True, abort=True)
    answer = {}
    for word in given:
        name, separator, text = word.partition("=")
        if not separator or name not in fields:
            raise InvalidInputError.of(name, f"is no field of this form; it has: {', '.join(fields) or 'none'}")
        answer[name] = _convert(fields[name], text)
    if can_ask and not given:
        for name, field in fields.items():
            answer[name] = _ask(name, field)
    return {name: value for name, value in answer.items() if value is not None}


def _tell_errors(result: dict[str, Any], words: Texts, *, can_ask: bool) -> None:
    found = result.get("errors") or {}
    if not found:
        return
    if not can_ask:
        raise InvalidInputError(mistakes=tuple(Mistake(field=k, reason=str(v)) for k, v in found.items()))
    for name, reason in found.items():
        said = fill_in(str(words.get(reason) or reason), result)
        where = "" if name == "base" else f"{name}: "
        errors.print(f"[red]{plain(where + said)}[/]", highlight=False, soft_wrap=True)


def _choose(result: dict[str, Any], given: list[str], *, can_ask: bool) -> dict[str, Any]:
    options = list(result["options"])
    if len(given) == 1 and given[0] in options:
        return {"next_step_id": given[0]}
    if not can_ask:
        raise ConflictError(f"choose one of: {', '.join(options)}")
    return {"next_step_id": typer.prompt(f"One of {', '.join(options)}")}


def _convert(field: dict[str, Any], text: str) -> Any:
    kind = field.get("type")
    try:
        if kind == "integer":
            return int(text)
        if kind == "float":
            return float(text)
    except ValueError as err:
        raise InvalidInputError.of(field["name"], "must be a number") from err
    if kind == "boolean":
        if text.lower() not in {"true", "false", "yes", "no", "on", "off"}:
            raise InvalidInputError.of(field["name"], "must be true or false")
        return text.lower() in {"true", "yes", "on"}
    return text


def _ask(name: str, field: dict[str, Any]) -> Any:
    default = field.get("suggested_value", field.get("default"))
    if field.get("type") == "boolean":
        return typer.confirm(name, default=bool(default))
    options = field.get("options")
    label = name if not options else f"{name} ({', '.join(str(o[0] if isinstance(o, list) else o) for o in options)})"
    is_secret = field.get("format") == "password"
    shown: Any = default if default is not None else ("" if not field.get("required") else None)
    text = str(typer.prompt(label, default=shown, hide_input=is_secret))
    return _convert(field, text) if text else None
