"""Labelled scenarios: what is theft, what only looks like it, and how they are told apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from core.domain.mower import Activity, Connectivity
from core.telemetry.alert import Severity
from core.telemetry.theft import Signs, Verdict, judge
from tests.core.telemetry.alert_world import LIFTED, Watched

Scenario = Callable[[Watched], None]


def lifted_and_carried_away(mower: Watched) -> None:
    mower.put(activity=Activity.ERROR, error=LIFTED)
    for metre in range(60):
        mower.at(1 - metre, 1)
        mower.look()


def carried_away_out_of_reach_at_once(mower: Watched) -> None:
    mower.put(activity=Activity.ERROR, error=LIFTED)
    mower.look(3)
    mower.put(connectivity=Connectivity.OFFLINE)
    mower.link(ble=False, lan=False)
    mower.look(30)


def carried_away_without_a_word_of_lifting(mower: Watched) -> None:
    for metre in range(0, 80, 2):
        mower.at(1, 1 - metre)
        mower.look()


def only_lifted(mower: Watched) -> None:
    mower.put(activity=Activity.ERROR, error=LIFTED)
    mower.look(30)


def pushed_within_the_garden(mower: Watched) -> None:
    for metre in range(14):
        mower.at(1 + metre, 1)
        mower.look()
    mower.look(20)


def wifi_outage(mower: Watched) -> None:
    mower.link(ble=True, lan=False)
    mower.around = replace(mower.around, is_network_up=False)
    mower.look(1_200)


def wifi_outage_of_a_mower_without_bluetooth(mower: Watched) -> None:
    mower.link(lan=True)
    mower.look()
    mower.link(lan=False)
    mower.around = replace(mower.around, is_network_up=False)
    mower.put(connectivity=Connectivity.OFFLINE)
    mower.look(1_200)


def power_cut_of_the_box(mower: Watched) -> None:
    """The box is back for two minutes and its links are not up yet."""
    mower.around = replace(mower.around, up_s=20.0)
    mower.put(connectivity=Connectivity.OFFLINE)
    mower.link(ble=False, lan=False)
    mower.look(100)


def flat_in_the_dock(mower: Watched) -> None:
    mower.put(battery_percent=4, is_charging=False)
    mower.look(5)
    mower.put(connectivity=Connectivity.OFFLINE)
    mower.link(ble=False, lan=False)
    mower.look(1_200)


def satellites_jump(mower: Watched) -> None:
    mower.at(80, 80)
    mower.look(120)
    mower.at(1, 1)
    mower.look(5)
    mower.at(-90, 40)
    mower.look(60)


def satellites_jump_and_do_not_know_it(mower: Watched) -> None:
    for number in range(60):
        mower.at(1 + 40 * (number % 2), 1, accuracy_m=60)
        mower.look()


def fell_silent_in_the_dock(mower: Watched) -> None:
    mower.put(connectivity=Connectivity.OFFLINE)
    mower.link(ble=False, lan=True)
    mower.look(700)


@pytest.mark.parametrize(
    ("scenario", "kind", "verdict", "severity"),
    [
        (lifted_and_carried_away, "theft", "carried_away", Severity.CRITICAL),
        (carried_away_out_of_reach_at_once, "theft", "carried_away", Severity.CRITICAL),
        (carried_away_without_a_word_of_lifting, "theft", "carried_away", Severity.CRITICAL),
        (only_lifted, "theft", "lifted", Severity.CRITICAL),
        (pushed_within_the_garden, "theft", "pushed", Severity.WARNING),
        (fell_silent_in_the_dock, "silent", "vanished", Severity.WARNING),
        (wifi_outage, None, None, None),
        (wifi_outage_of_a_mower_without_bluetooth, None, None, None),
        (power_cut_of_the_box, None, None, None),
        (flat_in_the_dock, None, None, None),
        (satellites_jump, None, None, None),
        (satellites_jump_and_do_not_know_it, None, None, None),
    ],
    ids=lambda value: value.__name__ if callable(value) and not isinstance(value, str) else None,
)
def test_each_scenario_is_told_for_what_it_is(
    scenario: Scenario, kind: str | None, verdict: str | None, severity: Severity | None
) -> None:
    mower = Watched()
    mower.look(30)
    scenario(mower)
    told = mower.kinds() & {"theft", "silent"}
    assert told == (set() if kind is None else {kind})
    if kind is not None:
        alert = mower.one(kind)
        assert (alert.evidence[-1].verdict, alert.severity) == (verdict, severity)


@pytest.mark.parametrize(
    ("signs", "verdict"),
    [
        (Signs(), Verdict.QUIET),
        (Signs(is_lifted=True), Verdict.LIFTED),
        (Signs(is_ble_lost=True), Verdict.VANISHED),
        (Signs(is_lan_lost=True), Verdict.VANISHED),
        (Signs(is_wifi_down=True), Verdict.WIFI_DOWN),
        (Signs(is_ble_lost=True, is_wifi_down=True, has_power_cut=True), Verdict.POWER_CUT),
        (Signs(is_ble_lost=True, is_flat=True), Verdict.FLAT),
        (Signs(has_jumped=True), Verdict.POSITION_JUMP),
        (Signs(is_lifted=True, is_ble_lost=True), Verdict.CARRIED_AWAY),
        (Signs(moved_m=9, is_outside=False), Verdict.PUSHED),
        (Signs(moved_m=9, is_outside=True), Verdict.CARRIED_AWAY),
        (Signs(moved_m=9), Verdict.PUSHED),
        (Signs(moved_m=40), Verdict.CARRIED_AWAY),
        (Signs(moved_m=2, is_outside=True), Verdict.QUIET),
    ],
)
def test_the_table_of_verdicts(signs: Signs, verdict: Verdict) -> None:
    assert judge(signs) is verdict


def test_work_is_no_theft_and_lifting_at_work_is_an_error_only() -> None:
    mower = Watched()
    mower.put(activity=Activity.MOWING)
    for metre in range(18):
        mower.at(1 + metre, 5)
        mower.look()
    mower.put(activity=Activity.ERROR, error=LIFTED)
    mower.look(30)
    assert mower.kinds() == {"error"}


def test_it_is_over_when_the_mower_is_back_in_its_dock_and_not_while_nobody_hears_it() -> None:
    mower = Watched()
    mower.look(30)
    lifted_and_carried_away(mower)
    mower.put(connectivity=Connectivity.OFFLINE)
    mower.look(600)
    assert "theft" in mower.kinds()
    mower.put(connectivity=Connectivity.ONLINE, activity=Activity.DOCKED, error=None)
    mower.at(1, 1)
    mower.look(59)
    assert "theft" in mower.kinds()
    mower.look(5)
    assert mower.kinds() == set()


def test_released_bluetooth_is_no_silence_and_what_follows_is_counted_anew() -> None:
    mower = Watched()
    mower.look(5)
    mower.around = replace(mower.around, is_ble_released=True)
    mower.link(ble=False, lan=True)
    mower.look(1_200)
    assert mower.kinds() == set()
    mower.around = replace(mower.around, is_ble_released=False)
    mower.look(590)
    assert mower.kinds() == set(), "it has time to connect again"
    mower.look(20)
    assert mower.one("silent").evidence[-1].verdict == "vanished"
    mower.around = replace(mower.around, is_ble_released=True)
    mower.look(300)
    assert mower.kinds() == {"silent"}, "a release is no sign of life either"


def test_a_mower_that_is_lifted_while_released_is_lifted_and_not_carried_away() -> None:
    mower = Watched()
    mower.look(5)
    mower.around = replace(mower.around, is_ble_released=True)
    mower.link(ble=False, lan=True)
    mower.put(activity=Activity.ERROR, error=LIFTED)
    mower.look(30)
    assert mower.one("theft").evidence[-1].verdict == "lifted"


def test_a_mower_left_alone_on_its_way_is_not_offline() -> None:
    mower = Watched()
    mower.link(ble=True)
    mower.put(activity=Activity.MOWING)
    mower.look(5)
    mower.around = replace(mower.around, is_ble_released=True)
    mower.link(ble=False)
    mower.put(connectivity=Connectivity.OFFLINE)
    mower.look(600)
    assert mower.kinds() == set()
    mower.around = replace(mower.around, is_ble_released=False)
    mower.look(200)
    assert mower.kinds() == {"offline"}
