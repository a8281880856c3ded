"""Each integration's folder keeps its promises: quality list, translations, a line in the documents."""

from __future__ import annotations

import json

import pytest

from tests.house.sources import ROOT

FOLDERS = sorted(p.parent for p in (ROOT / "integrations").glob("*/manifest.json"))


def _keys(value, path=""):
    if isinstance(value, dict):
        return {key for name, inner in value.items() for key in _keys(inner, f"{path}.{name}")}
    return {path}


def test_there_is_one():
    assert FOLDERS


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: p.name)
def test_quality_list(folder):
    rules = json.loads((folder / "quality.json").read_text())["rules"]
    assert rules
    for name, rule in rules.items():
        assert rule["status"] in {"done", "todo", "exempt"}, name
        assert rule["status"] == "done" or rule.get("reason"), f"{name}: say why"


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: p.name)
def test_german_says_what_english_says(folder):
    english = json.loads((folder / "strings.json").read_text(encoding="utf-8"))
    german = json.loads((folder / "translations" / "de.json").read_text(encoding="utf-8"))
    assert _keys(english) == _keys(german)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: p.name)
def test_named_in_the_documents(folder):
    assert f"`{folder.name}`" in (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")
