"""Whether a person can read the flow: English and German hold the same keys, and what the flow uses is there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from core.platform.contract.finding import Finding
from core.platform.contract.source_text import UsedTexts, used_texts
from core.platform.fields import Field
from core.platform.flow import AbortResult, ConfigFlow, FlowResult, FormResult, MenuResult

LANGUAGES = {"en": "strings.json", "de": "translations/de.json"}
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


def read_texts(folder: Path) -> tuple[dict[str, dict[str, str]], list[Finding]]:
    """Language -> dotted key -> text, and a finding for each file that cannot be read."""
    texts: dict[str, dict[str, str]] = {}
    findings = []
    for language, name in LANGUAGES.items():
        try:
            tree = msgspec.json.decode((folder / name).read_bytes(), type=dict[str, Any])
        except (OSError, msgspec.DecodeError, RecursionError) as err:
            findings.append(Finding(area="texts", name=name, status="failed", detail=f"cannot be read: {err}"))
            continue
        texts[language] = dict(_leaves(tree))
        findings.append(_judge(name, texts[language]))
    return texts, findings


def _leaves(tree: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value if isinstance(value, str) else ""


def _judge(name: str, texts: Mapping[str, str]) -> Finding:
    empty = [key for key, text in texts.items() if not text.strip()]
    if empty:
        return Finding(area="texts", name=name, status="failed", detail=f"without a text: {_some(empty)}")
    return Finding(area="texts", name=name, status="passed", detail=f"{len(texts)} texts")


def compare(texts: Mapping[str, Mapping[str, str]]) -> Finding:
    """The languages side by side: keys, and the placeholders in each text."""
    name = "languages"
    if set(texts) != set(LANGUAGES):
        return Finding(area="texts", name=name, status="failed", detail="English or German is missing")
    english, german = texts["en"], texts["de"]
    parts = []
    if missing := english.keys() - german.keys():
        parts.append(f"not in German: {_some(missing)}")
    if stray := german.keys() - english.keys():
        parts.append(f"only in German: {_some(stray)}")
    other = [key for key in english.keys() & german.keys() if _slots(english[key]) != _slots(german[key])]
    if other:
        parts.append(f"other placeholders in German: {_some(other)}")
    if parts:
        return Finding(area="texts", name=name, status="failed", detail="; ".join(parts))
    return Finding(area="texts", name=name, status="passed", detail="the same keys and placeholders")


def _slots(text: str) -> set[str]:
    return set(_PLACEHOLDER.findall(text))


def cover(
    texts: Mapping[str, str],
    folder: Path,
    flow_class: type[ConfigFlow],
    shown: Mapping[str, tuple[Field, ...]],
    first: FlowResult | None,
) -> Finding:
    """Whether what the flow names literally, and what its first step shows, has a text in `texts`."""
    name = "used by the flow"
    try:
        used = used_texts(folder / "config_flow.py")
    except (OSError, SyntaxError, UnicodeDecodeError) as err:
        return Finding(area="texts", name=name, status="failed", detail=f"config_flow.py cannot be read: {err}")
    shared = (f"config.{key}" for key in flow_class.shared_texts())
    wanted = {*_of_source(used, flow_class, shown), *_of_result(first), *shared}
    missing = [key for key in wanted if key not in texts]
    if missing:
        return Finding(area="texts", name=name, status="failed", detail=f"strings.json lacks {_some(missing)}")
    return Finding(area="texts", name=name, status="passed", detail=f"{len(wanted)} found")


def _of_source(used: UsedTexts, flow_class: type[ConfigFlow], shown: Mapping[str, tuple[Field, ...]]) -> Iterator[str]:
    for step, schema in used.forms:
        yield from _of_form(step, shown.get(schema or "", ()))
    for step, options in used.menus.items():
        yield from _of_menu(step, options)
    yield from (f"config.error.{word}" for word in used.errors)
    yield from (f"config.abort.{word}" for word in used.aborts)
    yield from (f"config.progress.{word}" for word in used.actions)
    if "set_unique_id" in used.calls:
        yield from ("config.abort.already_configured", "config.abort.already_in_progress")
    for source in ("reauth", "reconfigure"):
        if "update_entry" in used.calls and hasattr(flow_class, f"step_{source}"):
            yield f"config.abort.{source}_successful"


def _of_result(result: FlowResult | None) -> Iterator[str]:
    match result:
        case FormResult(step_id=step_id, fields=fields):
            yield from _of_form(step_id, fields)
        case MenuResult(step_id=step_id, options=options):
            yield from _of_menu(step_id, options)
        case AbortResult(reason=reason):
            yield f"config.abort.{reason}"
        case _:
            return


def _of_form(step: str, fields: Iterable[Field]) -> Iterator[str]:
    yield f"config.step.{step}.title"
    yield from (f"config.step.{step}.data.{field['name']}" for field in fields)


def _of_menu(step: str, options: Iterable[str]) -> Iterator[str]:
    yield f"config.step.{step}.title"
    yield from (f"config.step.{step}.menu_options.{option}" for option in options)


def _some(keys: Iterable[str]) -> str:
    ordered = sorted(keys)
    return ", ".join(ordered[:8]) + (f" and {len(ordered) - 8} more" if len(ordered) > 8 else "")
