"""Each integration's folder keeps its promises: what `mowdeck integration check` finds, a line in the documents."""

from __future__ import annotations

import pytest

from core.platform.contract.folder_check import check_folder
from core.platform.quality import quality_table
from tests.house.sources import ROOT

FOLDERS = sorted(p.parent for p in (ROOT / "integrations").glob("*/manifest.json"))
DOCUMENT = ROOT / "docs" / "integrations.md"


def test_there_is_one():
    assert FOLDERS


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: p.name)
async def test_the_check_finds_nothing(folder):
    """Manifest, forms, texts in both languages, and a quality list that is whole and true."""
    report = await check_folder(folder)
    assert [(f.area, f.name, f.detail) for f in report.findings if f.status == "failed"] == []
    assert {f.area for f in report.findings} >= {"manifest", "import", "texts", "quality"}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: p.name)
def test_named_in_the_documents(folder):
    assert f"`{folder.name}`" in DOCUMENT.read_text(encoding="utf-8")


def test_the_table_of_quality_rules_is_the_one_of_the_code():
    text = DOCUMENT.read_text(encoding="utf-8")
    _, _, rest = text.partition("held true by a test -->\n\n")
    shown, found, _ = rest.partition("<!-- end of quality rules -->")
    assert found
    assert shown == quality_table(), "put what core.platform.quality.quality_table() returns between the two comments"
