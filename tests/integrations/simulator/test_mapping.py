from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain import commands, events
from core.domain.geo import GeoPoint, Plane
from core.domain.mower import NEVER_CONFIRMED_REMOTELY, Activity, ErrorClass, MowerState, RtkFix, RtkSource
from integrations.simulator import mapping, wire
from integrations.simulator.mapping import Frame, area_of, event_of, order_of, state_of
from integrations.simulator.troubles import CONFIRMABLE
from integrations.simulator.wire import Fault, Fix, Phase, Wait
from tests.integrations.simulator.gardens import machine

NOW = datetime(2026, 6, 1, 8, tzinfo=UTC)
FRAME = Frame(Plane(GeoPoint(lat=52.5, lon=13.4)), 1)


def state(reading, **kwargs):
    known = {"observed_at": NOW, "error_since": None, "next_start_at": None, **kwargs}
    return state_of(reading, FRAME, **known)


def test_every_word_of_the_machine_is_known():
    assert set(mapping.ACTIVITIES) == set(Phase)
    assert set(mapping.FIXES) == set(Fix)
    assert set(mapping.FAULTS) == set(Fault)
    assert set(mapping.RESTRICTIONS) == set(Wait)
    assert Activity.UNKNOWN not in mapping.ACTIVITIES.values()


def test_only_safe_faults_can_be_confirmed_from_afar():
    assert {mapping.FAULTS[fault][0] for fault in CONFIRMABLE}.isdisjoint(NEVER_CONFIRMED_REMOTELY)


def test_a_machine_in_its_dock():
    seen = state(machine().read())
    assert (seen.activity, seen.battery_percent, seen.is_charging) == (Activity.DOCKED, 100, False)
    assert (
        seen.error is seen.current_area is seen.progress_percent is seen.is_override is seen.restricted_reason is None
    )
    assert (seen.blades_on, seen.speed_mps) == (False, 0)
    assert seen.position is not None
    assert seen.position.lat == pytest.approx(52.5, abs=1e-3)
    assert seen.signals is not None
    assert seen.signals.wifi_dbm is not None
    assert seen.raw is not None
    assert seen.raw["phase"] == "PARKED"


def test_no_fix_is_no_position_and_no_source():
    seen = state(replace(machine().read(), fix=Fix.NONE, seen_at=None, accuracy_m=None))
    assert (seen.position, seen.rtk_fix, seen.rtk_source) == (None, RtkFix.NONE, RtkSource.NONE)


def test_a_fault_a_wait_and_a_job():
    m = machine()
    assert m.read().progress == {}
    reading = replace(
        m.read(),
        phase=Phase.FAULT,
        fault=Fault.LIFTED,
        fault_since_s=3.0,
        waits_for=Wait.RAIN,
        patch="front",
        progress={"front": 12.34, "back": 0.0},
        is_by_plan=True,
    )
    seen = state(reading, error_since=NOW)
    assert seen.error is not None
    assert (seen.error.error_class, seen.error.is_confirmable, seen.error.since) == (ErrorClass.LIFTED, False, NOW)
    assert (seen.current_area, seen.progress_percent, seen.is_override) == ("front", 12.3, False)
    assert seen.restricted_reason == "rain"


@given(st.floats(-80, 80), st.floats(-180, 180), st.integers(0, 9), st.floats(0, 32), st.floats(0, 48))
def test_places_go_to_earth_and_back(lat, lon, index, x, y):
    frame = Frame(Plane(GeoPoint(lat=lat, lon=lon)), index)
    there = frame.to_plot(*frame.to_earth((x, y)))
    assert there == pytest.approx((x, y), abs=0.005)


def test_areas_lie_beside_each_other():
    patch = machine().garden.patches[0]
    here, there = (area_of(patch, Frame(FRAME.plane, index), 1) for index in (0, 1))
    assert here.area_id == there.area_id == "front"
    assert max(lon for _, lon in here.ring) < min(lon for _, lon in there.ring)


@pytest.mark.parametrize(
    ("happening", "event"),
    [
        (wire.FaultRaised(fault=Fault.STUCK), events.ErrorRaised),
        (wire.FaultCleared(fault=Fault.STUCK), events.ErrorCleared),
        (wire.JobStarted(patches=("front",)), events.MowingStarted),
        (wire.JobEnded(reason="done"), events.MowingFinished),
        (wire.DockReached(), events.Docked),
        (wire.RainChanged(is_raining=True), events.RainBegan),
        (wire.RainChanged(is_raining=False), events.RainEnded),
        (wire.Notice(code="BEEP", text="here"), events.VendorMessage),
    ],
)
def test_happenings_become_events(happening, event):
    made = event_of(happening, NOW)
    assert type(made) is event
    assert made.at == NOW


def test_every_command_has_an_order():
    values = {"height_mm": 40.0, "speed_mps": 0.3, "lat": 52.5, "lon": 13.4, "radius_m": 1.0, "windows": ()}
    orders = set()
    for kind in commands.Command.__args__:
        needed = [f.name for f in msgspec.structs.fields(kind) if f.required]
        orders.add(type(order_of(kind(**{name: values[name] for name in needed}), FRAME)))
    assert orders == set(wire.Order.__args__)


def test_the_values_of_commands_arrive():
    assert order_of(commands.StartMow(area_ids=("front",), duration_s=90), FRAME) == wire.Cut(
        patches=("front",), limit_s=90
    )
    lat, lon = FRAME.to_earth((5.0, 6.0))
    spot = order_of(commands.MowSpot(lat=lat, lon=lon, radius_m=2), FRAME)
    assert isinstance(spot, wire.CutSpot)
    assert spot.centre == pytest.approx((5.0, 6.0), abs=0.005)
    window = commands.ScheduleWindow(weekday=2, start_minute=60, end_minute=90, area_ids=("back",))
    assert order_of(commands.SetSchedule(windows=(window,)), FRAME) == wire.SetPlan(
        windows=(wire.PlanWindow(weekday=2, start_minute=60, end_minute=90, patches=("back",)),)
    )


def test_a_state_survives_json():
    seen = state(machine().read())
    assert msgspec.json.decode(msgspec.json.encode(seen), type=MowerState) == seen
