"""Commands: union on the wire, rights, obstacles, confirmation, order of states."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain import commands as c
from core.domain.access import Relation
from core.domain.capabilities import Capabilities, Range, Schedule, Simple, Spot, Start
from core.domain.mower import Activity, BladeHeight, ErrorClass, MowerError, MowerState

AT = datetime(2026, 6, 1, tzinfo=UTC)
FULL = Capabilities(
    start_mow=Start(takes_areas=True, max_duration_s=3600),
    set_blade_height=Range(minimum=20, maximum=60),
    set_speed=Range(minimum=0.1, maximum=0.6),
    mow_spot=Spot(max_radius_m=3),
    set_schedule=Schedule(max_windows=2),
    pause_mow=Simple(confirm_timeout_s=7),
)
EVERY = (
    c.StartMow(area_ids=("front",)),
    c.PauseMow(),
    c.ResumeMow(),
    c.ReturnToDock(),
    c.SetBladeHeight(height_mm=40),
    c.SetSpeed(speed_mps=0.3),
    c.MowSpot(lat=52.0, lon=13.0, radius_m=1),
    c.SetSchedule(windows=(c.ScheduleWindow(weekday=0, start_minute=60, end_minute=120),)),
    c.SkipNext(),
    c.ConfirmError(),
    c.ResetBladeUsage(),
    c.FindMower(),
    c.ManualDrive(),
    c.EmergencyStop(),
)


def state(activity: Activity, **more) -> MowerState:
    return MowerState(observed_at=AT, activity=activity, **more)


def test_every_kind_is_covered_here_and_in_the_capabilities():
    assert sorted(c.kind_of(command) for command in EVERY) == list(c.KINDS)
    assert set(c.KINDS) == {f.name for f in msgspec.structs.fields(Capabilities)}


@pytest.mark.parametrize("command", EVERY, ids=c.kind_of)
def test_commands_survive_the_wire(command):
    assert msgspec.json.decode(msgspec.json.encode(command), type=c.Command) == command


@pytest.mark.parametrize("text", ['{"kind":"fly"}', '{"kind":"pause_mow","force":true}', "{}", '{"kind":"set_speed"}'])
def test_other_words_are_refused(text):
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=c.Command)


@pytest.mark.parametrize("command", EVERY, ids=c.kind_of)
def test_only_a_stop_is_an_emergency_and_open_to_viewers(command):
    is_stop = isinstance(command, c.EmergencyStop)
    assert (c.priority_of(command) is c.Priority.EMERGENCY) == is_stop
    assert (c.relation_of(command) is Relation.CAN_EMERGENCY_STOP) == is_stop


@pytest.mark.parametrize("command", EVERY, ids=c.kind_of)
def test_unknown_state_never_starts_motion_and_never_hinders_a_stop(command):
    for unknown in (None, state(Activity.UNKNOWN)):
        obstacle = c.find_obstacle(command, unknown)
        assert (obstacle is not None) == c.starts_motion(command)


@pytest.mark.parametrize("command", [x for x in EVERY if c.starts_motion(x)], ids=c.kind_of)
@pytest.mark.parametrize("activity", list(Activity))
def test_no_motion_with_an_active_error(command, activity):
    broken = state(activity, error=MowerError(code="E1", error_class=ErrorClass.STUCK))
    assert c.find_obstacle(command, broken) is not None


@pytest.mark.parametrize("kind", [ErrorClass.LIFTED, ErrorClass.TILTED, ErrorClass.STOP_BUTTON])
def test_errors_beside_the_blades_are_never_confirmed_from_afar(kind):
    lifted = state(Activity.ERROR, error=MowerError(code="L", error_class=kind, is_confirmable=True))
    assert "look at the mower" in (c.find_obstacle(c.ConfirmError(), lifted) or "")


def test_a_confirmable_error_can_be_confirmed():
    stuck = state(Activity.ERROR, error=MowerError(code="S", error_class=ErrorClass.STUCK, is_confirmable=True))
    assert c.find_obstacle(c.ConfirmError(), stuck) is None
    assert c.find_obstacle(c.ConfirmError(), state(Activity.DOCKED)) == "there is no error to confirm"


@pytest.mark.parametrize(
    ("command", "field"),
    [
        (c.SetBladeHeight(height_mm=61), "height_mm"),
        (c.SetBladeHeight(height_mm=float("nan")), "height_mm"),
        (c.SetSpeed(speed_mps=-1), "speed_mps"),
        (c.MowSpot(lat=91, lon=0, radius_m=1), "lat"),
        (c.MowSpot(lat=1, lon=0, radius_m=9), "radius_m"),
        (c.StartMow(duration_s=5), "duration_s"),
        (c.SetSchedule(windows=(c.ScheduleWindow(weekday=7, start_minute=0, end_minute=1),)), "windows.0.weekday"),
        (c.SetSchedule(windows=(c.ScheduleWindow(weekday=1, start_minute=5, end_minute=5),)), "windows.0"),
    ],
)
def test_values_outside_the_capabilities_are_named(command, field):
    assert [m.field for m in c.find_mistakes(command, FULL)] == [field]


def test_areas_and_durations_need_the_capability():
    poor = Capabilities(start_mow=Start())
    fields = [m.field for m in c.find_mistakes(c.StartMow(area_ids=("a",), duration_s=600), poor)]
    assert fields == ["area_ids", "duration_s"]
    assert c.find_mistakes(c.StartMow(area_ids=("a",), duration_s=600), FULL) == ()


def test_a_capability_that_is_none_has_no_timeout():
    assert c.confirm_timeout_s(c.PauseMow(), FULL) == 7
    assert c.confirm_timeout_s(c.FindMower(), FULL) is None


def test_effects_are_seen_in_the_state():
    assert c.is_confirmed(c.StartMow(area_ids=("front",)), None, state(Activity.MOWING, current_area="front"))
    assert not c.is_confirmed(c.StartMow(area_ids=("front",)), None, state(Activity.MOWING, current_area="back"))
    assert not c.is_confirmed(c.StartMow(), None, state(Activity.DOCKED))
    assert c.is_confirmed(c.ReturnToDock(), None, state(Activity.CHARGING))
    assert not c.is_confirmed(c.EmergencyStop(), None, state(Activity.PAUSED, blades_on=True))
    assert c.is_confirmed(c.EmergencyStop(), None, state(Activity.PAUSED, blades_on=False))
    assert not c.is_confirmed(c.EmergencyStop(), None, state(Activity.UNKNOWN))
    assert c.is_confirmed(
        c.SetBladeHeight(height_mm=40), None, state(Activity.IDLE, blade_height=BladeHeight(value=40))
    )


@given(st.lists(st.sampled_from(list(c.CommandStatus)), max_size=12))
def test_results_in_any_order_never_move_a_command_back(arrivals):
    current, reason, seen = c.CommandStatus.PENDING, None, [c.CommandStatus.PENDING]
    for following in arrivals:
        if c.does_advance(current, reason, following):
            current = following
            seen.append(current)
    ranks = [0 if s is c.CommandStatus.PENDING else 1 if s is c.CommandStatus.ACCEPTED else 2 for s in seen]
    assert all(a < b for a, b in pairwise(ranks))


def test_an_inferred_expiry_yields_to_the_box():
    assert c.does_advance(c.CommandStatus.EXPIRED, c.NO_ANSWER, c.CommandStatus.EXECUTED)
    assert not c.does_advance(c.CommandStatus.EXPIRED, c.NO_ANSWER, c.CommandStatus.ACCEPTED)
    assert not c.does_advance(c.CommandStatus.EXPIRED, "expired in the queue", c.CommandStatus.EXECUTED)


@pytest.mark.parametrize(
    ("command", "field"),
    [
        (c.StartMow(area_ids=("x",) * 101), "area_ids"),
        (c.StartMow(area_ids=("x" * 65,)), "area_ids"),
        (
            c.SetSchedule(
                windows=(
                    c.ScheduleWindow(weekday=0, start_minute=0, end_minute=1, area_ids=("a",) * 60),
                    c.ScheduleWindow(weekday=1, start_minute=0, end_minute=1, area_ids=("a",) * 60),
                )
            ),
            "windows",
        ),
    ],
)
def test_lists_of_areas_have_an_end(command, field):
    assert [m.field for m in c.find_mistakes(command, FULL)] == [field]


def test_the_longest_command_fits_into_an_envelope():
    longest = c.StartMow(area_ids=("\x01" * 64,) * 100)
    assert c.find_mistakes(longest, FULL) == ()
    assert len(msgspec.json.encode(longest)) * 4 / 3 < 60 * 1024  # base64 in a JWS, whose limit is 64 KiB
