"""What may not be committed, and what has to be there."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.house.sources import ROOT, committed, name_of

MACHINE_PATH = re.compile(r"(^|[^A-Za-z0-9_.])/(" + "work|farm|root" + r")/")
REGISTRY = re.compile(r"(deb\.debian|snapshot\.debian|" + "pypi|pythonhosted|" + r"npmjs)\.(org|com)")
TEXT = {".py", ".md", ".toml", ".json", ".sh", ".yml", ".yaml", ".cfg", ".txt", ".sql", ".lock", ""}


@pytest.mark.parametrize("path", [p for p in committed() if p.suffix in TEXT], ids=name_of)
def test_no_path_of_a_machine_and_no_registry(path):
    text = path.read_text(encoding="utf-8")
    assert MACHINE_PATH.search(text) is None
    assert REGISTRY.search(text) is None


def test_what_ships_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert [d for d in project["dependencies"] if "==" not in d] == []
    pinned = {
        line.partition("==")[0].lower().replace("_", "-"): line.partition("==")[2]
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if line and not line.startswith("#")
    }
    for dependency in project["dependencies"] + project["optional-dependencies"]["test"]:
        name, _, version = dependency.partition("==")
        assert pinned[re.sub(r"\[.*\]", "", name).lower()] == version, "constraints.txt is stale"


def test_nothing_that_ships_is_gpl():
    from importlib import metadata

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for dependency in project["dependencies"]:
        meta = metadata.metadata(re.split(r"[\[=]", dependency)[0])
        words = " ".join([meta.get("License") or "", meta.get("License-Expression") or ""])
        classifiers = " ".join(meta.get_all("Classifier") or [])
        assert not re.search(r"(?<!L)GPL", words), dependency
        assert "GNU General Public License" not in classifiers, dependency


@pytest.mark.parametrize(
    "name", ["README.md", "LICENSE", "docs/architecture.md", "script/test", "script/demo", ".ci/run"]
)
def test_a_stranger_finds(name):
    assert (ROOT / name).is_file()


def test_every_document_link_leads_somewhere():
    for path in committed():
        if path.suffix != ".md":
            continue
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{name_of(path)} -> {target}"
