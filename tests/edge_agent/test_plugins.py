"""What the box asks of a plugin's flow beside its steps."""

from __future__ import annotations

import pytest

from core.domain.ids import EntryId
from core.platform.bluetooth import Advertisement
from core.platform.entry import EntryRecord
from core.platform.flow import ConfigFlow
from edge_agent.plugins import are_released, ask_pairable
from integrations.grouw_ble.config_flow import GrouwFlow
from integrations.husqvarna_ble.advertised import COMPANY, Advertised, write_advertised
from integrations.husqvarna_ble.config_flow import HusqvarnaFlow
from tests.fakes.clock import START

NEAR = Advertisement(address="C0:00:00:00:00:01", name="305", rssi_dbm=-60)


@pytest.mark.parametrize("said", [True, False, None])
def test_a_mower_says_itself_whether_it_pairs(said: bool | None) -> None:
    data = write_advertised(Advertised(serial=5, is_pairable=said))
    heard = Advertisement(address=NEAR.address, name="305", rssi_dbm=-60, manufacturer_data={COMPANY: data})
    assert ask_pairable(HusqvarnaFlow, heard, "husqvarna_ble") is said


def test_a_brand_that_does_not_tell_is_not_told_of() -> None:
    assert ask_pairable(GrouwFlow, NEAR, "grouw_ble") is None


@pytest.mark.parametrize("answer", ["yes", 1, RuntimeError("a defect")])
def test_a_plugin_that_answers_nonsense_says_nothing(answer: object) -> None:
    class Odd(ConfigFlow):
        @classmethod
        def says_pairable(cls, heard: Advertisement) -> bool | None:
            if isinstance(answer, Exception):
                raise answer
            return answer  # type: ignore[return-value]

    assert ask_pairable(Odd, NEAR, "odd") is None


def entry(**data: str) -> EntryRecord:
    return EntryRecord(entry_id=EntryId("e"), domain="d", title="t", source="user", data=data, created_at=START)


def test_released_are_entries_whose_every_peer_is() -> None:
    left_s = {None: 0.0, "C0:00:00:00:00:01": 9.0, "C0:00:00:00:00:02": 0.0}
    one, other = entry(address="c0:00:00:00:00:01"), entry(address="C0:00:00:00:00:02")
    assert are_released([one], left_s.__getitem__)
    assert not are_released([one, other], left_s.__getitem__)
    assert not are_released([], left_s.__getitem__)
    assert not are_released([entry(host="mower.local")], left_s.__getitem__)
    assert are_released([entry(host="mower.local")], {None: 1.0}.__getitem__)
