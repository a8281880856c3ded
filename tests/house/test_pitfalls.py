"""The table of pitfalls in docs/bluetooth.md: all twenty, and each shown by tests that exist."""

from __future__ import annotations

import ast
import re

import pytest

from tests.house.sources import ROOT, tree

COUNT = 20
ROW = re.compile(r"^\| (\d+) \| ([^|]+) \| ([^|]+) \| ([^|]*) \|$", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
ROWS = ROW.findall((ROOT / "docs" / "bluetooth.md").read_text(encoding="utf-8"))


def test_every_number_is_there_once():
    assert [int(number) for number, *_ in ROWS] == list(range(1, COUNT + 1))


@pytest.mark.parametrize(("number", "pitfall", "answer", "shown_by"), ROWS, ids=[row[0] for row in ROWS])
def test_every_pitfall_is_shown_by_a_test(number, pitfall, answer, shown_by):
    assert len(pitfall) > 5
    assert len(answer) > 20
    named = TEST.findall(shown_by)
    assert named, "name a test, or say in the answer what stands in and name that"
    assert len(named) == shown_by.count("`") // 2, "a name that is none of a test"
    for file, name in named:
        path = ROOT / file
        assert path.is_file(), file
        functions = {n.name for n in ast.walk(tree(path)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert name in functions, f"{file} has no {name}"
