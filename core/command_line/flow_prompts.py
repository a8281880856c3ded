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


def await_work(client: HostClient, view: dict[str, Any]) -> dict[str, Any]:
    """The flow once its work (pairing, signing in) is done; says what is being done meanwhile."""
    with errors.status(f"{view['result'].get('action', 'working')} ..."):
        while view["result"]["type"] == "progress":
            time.sleep(POLL_S)
            view = client.get(f"/config/flows/{view['flow_id']}")
    return view


def answer_form(result: dict[str, Any], given: list[str], *, can_ask: bool) -> dict[str, Any]:
    """The user input for a form, menu or confirmation. InvalidInputError for words that fit no field, ConflictError
    for a step that needs a person when nobody can be asked."""
    if result["type"] == "menu":
        return _choose(result, given, can_ask=can_ask)
    if result["type"] != "form":
        raise ConflictError(f"this step ({result['type']}) needs the web app")
    fields = {field["name"]: field for field in result["fields"]}
    _tell_errors(result, can_ask=can_ask)
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


def _tell_errors(result: dict[str, Any], *, can_ask: bool) -> None:
    found = result.get("errors") or {}
    if not found:
        return
    if not can_ask:
        raise InvalidInputError(mistakes=tuple(Mistake(field=k, reason=str(v)) for k, v in found.items()))
    for name, reason in found.items():
        errors.print(f"[red]{plain(name)}[/]: {plain(reason)}", highlight=False)


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
