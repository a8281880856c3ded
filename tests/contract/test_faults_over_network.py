"""The faults of a network: real sockets, real time."""

from __future__ import annotations

import pytest

from core.platform.contract.fault import Fault
from core.platform.contract.suite import run_fault
from tests.contract.fault_table import OVER_NETWORK, RUN_OVER_NETWORK, Row


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        pytest.param(row, fault, id=f"{row.name}-{fault}")
        for row in OVER_NETWORK
        for fault in row.faults
        if fault in RUN_OVER_NETWORK
    ],
)
async def test_a_fault_is_met(row: Row, fault: Fault):
    verdict = await run_fault(row.make, fault)
    assert verdict.status == "passed", verdict.detail
