"""Links are tested in real time, some for minutes: those files are slow, and left out by `script/test --quick`."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
SLOW = {
    ("grouw_ble", "test_contract.py"),
    ("grouw_ble", "test_link.py"),
    ("grouw_ble", "test_virtual_radio.py"),
    ("ardumower", "test_virtual_radio.py"),
    ("ardumower", "test_contract.py"),
    ("husqvarna_ble", "test_virtual_radio.py"),
    ("husqvarna_ble", "test_contract.py"),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and (item.path.parent.name, item.path.name) in SLOW:
            item.add_marker(pytest.mark.slow)
