"""What one look says about each kind of alert."""

from __future__ import annotations

import pytest

from core.domain.mower import Activity, Connectivity, ErrorClass, MowerError, RtkFix
from core.telemetry.alert_rules import Wear
from tests.core.telemetry.alert_world import Watched


@pytest.fixture
def mower() -> Watched:
    watched = Watched()
    watched.put(activity=Activity.MOWING)
    watched.at(10, 10)
    return watched


def test_who_mows_on_the_spot_is_stuck_and_free_again_when_it_goes_on(mower: Watched) -> None:
    mower.look(300)
    assert mower.kinds() == set()
    mower.look(5)
    assert mower.one("stuck").cause == "no_progress"
    for metre in range(9):
        mower.at(10, 1 + 2 * metre)
        mower.look(5)
    assert mower.kinds() == set()


def test_who_moves_slowly_is_not_stuck(mower: Watched) -> None:
    for minute in range(15):
        mower.at(2 + minute * 1.2, 10)
        mower.look(60)
    assert mower.kinds() == set()


def test_the_mowers_own_word_of_being_stuck_is_one_alert_and_no_error(mower: Watched) -> None:
    mower.put(activity=Activity.ERROR, error=MowerError(code="7", error_class=ErrorClass.TRAPPED))
    mower.look(20)
    assert mower.kinds() == {"stuck"}
    assert mower.one("stuck").cause == "trapped"


def test_nobody_knows_whether_a_mower_without_position_or_link_is_stuck(mower: Watched) -> None:
    mower.put(position=None)
    mower.look(900)
    mower.put(connectivity=Connectivity.OFFLINE)
    mower.look(900)
    assert mower.kinds() == {"offline"}


def test_an_error_is_an_alert_of_its_code(mower: Watched) -> None:
    mower.put(activity=Activity.ERROR, error=MowerError(code="42", error_class=ErrorClass.TILTED))
    mower.look(15)
    mower.put(error=MowerError(code="43", error_class=ErrorClass.RAIN))
    mower.look(15)
    assert {alert.cause: alert.severity.value for alert in mower.tracks.open_alerts()} == {
        "42": "critical",
        "43": "info",
    }
    mower.look(30)
    assert mower.one("error").cause == "43"


def test_silence_at_work_is_an_alert_and_at_the_dock_is_not(mower: Watched) -> None:
    mower.put(connectivity=Connectivity.OFFLINE)
    mower.look(60)
    mower.put(activity=Activity.UNKNOWN)
    mower.look(180)
    assert mower.kinds() == {"offline"}
    assert mower.one("offline").evidence[0].activity == "mowing"
    resting = Watched()
    resting.put(connectivity=Connectivity.OFFLINE)
    resting.look(240)
    assert resting.kinds() == set()


def test_it_has_left_its_area_only_beyond_margin_and_accuracy(mower: Watched) -> None:
    for east_m, accuracy_m, is_left in (
        (24.0, 0.1, False),
        (29.0, 6.0, False),
        (26.0, 0.1, True),
        (24.0, 0.1, True),  # hysteresis
        (22.0, 0.1, False),
        (40.0, 6.0, True),
    ):
        mower.at(east_m, 10, accuracy_m=accuracy_m)
        mower.look(40)
        assert ("left_area" in mower.kinds()) is is_left, (east_m, accuracy_m)
    assert mower.one("left_area").evidence[0].distance_m == pytest.approx(20, abs=0.05)


def test_an_unknown_position_is_not_outside(mower: Watched) -> None:
    mower.at(90, 10, accuracy_m=None)
    mower.put(rtk_fix=RtkFix.UNKNOWN)
    mower.look(60)
    assert mower.kinds() == set()
    mower.put(rtk_fix=RtkFix.FLOAT)
    mower.look(60)
    assert mower.kinds() == {"left_area"}
    mower.areas = ()
    mower.look(60)
    assert mower.kinds() == {"left_area"}, "without a border nobody knows that it is back"


def test_the_way_to_the_dock_may_lie_outside(mower: Watched) -> None:
    mower.put(activity=Activity.RETURNING)
    for metre in range(20):
        mower.at(20 + metre, 10)
        mower.look(5)
    mower.put(activity=Activity.CHARGING)
    mower.look(60)
    assert mower.kinds() == set()


def test_wear_and_disk_are_told_from_plain_figures(mower: Watched) -> None:
    mower.put(activity=Activity.DOCKED)
    mower.wear = Wear(blades_used_h=101, blades_interval_h=100, endurance_change_percent=-3)
    mower.free_percent = 4.0
    mower.look(70)
    assert mower.kinds() == {"blades_due", "battery_ageing", "disk"}
    mower.wear, mower.free_percent = Wear(), None
    mower.look(4_000)
    assert len(mower.kinds()) == 3, "unknown closes nothing"
    mower.wear = Wear(blades_used_h=0, blades_interval_h=100, endurance_change_percent=-1.5)
    mower.free_percent = 7.0
    mower.look(4_000)
    assert mower.kinds() == {"battery_ageing", "disk"}, "between the two bounds all stays as it is"
    mower.wear, mower.free_percent = Wear(endurance_change_percent=0), 20.0
    mower.look(4_000)
    assert mower.kinds() == set()
