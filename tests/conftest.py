"""Files that take more than a few seconds, because whole hosts or links live in real time in them: they are slow, and
`script/test --quick` leaves them out.
"""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
SLOW = {
    "cloud_relay/test_driving.py",
    "cloud_relay/test_revoked_while_waiting.py",
    "core/storage/test_sqlite_thinning_long.py",
    "edge_agent/bluez/test_care.py",
    "contract/test_builtin_folders.py",
    "contract/test_faults_over_network.py",
    "edge_agent/test_app.py",
    "edge_agent/test_bluetooth.py",
    "edge_agent/test_bluetooth_proxy.py",
    "edge_agent/test_command_line.py",
    "edge_agent/test_driving.py",
    "edge_agent/test_handover.py",
    "edge_agent/test_survey.py",
    "edge_agent/uplink/test_uplink.py",
    "integrations/ardumower/test_bluetooth_flow.py",
    "integrations/ardumower/test_contract.py",
    "integrations/ardumower/test_link.py",
    "integrations/ardumower/test_manual.py",
    "integrations/ardumower/test_virtual_radio.py",
    "integrations/grouw_ble/test_config_flow.py",
    "integrations/grouw_ble/test_contract.py",
    "integrations/grouw_ble/test_link.py",
    "integrations/grouw_ble/test_virtual_radio.py",
    "integrations/husqvarna_ble/test_config_flow.py",
    "integrations/husqvarna_ble/test_contract.py",
    "integrations/husqvarna_ble/test_link.py",
    "integrations/husqvarna_ble/test_virtual_radio.py",
}
assert all((HERE / name).is_file() for name in SLOW), "a slow file was renamed"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and item.path.relative_to(HERE).as_posix() in SLOW:
            item.add_marker(pytest.mark.slow)
