"""Sunray's words in the domain's words: pure, so tested as values."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain import commands
from core.domain.events import Docked, ErrorCleared, ErrorRaised, MowingFinished, MowingStarted
from core.domain.geo import GeoPoint, Plane
from core.domain.mower import (
    NEVER_CONFIRMED_REMOTELY,
    Activity,
    ErrorClass,
    LinkKind,
    MowerState,
    RtkFix,
    RtkSource,
)
from integrations.ardumower.areas import describe, find_area, read_areas
from integrations.ardumower.battery import percent_of
from integrations.ardumower.frame import FRAME, LocalFrame
from integrations.ardumower.mapping import _ERRORS, Garden, Notes, is_confirmable, next_start, state_of
from integrations.ardumower.models import CAPABILITIES
from integrations.ardumower.notebook import Notebook
from integrations.ardumower.orders import body_of, drive_body, find_objection, switch
from integrations.ardumower.wire import Op, Sensor, Solution, Statistics, read_status, read_version
from tests.contract.integration_contract import assert_plausible

AT = datetime(2026, 6, 3, 10, 30, tzinfo=UTC)  # a Wednesday
GARDEN = Garden(link=LinkKind.LAN, frame=LocalFrame(), patches=(), cells=7)
DOCKED = read_status(
    [
        "28.60",
        "15.15",
        "-10.24",
        "2.02",
        "2",
        "2",
        "0",
        "0.25",
        "0",
        "15.70",
        "-11.39",
        "0.02",
        "49",
        "-0.05",
        "48",
        "-971195",
    ]
)


def state(status=DOCKED, garden=GARDEN, notes=None, **changes) -> MowerState:
    return state_of(replace(status, **changes), None, garden, notes or Notes(), AT)


@pytest.mark.parametrize(
    ("op", "amps", "notes", "activity"),
    [
        (Op.IDLE, 0.1, Notes(), Activity.IDLE),
        (Op.IDLE, 0.1, Notes(is_stopped=True), Activity.PAUSED),
        (Op.IDLE, 0.1, Notes(is_driven=True, is_stopped=True), Activity.MANUAL),
        (Op.CHARGE, -1.4, Notes(is_driven=True), Activity.MANUAL),
        (Op.MOW, 1.4, Notes(is_driven=True), Activity.MOWING),
        (Op.DOCK, 1.4, Notes(), Activity.RETURNING),
        (Op.CHARGE, -1.4, Notes(), Activity.CHARGING),
        (Op.CHARGE, -0.05, Notes(), Activity.DOCKED),
        (Op.CHARGE, None, Notes(), Activity.DOCKED),
        (Op.ERROR, 0.1, Notes(is_driven=True, is_stopped=True), Activity.ERROR),
        (Op.UNKNOWN, 0.1, Notes(is_stopped=True), Activity.UNKNOWN),
    ],
)
def test_activity(op, amps, notes, activity):
    found = state(op=op, amps=amps, notes=notes)
    assert found.activity is activity
    assert found.is_charging is (None if op is Op.UNKNOWN else activity is Activity.CHARGING)


def test_what_was_not_read_is_none():
    found = state_of(read_status([]), None, GARDEN, Notes(), AT)
    assert found.activity is Activity.UNKNOWN
    assert found.raw == {"S": ""}
    blank = (found.battery_percent, found.position, found.rtk_fix, found.satellites, found.speed_mps, found.blades_on)
    assert blank == (None,) * 6
    assert_plausible(found)


def test_without_a_datum_there_are_only_metres():
    position = state().position
    assert position is not None
    assert (position.lat, position.lon, position.heading_deg) == (None, None, None)
    assert (position.x_m, position.y_m, position.frame, position.accuracy_m) == (15.15, -10.24, FRAME, 0.02)


@pytest.mark.parametrize(
    ("x_m", "y_m", "rotation_deg", "east_m", "north_m"),
    [(3, 4, 0, 3, 4), (0, 10, 90, 10, 0), (10, 0, 90, 0, -10), (0, 10, -90, -10, 0), (10, 0, 180, -10, 0)],
)
def test_the_frame_is_turned(x_m, y_m, rotation_deg, east_m, north_m):
    datum = GeoPoint(lat=52.5, lon=13.4)
    place = LocalFrame(datum=datum, rotation_deg=rotation_deg).place(x_m, y_m)
    assert place is not None
    found = Plane(datum).project(place)
    assert (found.east_m, found.north_m) == (pytest.approx(east_m, abs=1e-6), pytest.approx(north_m, abs=1e-6))


@pytest.mark.parametrize(
    ("heading_rad", "rotation_deg", "heading_deg"),
    [(0, 0, 90), (math.pi / 2, 0, 0), (math.pi, 0, 270), (-math.pi / 2, 0, 180), (math.pi / 2, 30, 30), (0, -90, 0)],
)
def test_headings_turn_clockwise_from_north(heading_rad, rotation_deg, heading_deg):
    frame = LocalFrame(datum=GeoPoint(lat=52.5, lon=13.4), rotation_deg=rotation_deg)
    assert frame.heading_deg(heading_rad) == pytest.approx(heading_deg, abs=1e-9)


@given(st.floats(allow_nan=False, allow_infinity=False, width=32), st.floats(-360, 360))
def test_a_heading_is_always_one(heading_rad, rotation_deg):
    heading = LocalFrame(datum=GeoPoint(lat=52.5, lon=13.4), rotation_deg=rotation_deg).heading_deg(heading_rad)
    assert heading is not None
    assert 0 <= heading < 360


def test_driving_ahead_moves_along_the_heading():
    """Position and heading are turned alike."""
    datum = GeoPoint(lat=52.5, lon=13.4)
    frame = LocalFrame(datum=datum, rotation_deg=25.0)
    heading_rad = 0.7
    there = frame.place(math.cos(heading_rad), math.sin(heading_rad))
    assert there is not None
    plane = Plane(datum).project(there)
    course = math.degrees(math.atan2(plane.east_m, plane.north_m)) % 360
    assert frame.heading_deg(heading_rad) == pytest.approx(course, abs=1e-6)


@pytest.mark.parametrize("solution", [Solution.INVALID, Solution.UNKNOWN, None])
def test_without_a_solution_there_is_no_position(solution):
    found = state(solution=solution)
    assert found.position is None
    assert found.current_area is None


def test_a_position_beyond_the_garden_is_none():
    assert state(x_m=1e9).position is None
    assert state(x_m=None).position is None


@pytest.mark.parametrize(
    ("solution", "fix"),
    [
        (Solution.INVALID, RtkFix.NONE),
        (Solution.FLOAT, RtkFix.FLOAT),
        (Solution.FIX, RtkFix.FIXED),
        (Solution.UNKNOWN, RtkFix.UNKNOWN),
        (None, None),
    ],
)
def test_rtk_fix(solution, fix):
    assert state(solution=solution).rtk_fix is fix


def test_corrections():
    assert state().rtk_source is RtkSource.UNKNOWN
    assert state(correction_age_s=120.0).rtk_source is RtkSource.NONE
    assert state(correction_age_s=None).rtk_source is None


@pytest.mark.parametrize(
    ("volts", "cells", "percent"),
    [(21.0, 7, 0), (29.4, 7, 100), (25.2, 7, 50), (18.9, 7, 0), (28.7, 7, 92), (12.6, 3, 100), (0.0, 7, None),
     (None, 7, None), (28.7, 3, None), (-5.0, 7, None)],
)  # fmt: skip
def test_battery(volts, cells, percent):
    assert percent_of(volts, cells) == percent


@given(st.floats(-10, 100), st.integers(1, 20))
def test_more_volts_are_never_less_percent(volts, cells):
    here, more = percent_of(volts, cells), percent_of(volts + 0.1, cells)
    assert here is None or 0 <= here <= 100
    assert here is None or more is None or more >= here


@pytest.mark.parametrize("sensor", list(Sensor))
def test_every_sensor_is_an_error_only_in_the_error_operation(sensor):
    found = state(op=Op.ERROR, sensor=sensor)
    assert found.error is not None
    assert found.error.text
    assert state(op=Op.MOW, sensor=sensor).error is None
    if found.error.error_class in NEVER_CONFIRMED_REMOTELY:
        assert not found.error.is_confirmable
    assert set(_ERRORS) == set(Sensor)


def test_faults_that_need_somebody_beside_the_mower():
    hands = {Sensor.LIFT, Sensor.IMU_TILT, Sensor.STOP_BUTTON, Sensor.OVERLOAD, Sensor.MOTOR_ERROR, Sensor.UNKNOWN}
    assert not any(is_confirmable(sensor) for sensor in hands)
    assert is_confirmable(Sensor.GPS_FIX_TIMEOUT)


def test_an_unknown_fault_keeps_the_mowers_word():
    words = ["25", "0", "0", "0", "2", "3", "0", "0", "77", "0", "0", "0.02", "28", "0", "24", "1"]
    error = state_of(read_status(words), None, GARDEN, Notes(error_since=AT), AT).error
    assert error is not None
    assert (error.code, error.error_class, error.is_confirmable, error.since) == ("77", ErrorClass.UNKNOWN, False, AT)


def test_rain():
    found = state(op=Op.DOCK, sensor=Sensor.RAIN)
    assert (found.restricted_reason, found.is_raining) == ("rain", True)
    assert state(sensor=Sensor.NONE).is_raining is None, "that no sensor was triggered is no reading of the weather"


@pytest.mark.parametrize(
    ("weekday", "hour", "expected"),
    [
        (2, 18, AT.replace(hour=18, minute=0)),
        (2, 10, AT.replace(hour=10, minute=0) + timedelta(days=7)),
        (3, 0, datetime(2026, 6, 4, tzinfo=UTC)),
        (1, 9, datetime(2026, 6, 9, 9, tzinfo=UTC)),
        (-1, 18, None),
        (7, 18, None),
        (2, 24, None),
        (None, 1, None),
    ],
)
def test_next_start(weekday, hour, expected):
    assert next_start(replace(DOCKED, plan_weekday=weekday, plan_hour=hour), AT) == expected
    assert next_start(replace(DOCKED, op=Op.MOW, plan_weekday=weekday, plan_hour=hour), AT) is None


def test_areas_of_the_entry():
    patches = read_areas("Front: 0 0, 10 0, 10 5, 0 5; Back yard: 0 5, 10 5, 10 9\n")
    assert [patch.area_id for patch in patches] == ["front", "back-yard"]
    assert find_area(patches, 5, 2) == "front"
    assert find_area(patches, 9, 6) == "back-yard"
    assert find_area(patches, 50, 2) is None
    frame = LocalFrame(datum=GeoPoint(lat=52.5, lon=13.4))
    assert len(describe(patches[0], frame).ring) == 4
    assert describe(patches[0], LocalFrame()).ring == ()
    inside = state(garden=replace(GARDEN, patches=patches), x_m=5.0, y_m=2.0)
    assert inside.current_area == "front"
    assert read_areas("  ") == ()


@pytest.mark.parametrize(
    "text",
    ["Front", "Front: 0 0, 1 1", ": 0 0, 1 0, 1 1", "***: 0 0, 1 0, 1 1", "A: 0 0, 1 0, 1", "A: 0 0, 1 0, nan 1",
     "A: 0 0, 1 0, 1 1; a: 0 0, 1 0, 1 1", "A: 0 0, 1 0, 1 99999999", "A" * 65 + ": 0 0, 1 0, 1 1",
     ";".join(f"A{n}: 0 0, 1 0, 1 1" for n in range(51))],
)  # fmt: skip
def test_areas_that_are_none(text):
    with pytest.raises(ValueError, match=r"."):
        read_areas(text)


@given(st.text(max_size=200))
def test_any_text_is_areas_or_an_error(text):
    with suppress(ValueError):
        assert len({patch.area_id for patch in read_areas(text)}) == len(read_areas(text))


def test_states_are_plausible_and_name_the_firmware():
    version = read_version(["Ardumower", "1.0.332", "0", "0"])
    garden = replace(GARDEN, link=LinkKind.BLE, frame=LocalFrame(datum=GeoPoint(lat=52.5, lon=13.4)))
    found = state_of(DOCKED, version, garden, Notes(rssi_dbm=-70), AT)
    assert_plausible(found)
    assert found.firmware == "1.0.332"
    assert found.signals is not None
    assert (found.signals.ble_dbm, found.signals.active_link) == (-70, LinkKind.BLE)
    assert found.raw is not None
    assert found.raw["S"].startswith("28.60,15.15")


# -- the notebook


def note(notebook: Notebook, op: Op, sensor: Sensor = Sensor.NONE, at: datetime = AT) -> list[object]:
    status = replace(DOCKED, op=op, sensor=sensor)
    notebook.note_status(status, at)
    notes = Notes(is_stopped=notebook.is_stopped, error_since=notebook.error_since)
    return list(notebook.note_state(state_of(status, None, GARDEN, notes, at)))


def test_a_stop_during_a_job_can_be_resumed():
    notebook = Notebook()
    note(notebook, Op.MOW)
    notebook.note_stop()
    note(notebook, Op.IDLE)
    assert notebook.is_stopped
    note(notebook, Op.MOW)
    assert not notebook.is_stopped


@pytest.mark.parametrize("op", [Op.CHARGE, Op.ERROR, Op.DOCK])
def test_there_is_nothing_to_resume_after(op):
    notebook = Notebook()
    note(notebook, Op.MOW)
    notebook.note_stop()
    note(notebook, Op.IDLE)
    note(notebook, op)
    note(notebook, Op.IDLE)
    assert not notebook.is_stopped


def test_a_mower_that_stood_before_the_stop_is_not_paused():
    notebook = Notebook()
    note(notebook, Op.IDLE)
    notebook.note_stop()
    assert not notebook.is_stopped


def test_totals_only_grow():
    notebook = Notebook()

    def sums(mowing_s: int | None) -> int | None:
        notebook.note_statistics(Statistics(charging_s=None, mowing_s=mowing_s, distance_m=5, obstacles=0))
        assert notebook.totals is not None
        return notebook.totals.mowing_s

    assert [sums(value) for value in (100, 160, 20, None, 30)] == [100, 160, 180, 180, 210]


def test_events():
    notebook = Notebook()
    assert note(notebook, Op.CHARGE) == [], "what was true before is no event"
    assert note(notebook, Op.MOW) == [MowingStarted(at=AT)]
    raised = note(notebook, Op.ERROR, Sensor.LIFT)
    assert [type(event) for event in raised] == [ErrorRaised]
    assert notebook.error_since == AT
    later = AT + timedelta(minutes=1)
    changed = note(notebook, Op.ERROR, Sensor.IMU_TILT, later)
    assert [type(event) for event in changed] == [ErrorCleared, ErrorRaised]
    assert note(notebook, Op.IDLE) == [ErrorCleared(at=AT, code="5")]
    assert note(notebook, Op.MOW) == [MowingStarted(at=AT)]
    assert note(notebook, Op.DOCK) == []
    assert note(notebook, Op.CHARGE) == [MowingFinished(at=AT, reason="docked"), Docked(at=AT)]


# -- orders


def test_every_capability_has_an_order_and_every_order_a_capability():
    samples = [
        commands.StartMow(),
        commands.PauseMow(),
        commands.ResumeMow(),
        commands.ReturnToDock(),
        commands.SetBladeHeight(height_mm=40),
        commands.SetSpeed(speed_mps=0.3),
        commands.MowSpot(lat=1, lon=1, radius_m=1),
        commands.SetSchedule(windows=()),
        commands.SkipNext(),
        commands.ConfirmError(),
        commands.ResetBladeUsage(),
        commands.FindMower(),
        commands.ManualDrive(),
        commands.EmergencyStop(),
    ]
    assert len(samples) == len(commands.KINDS)
    for command in samples:
        can = getattr(CAPABILITIES, commands.kind_of(command)) is not None
        assert (body_of(command) is not None) is can, command


def test_no_order_touches_the_blade_motor_itself():
    for op in (Op.IDLE, Op.MOW, Op.DOCK):
        assert switch(op).split(",")[1] == "-1"
    assert (body_of(commands.SetSpeed(speed_mps=0.25)) or "").startswith("AT+C,-1,-1,0.25")


@given(st.floats(), st.floats())
def test_a_drive_request_is_always_within_bounds(linear, angular):
    _, linear_text, angular_text = drive_body(linear, angular).split(",")
    assert abs(float(linear_text)) <= 0.3
    assert abs(float(angular_text)) <= 0.6


def test_what_is_no_number_stands_still():
    assert drive_body(float("nan"), float("inf")) == "AT+M,0.00,0.00"
    assert drive_body(1, -1) == "AT+M,0.30,-0.60"


def test_objections():
    broken = replace(DOCKED, op=Op.ERROR, sensor=Sensor.LIFT)
    assert find_objection(commands.EmergencyStop(), None) is None
    assert find_objection(commands.StartMow(), None)
    assert find_objection(commands.StartMow(), replace(DOCKED, op=Op.UNKNOWN))
    assert find_objection(commands.StartMow(), broken)
    assert find_objection(commands.ReturnToDock(), broken)
    assert find_objection(commands.ConfirmError(), broken)
    assert find_objection(commands.ConfirmError(), DOCKED)
    assert find_objection(commands.ConfirmError(), replace(broken, sensor=Sensor.GPS_INVALID)) is None
    assert find_objection(commands.ManualDrive(), replace(DOCKED, op=Op.MOW))
    assert find_objection(commands.ManualDrive(), DOCKED) is None
    assert find_objection(commands.PauseMow(), None) is None
