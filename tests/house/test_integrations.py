"""Each integration's folder keeps its promises: what `mowdeck integration check` finds, a line in the documents."""

from __future__ import annotations

import pytest

from core.platform.contract.folder_check import check_folder
from core.platform.quality_document import write_tables
from tests.house.sources import ROOT

FOLDERS = sorted(p.parent for p in (ROOT / "integrations").glob("*/manifest.json"))
DOCUMENT = ROOT / "docs" / "integrations.md"


def test_there_is_one():
    assert FOLDERS


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: p.name)
async def test_the_check_finds_nothing(folder):
    """Manifest, forms, texts in both languages, and a quality list that is whole and true."""
    report = await check_folder(folder, scope="folder")
    assert [(f.area, f.name, f.detail) for f in report.findings if f.status == "failed"] == []
    assert {f.area for f in report.findings} >= {"manifest", "import", "texts", "quality"}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: p.name)
def test_named_in_the_documents(folder):
    assert f"`{folder.name}`" in DOCUMENT.read_text(encoding="utf-8")


def test_the_tables_of_quality_are_those_of_the_code():
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text == write_tables(text, FOLDERS), "run script/write-docs"
    with pytest.raises(ValueError, match="no quality rules"):
        write_tables("", FOLDERS)
