"""Imports run one way: the contracts of pyproject.toml, and no cycle between modules, typing included."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import grimp
import pytest

from tests.house.sources import PACKAGES, ROOT, modules, name_of, tree

pytestmark = pytest.mark.filterwarnings("ignore")


def test_import_contracts_hold():
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_import_cycle():
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    state: dict[str, int] = {}
    for start in sorted(graph.modules):
        stack: list[tuple[str, list[str]]] = [(start, sorted(graph.find_modules_directly_imported_by(start)))]
        if state.get(start):
            continue
        state[start] = 1
        while stack:
            module, rest = stack[-1]
            if not rest:
                state[module] = 2
                stack.pop()
                continue
            following = rest.pop()
            if state.get(following) == 1:
                pytest.fail("cycle: " + " -> ".join([m for m, _ in stack] + [following]))
            if following in graph.modules and not state.get(following):
                state[following] = 1
                stack.append((following, sorted(graph.find_modules_directly_imported_by(following))))


VENDORS = ("husqvarna", "gardena", "worx", "mammotion", "navimow", "segway", "ardumower", "grouw", "stihl", "kress")


@pytest.mark.parametrize("path", [p for p in modules() if "integrations" not in p.parts], ids=name_of)
def test_no_vendor_outside_of_integrations(path):
    text = path.read_text(encoding="utf-8").lower()
    assert [v for v in VENDORS if v in text] == []


def test_integrations_know_only_core():
    import ast

    for path in modules():
        if "integrations" not in path.parts:
            continue
        own = f"integrations.{path.relative_to(ROOT / 'integrations').parts[0]}"
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("integrations"):
                assert node.module.startswith(own), f"{name_of(path)} imports {node.module}"
