from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from bleak.backends.device import BLEDevice
from bleak.backends.scanner import AdvertisementData
from hypothesis import given
from hypothesis import strategies as st

from core.domain.errors import OutOfRangeError
from edge_agent.bluetooth.path_choice import choose_path, is_in_reach
from edge_agent.bluetooth.reach import CLOSES_DBM, GATE_DBM, OPENS_DBM, is_near
from edge_agent.bluetooth.service import BluetoothService
from edge_agent.bluetooth.sightings import NO_RSSI, Sightings
from edge_agent.virtual_radio.air import VirtualAir
from tests.edge_agent.virtual_radio.echo_mower import ADDRESS, NAME, EchoMower

strengths = st.integers(-110, -30)


def gate(history: list[int]) -> list[bool]:
    states: list[bool] = []
    for rssi_dbm in history:
        states.append(is_near(rssi_dbm, states[-1] if states else None))
    return states


@given(st.lists(strengths, min_size=1, max_size=60))
def test_it_changes_only_across_the_whole_gap(history: list[int]) -> None:
    states = gate(history)
    assert states[0] == (history[0] >= GATE_DBM)
    for (before, after), rssi_dbm in zip(pairwise(states), history[1:], strict=True):
        if after and not before:
            assert rssi_dbm >= OPENS_DBM
        if before and not after:
            assert rssi_dbm < CLOSES_DBM


@given(st.lists(st.integers(CLOSES_DBM, OPENS_DBM - 1), min_size=1, max_size=60))
def test_it_does_not_flutter_at_the_edge(history: list[int]) -> None:
    assert len(set(gate(history))) == 1


@given(st.lists(strengths, max_size=20), strengths)
def test_strong_is_near_and_weak_is_not_whatever_came_before(history: list[int], rssi_dbm: int) -> None:
    last = gate([*history, rssi_dbm])[-1]
    if rssi_dbm >= OPENS_DBM:
        assert last
    if rssi_dbm < CLOSES_DBM:
        assert not last


def hear(sightings: Sightings, rssi_dbm: int, source: str = "hci0") -> None:
    data = AdvertisementData(
        local_name=None,
        manufacturer_data={},
        service_data={},
        service_uuids=[],
        tx_power=None,
        rssi=rssi_dbm,
        platform_data=(),
    )
    sightings.hear(source, BLEDevice(ADDRESS, None, None), data, 0.0)


def test_no_news_of_the_strength_is_not_a_weak_signal() -> None:
    sightings = Sightings()
    hear(sightings, -60)
    hear(sightings, NO_RSSI)
    (path,) = sightings.paths(ADDRESS, 0.0)
    assert (path.rssi_dbm, path.is_near) == (-60, True)
    never_told = Sightings()
    hear(never_told, NO_RSSI)
    assert not is_in_reach(never_told.paths(ADDRESS, 0.0))


def test_a_weak_path_is_not_taken_because_the_strong_one_is_full() -> None:
    sightings = Sightings()
    hear(sightings, -60, "hci0")
    hear(sightings, -95, "hci1")
    paths = sightings.paths(ADDRESS, 0.0)
    assert choose_path(paths, last_source=None, free={"hci1"}) is None


async def test_a_mower_at_the_edge_is_connected_until_it_is_clearly_gone(
    air: VirtualAir, bluetooth: BluetoothService
) -> None:
    link = air.path("hci0", ADDRESS)

    async def at(rssi_dbm: int) -> bool:
        link.rssi_dbm = rssi_dbm
        await asyncio.sleep(5)
        try:
            async with bluetooth.connect(ADDRESS, deadline_s=3) as connection:
                return await connection.read(NAME) == b"Echo"
        except OutOfRangeError:
            return False

    link.rssi_dbm = -95
    await air.add_peer(EchoMower())
    assert [await at(dbm) for dbm in (-95, -88, -87, -86, -88, -90, -91, -88, -85)] == [
        *(False, False, False),
        *(True, True, True),
        *(False, False),
        True,
    ]


def test_the_gap_lies_around_the_gate() -> None:
    assert CLOSES_DBM < GATE_DBM < OPENS_DBM
    assert pytest.approx((CLOSES_DBM + OPENS_DBM) / 2) == GATE_DBM
