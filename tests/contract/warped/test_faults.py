"""Every integration meets every fault that it can have: in virtual time, over Bluetooth in memory and on the lawn."""

from __future__ import annotations

import pytest

from core.platform.contract.fault import MEANINGS, RADIO_FAULTS, Fault, faults_of
from core.platform.contract.suite import run_fault
from tests.contract.fault_table import IN_MEMORY, ROWS, Row
from tests.fakes.warp_loop import LoopClock


@pytest.mark.parametrize(
    ("row", "fault"),
    [pytest.param(row, fault, id=f"{row.name}-{fault}") for row in IN_MEMORY for fault in row.faults],
)
async def test_a_fault_is_met(row: Row, fault: Fault):
    verdict = await run_fault(row.make, fault, clock=LoopClock())
    assert verdict.status == "passed", verdict.detail


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.name}-{row.link}")
def test_what_is_not_run_says_why(row: Row):
    left_out = set(faults_of([row.link])) - set(row.faults)
    for fault in left_out:
        assert len(row.no_such_fault[fault]) > 15, fault
    assert set(row.no_such_fault) <= set(faults_of([row.link])) | RADIO_FAULTS, "a reason for what nobody asks"


def test_every_fault_has_a_meaning_and_is_met_by_somebody():
    assert MEANINGS.keys() == set(Fault)
    assert {fault for row in ROWS for fault in row.faults} == set(Fault)
