from __future__ import annotations

import pytest

from core.platform.bluetooth import Advertisement
from core.platform.manifest import BluetoothMatcher
from edge_agent.bluetooth.discovery import PEERS_MAX, Discovery, matches
from edge_agent.bluetooth.service import BluetoothService
from edge_agent.virtual_radio.air import VirtualAir
from tests.edge_agent.bluetooth.test_service import heard
from tests.edge_agent.virtual_radio.echo_mower import ADDRESS, COMPANY, SERVICE, EchoMower

MOWER = Advertisement(
    address=ADDRESS,
    name="Automower 305",
    rssi_dbm=-60,
    service_uuids=(SERVICE,),
    manufacturer_data={COMPANY: b"\x06\x0a"},
    service_data={"0000fee0-0000-1000-8000-00805f9b34fb": b""},
)


@pytest.mark.parametrize(
    ("matcher", "is_match"),
    [
        (BluetoothMatcher(local_name="Automower*"), True),
        (BluetoothMatcher(local_name="automower*"), False),
        (BluetoothMatcher(local_name="Auto"), False),
        (BluetoothMatcher(service_uuid=SERVICE.upper()), True),
        (BluetoothMatcher(service_uuid="0000ffe0-0000-1000-8000-00805f9b34fb"), False),
        (BluetoothMatcher(service_data_uuid="0000fee0-0000-1000-8000-00805f9b34fb"), True),
        (BluetoothMatcher(manufacturer_id=COMPANY), True),
        (BluetoothMatcher(manufacturer_id=COMPANY, manufacturer_data_start=(6,)), True),
        (BluetoothMatcher(manufacturer_id=COMPANY, manufacturer_data_start=(7,)), False),
        (BluetoothMatcher(manufacturer_id=1), False),
        (BluetoothMatcher(service_uuid=SERVICE, manufacturer_id=1), False),
    ],
)
def test_every_given_part_has_to_match(matcher: BluetoothMatcher, is_match: bool) -> None:
    assert matches(matcher, MOWER) is is_match


def test_not_connectable_is_not_matched_unless_asked_for() -> None:
    beacon = Advertisement(address=ADDRESS, name="Automower 305", rssi_dbm=-60, is_connectable=False)
    assert not matches(BluetoothMatcher(local_name="Automower*"), beacon)
    assert matches(BluetoothMatcher(local_name="Automower*", connectable=False), beacon)


async def test_tells_once_when_all_parts_are_there(air: VirtualAir, bluetooth: BluetoothService) -> None:
    found: list[tuple[str, str | None]] = []
    discovery = Discovery(
        {
            "echo": [BluetoothMatcher(local_name="Echo", service_uuid=SERVICE)],
            "other": [BluetoothMatcher(manufacturer_id=1)],
            "none": [],
        },
        lambda domain, advertisement: found.append((domain, advertisement.name)),
    )
    bluetooth.listen(discovery.heard)
    await air.add_peer(EchoMower())
    await heard(bluetooth)
    for _ in range(5):
        await heard(bluetooth)
    assert found == [("echo", "Echo")]
    discovery.forget(ADDRESS)
    await heard(bluetooth)
    await heard(bluetooth)
    assert found == [("echo", "Echo")] * 2


def test_remembers_a_bounded_number_of_peers() -> None:
    found: list[str] = []
    discovery = Discovery(
        {"echo": [BluetoothMatcher(local_name="Echo")]},
        lambda _domain, advertisement: found.append(advertisement.address),
    )
    for number in range(PEERS_MAX + 1):
        discovery.heard(Advertisement(address=f"peer {number}", name="Echo", rssi_dbm=-60))
    discovery.heard(Advertisement(address="peer 1", name="Echo", rssi_dbm=-60))
    assert len(found) == PEERS_MAX + 1
    discovery.heard(Advertisement(address="peer 0", name="Echo", rssi_dbm=-60))
    assert found[-1] == "peer 0", "the one that was silent longest was forgotten"
