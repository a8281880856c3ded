"""`mowdeck integration check` on the folders of this repository: the whole contract, and true quality lists.

The faults of the same folders are in `warped/test_faults.py` and `test_faults_over_network.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from core.platform.contract.folder_check import check_folder
from core.platform.contract.suite import CONTRACT
from tests.house.sources import ROOT

FOLDERS = sorted(manifest.parent for manifest in (ROOT / "integrations").glob("*/manifest.json"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
async def test_the_contract_is_run_on_it_and_holds(folder: Path):
    begun: list[str] = []
    report = await check_folder(folder, begin=begun.append, scope="contract")
    assert [finding for finding in report.findings if finding.status == "failed"] == []
    assert {check.name for check in CONTRACT} <= set(begun)
    run = {finding.name for finding in report.findings if finding.area == "contract"}
    assert set(begun) == run, "progress names what is run"
    proven = {finding.name for finding in report.findings if finding.area == "quality" and finding.status == "passed"}
    assert {"contract-suite", "emergency-stop", "no-motion-on-restart", "unique-identity"} <= proven
