"""Small modules with one noun, a docstring, and `__init__.py` that is nothing but one."""

from __future__ import annotations

import ast

import pytest

from tests.house.sources import modules, name_of, tree

LONGEST_MODULE = 400
LONGEST_FUNCTION = 70
NO_NOUNS = {"utils", "helpers", "common", "base", "manager", "misc", "util"}


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_module(path):
    lines = path.read_text(encoding="utf-8").count("\n")
    assert lines <= LONGEST_MODULE, f"{lines} lines: is there a second noun in it?"
    assert path.stem not in NO_NOUNS, "find the noun"
    assert ast.get_docstring(tree(path)), "a module begins with what it is"
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = _lines(node) - _table_lines(node)
            assert length <= LONGEST_FUNCTION, f"{node.name} has {length} lines"


@pytest.mark.parametrize("path", [p for p in modules() if p.name == "__init__.py"], ids=name_of)
def test_packages_are_a_docstring(path):
    rest = tree(path).body[1:]
    if path.parent.parent.name == "integrations":  # an integration's also holds `create`
        rest = [n for n in rest if not isinstance(n, ast.Import | ast.ImportFrom)]
        assert [n.name for n in rest if isinstance(n, ast.FunctionDef)] == ["create"]
        assert len(rest) == 1
    else:
        assert rest == []


@pytest.mark.parametrize("path", [p for p in modules() if p.name != "__init__.py"], ids=name_of)
def test_public_classes_say_what_they_are(path):
    tags = []
    for node in tree(path).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            is_word = any(k.arg == "tag" for k in node.keywords)  # a member of a tagged union is named by its tag
            is_error = node.name.endswith("Error")  # drawn and explained in the tree of its module
            if not (is_word or is_error or ast.get_docstring(node)):
                tags.append(node.name)
    assert tags == []


def _lines(node):
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _table_lines(function):
    """A function that returns a literal list (a table of routes) is data; it is not read as a flow of steps."""
    last = function.body[-1]
    is_table = isinstance(last, ast.Return) and isinstance(last.value, ast.List | ast.Tuple)
    return _lines(last) if is_table else 0


def _calls(path):
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call):
            function = node.func
            yield node, function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


OWNERS = {
    "core/platform/fire_door.py": "awaits the plugin's task in the same function; a TaskGroup would wait for ever for one "
    "that ignores its cancellation",
    "edge_agent/virtual_radio/uncut.py": "awaits its task in the same function; a TaskGroup would cancel it with the caller",
    "core/platform/plugin_tasks.py": "the owner of a plugin's tasks: ends them, or names those that would not end",
}
"""Modules that own tasks by themselves, and why."""


@pytest.mark.parametrize("path", [p for p in modules() if name_of(p) not in OWNERS], ids=name_of)
def test_tasks_are_born_in_task_groups(path):
    """`asyncio.create_task`, `ensure_future` and `loop.create_task` make tasks that nobody owns."""
    for node, name in _calls(path):
        if name == "ensure_future":
            pytest.fail(f"line {node.lineno}: ensure_future")
        if name == "create_task":
            owner = node.func.value if isinstance(node.func, ast.Attribute) else None
            text = ast.unparse(owner) if owner is not None else ""
            assert text not in {"", "asyncio", "loop", "asyncio.get_running_loop()"}, f"line {node.lineno}: no owner"
            assert any(k.arg == "name" for k in node.keywords), f"line {node.lineno}: a task has a name"


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_broad_excepts_have_a_reason(path):
    """One that raises on only cleans up or translates; any other swallows, and says why on its line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ExceptHandler):
            names = ast.unparse(node.type) if node.type else "bare"
            if names in {"bare", "Exception", "BaseException"} and not isinstance(node.body[-1], ast.Raise):
                assert "  # " in lines[node.lineno - 1], f"line {node.lineno}: say why on the line"


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_nothing_is_left_open(path):
    text = path.read_text(encoding="utf-8")
    for word in ("TODO", "FIXME", "XXX", "NotImplementedError"):
        assert word not in text
