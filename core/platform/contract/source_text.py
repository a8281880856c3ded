"""The Python files of a folder, read and never run: what they import, and which texts their flow uses."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

IO_MODULES = frozenset(
    {"aiohttp", "aiomqtt", "asyncio", "bleak", "http", "httpx", "paho", "requests", "select", "serial", "socket"}
    | {"socketserver", "sqlite3", "ssl", "subprocess", "threading", "urllib3", "websockets"}
)
"""A module that imports one of these does I/O, or waits."""


@dataclass(slots=True)
class UsedTexts:
    """Keys of texts that the code names literally; keys that it works out are not seen."""

    forms: list[tuple[str, str | None]] = field(default_factory=list)
    """Step, and the name of the module's schema that it shows."""
    menus: dict[str, tuple[str, ...]] = field(default_factory=dict)
    errors: set[str] = field(default_factory=set)
    aborts: set[str] = field(default_factory=set)
    actions: set[str] = field(default_factory=set)
    calls: set[str] = field(default_factory=set)
    """Names of all methods that are called."""


def parse(file: Path) -> ast.Module:
    """The parsed file; SyntaxError, OSError, UnicodeDecodeError."""
    return ast.parse(file.read_text(encoding="utf-8"), filename=str(file))


def sources(folder: Path) -> tuple[Path, ...]:
    """The files that make up the integration: neither its emulator nor its tests."""
    return tuple(f for f in sorted(folder.glob("*.py")) if not f.name.startswith(("emulat", "test_", "conftest")))


def find_io(file: Path) -> str | None:
    """Why a module that should be pure is not; None when it is."""
    for node in ast.walk(parse(file)):
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith):
            return f"{file.name}:{node.lineno} waits"
        for name in _imported(node):
            if name.partition(".")[0] in IO_MODULES or name == "urllib.request":
                return f"{file.name} imports {name}"
    return None


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
        yield node.module


def calls_method(folder: Path, method: str) -> bool:
    """Whether any file of the integration calls `something.<method>(...)`."""
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method
        for file in sources(folder)
        for node in ast.walk(parse(file))
    )


def used_texts(file: Path) -> UsedTexts:
    """What config_flow.py asks of the translations."""
    found = UsedTexts()
    for node in ast.walk(parse(file)):
        if isinstance(node, ast.Call):
            _note_call(node, found)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            _note_errors(node, found)
    return found


def _note_call(node: ast.Call, found: UsedTexts) -> None:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    found.calls.add(name)
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    step = _text(given.get("step_id"))
    match name:
        case "form" if step is not None:
            schema = given.get("schema")
            found.forms.append((step, schema.id if isinstance(schema, ast.Name) else None))
            found.errors.update(_values(given.get("errors")))
        case "menu" if step is not None:
            options = given.get("options")
            items = options.elts if isinstance(options, ast.List | ast.Tuple) else []
            found.menus[step] = tuple(text for item in items if (text := _text(item)) is not None)
        case "progress":
            found.actions.update(filter(None, [_text(given.get("action"))]))
        case "abort":
            found.aborts.update(filter(None, [_text(given.get("reason"))]))
        case "AbortFlowError" if node.args:
            found.aborts.update(filter(None, [_text(node.args[0])]))


def _note_errors(node: ast.Assign | ast.AnnAssign, found: UsedTexts) -> None:
    """`errors = {"base": "word"}` and `errors["field"] = "word"`."""
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        if isinstance(target, ast.Subscript) and getattr(target.value, "id", "") == "errors":
            found.errors.update(filter(None, [_text(node.value)]))
        elif isinstance(target, ast.Name) and target.id == "errors":
            found.errors.update(_values(node.value))


def _values(node: ast.AST | None) -> set[str]:
    return {text for value in node.values if (text := _text(value))} if isinstance(node, ast.Dict) else set()


def _text(node: ast.AST | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
