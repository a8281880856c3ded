"""Files that take more than a few seconds, because whole hosts or links live in real time in them: they are slow, and
`script/test --quick` leaves them out.
"""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
SLOW = {
    "bench/test_season.py",
    "cloud_relay/test_broker_supervised.py",
    "cloud_relay/test_command_line.py",
    "cloud_relay/test_driving.py",
    "cloud_relay/test_revoked_while_waiting.py",
    "contract/test_builtin_folders.py",
    "contract/test_faults_over_network.py",
    "core/access/test_authorizer.py",
    "core/command_line/test_integration.py",
    "core/storage/test_sqlite_thinning.py",
    "core/storage/test_sqlite_thinning_long.py",
    "core/sync/test_journal_simulation.py",
    "edge_agent/bluetooth/test_cancels.py",
    "edge_agent/bluetooth/test_faults.py",
    "edge_agent/bluetooth/test_slots.py",
    "edge_agent/bluez/test_care.py",
    "edge_agent/household/test_mower_keeper.py",
    "edge_agent/proxies/test_lines.py",
    "edge_agent/proxies/test_paths.py",
    "edge_agent/test_app.py",
    "edge_agent/test_bluetooth.py",
    "edge_agent/test_bluetooth_proxy.py",
    "edge_agent/test_command_line.py",
    "edge_agent/test_driving.py",
    "edge_agent/test_full_disk.py",
    "edge_agent/test_handover.py",
    "edge_agent/test_survey.py",
    "edge_agent/uplink/test_uplink.py",
    "edge_agent/virtual_radio/test_processes.py",
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
    "integrations/simulator/test_contract.py",
    "integrations/simulator/test_machine.py",
}
assert all((HERE / name).is_file() for name in SLOW), "a slow file was renamed"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and item.path.relative_to(HERE).as_posix() in SLOW:
            item.add_marker(pytest.mark.slow)
