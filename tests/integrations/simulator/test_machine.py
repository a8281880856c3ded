from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from integrations.simulator import wire
from integrations.simulator.machine import TICK_S
from integrations.simulator.orders import begin_window, obey
from integrations.simulator.shapes import distance
from integrations.simulator.wire import STANDING, Fault, Phase, Wait
from tests.integrations.simulator.gardens import machine


def until(m, phase, limit_s=3600.0):
    """Lets time pass tick by tick until the phase is there; the seconds it took."""
    start = m.clock_s
    while m.phase is not phase:
        assert m.clock_s - start < limit_s, f"still {m.phase}"
        m.advance(TICK_S)
    return m.clock_s - start


def mowing(seed=1, patches=("front",), **traits):
    m = machine(seed, **traits)
    assert obey(m, wire.Cut(patches=patches)) is None
    until(m, Phase.CUTTING)
    m.take_happenings()
    return m


def kinds(m):
    return [type(h).__name__ for h in m.take_happenings()]


def test_a_new_machine_stays_in_its_dock():
    m = machine(start_battery=40, has_rain=True, stuck_per_hour=60)
    at = m.chassis.wheels.at
    m.advance(48 * 3600)
    reading = m.read()
    assert reading.phase is Phase.PARKED
    assert m.chassis.wheels.at == at
    assert reading.battery == 100
    assert not reading.blades_on
    assert reading.counters.distance_m == 0


def test_it_mows_within_seconds_of_its_start():
    m = machine()
    assert obey(m, wire.Cut()) is None
    assert m.read().phase is Phase.UNDOCKING
    assert until(m, Phase.CUTTING) < 10


def test_a_whole_job_from_dock_to_dock():
    m = mowing(patches=("side",))
    took_s = until(m, Phase.HOMING)
    until(m, Phase.CHARGING)
    assert 300 < took_s < 1800
    assert kinds(m) == ["JobEnded", "DockReached"]
    assert m.chassis.wheels.at == m.garden.dock
    reading = m.read()
    assert reading.counters.cutting_s > 300
    assert reading.counters.charges == 1
    assert reading.patch is None
    assert reading.is_by_plan is None


def test_progress_grows_to_the_end():
    m = mowing(patches=("side", "front"))
    assert set(m.read().progress) == {"side", "front"}
    seen = []
    for _ in range(60):
        m.advance(60)
        if m.read().patch != "front":
            break
        seen.append(m.read().progress["front"])
    assert seen == sorted(seen)
    assert m.read().progress["front"] == pytest.approx(100, abs=0.5)
    assert m.read().progress["side"] < 20


def test_a_low_battery_sends_it_home_and_it_goes_on_where_it_was():
    m = mowing(patches=("back",), start_battery=26)
    until(m, Phase.HOMING)
    left_at = m.chassis.wheels.at
    done = m.read().progress["back"]
    assert 0 < done < 100
    until(m, Phase.CHARGING)
    assert m.read().waits_for is Wait.BATTERY
    assert kinds(m) == ["DockReached"], "the job goes on, it neither ended nor began"
    until(m, Phase.CUTTING)
    assert m.read().battery == pytest.approx(90, abs=1)
    while not m.read().blades_on:
        m.advance(TICK_S)
    assert distance(m.chassis.wheels.at, left_at) < 0.5
    assert m.read().progress["back"] == pytest.approx(done, abs=1)


def test_rain_sends_it_home_and_it_goes_on_when_it_is_dry():
    for seed in range(1, 40):
        m = mowing(patches=("front", "back", "orchard"), weather_seed=seed, has_rain=True)
        m.advance(3600)
        if m.is_raining and m.read().waits_for is Wait.RAIN:
            break
    else:
        pytest.fail("no shower in time for any seed")
    assert obey(m, wire.Cut()) == "it is raining"
    until(m, Phase.CUTTING, 4 * 3600)
    assert not m.is_raining
    assert kinds(m) == ["RainChanged", "DockReached", "RainChanged"]


def test_a_job_ends_after_its_duration():
    m = machine()
    obey(m, wire.Cut(patches=("front",), limit_s=120))
    until(m, Phase.CUTTING)
    assert 118 <= until(m, Phase.HOMING) <= 122
    assert wire.JobEnded(reason="duration") in m.take_happenings()


def test_a_pause_keeps_the_job():
    m = mowing()
    m.advance(100)
    assert obey(m, wire.Halt()) is None
    at = m.chassis.wheels.at
    m.advance(600)
    reading = m.read()
    assert (reading.phase, reading.speed_mps, reading.blades_on) == (Phase.HALTED, 0, False)
    assert m.chassis.wheels.at == at
    assert obey(m, wire.Halt()) == "nothing to pause"
    assert obey(m, wire.GoOn()) is None
    m.advance(1)
    assert m.read().blades_on
    assert distance(at, m.chassis.wheels.at) < 1


@pytest.mark.parametrize("phase", [Phase.PARKED, Phase.UNDOCKING, Phase.CUTTING, Phase.HOMING, Phase.REMOTE])
def test_the_kill_switch_stops_it_at_once_and_for_good(phase):
    m = machine()
    if phase is Phase.REMOTE:
        obey(m, wire.TakeRemote())
        m.steer(1, -1.0, 0.0, 30.0)
        m.advance(1)
    elif phase is not Phase.PARKED:
        obey(m, wire.Cut(patches=("front",)))
        until(m, Phase.CUTTING if phase is Phase.HOMING else phase)
    if phase is Phase.HOMING:
        m.advance(60)
        obey(m, wire.GoHome())
    assert m.phase is phase
    at = m.chassis.wheels.at
    assert obey(m, wire.KillSwitch()) is None
    m.advance(TICK_S)
    assert m.chassis.wheels.at == at
    assert not m.read().blades_on
    m.advance(3600)
    assert m.chassis.wheels.at == at
    assert m.phase in {Phase.HALTED, Phase.PARKED}


def test_a_job_that_waits_in_the_dock_dies_with_the_kill_switch():
    m = mowing(patches=("back",), start_battery=26)
    until(m, Phase.CHARGING)
    obey(m, wire.KillSwitch())
    m.advance(6 * 3600)
    assert m.phase is Phase.PARKED
    assert wire.JobEnded(reason="cancelled") in m.take_happenings()


def test_going_home_drops_the_job():
    m = mowing()
    m.advance(30)
    assert obey(m, wire.GoHome()) is None
    assert m.phase is Phase.HOMING
    until(m, Phase.PARKED, 7200)
    m.advance(7200)
    assert m.phase is Phase.PARKED
    assert kinds(m) == ["JobEnded", "DockReached"]


def test_stuck_is_confirmed_from_afar_and_does_not_start_the_wheels():
    m = mowing()
    m.fail(Fault.STUCK)
    reading = m.read()
    assert (reading.phase, reading.fault, reading.blades_on) == (Phase.FAULT, Fault.STUCK, False)
    at = m.chassis.wheels.at
    for order in (wire.Cut(), wire.GoOn(), wire.GoHome(), wire.TakeRemote(), wire.Halt()):
        assert obey(m, order) is not None
    m.advance(3600)
    assert m.phase is Phase.FAULT, "nobody confirmed it"
    assert obey(m, wire.ClearFault()) is None
    m.advance(60)
    assert m.phase is Phase.HALTED
    assert m.chassis.wheels.at == at
    assert kinds(m) == ["FaultRaised", "FaultCleared"]
    assert obey(m, wire.GoOn()) is None


@pytest.mark.parametrize("fault", [Fault.LIFTED, Fault.BLADES_BLOCKED])
def test_other_faults_wait_for_somebody_beside_it(fault):
    m = mowing()
    m.fail(fault)
    assert obey(m, wire.ClearFault()) == "somebody has to look at the machine"
    took_s = until(m, Phase.HALTED)
    assert 300 <= took_s <= 1200


def test_an_empty_battery_is_carried_home():
    m = mowing(start_battery=30)
    obey(m, wire.Halt())
    until(m, Phase.FAULT, 60 * 3600)
    assert m.read().fault is Fault.BATTERY_EMPTY
    assert m.read().battery == 0
    until(m, Phase.CHARGING)
    assert m.chassis.wheels.at == m.garden.dock
    assert kinds(m) == ["FaultRaised", "FaultCleared", "JobEnded", "DockReached"]
    m.advance(8 * 3600)
    assert m.phase is Phase.PARKED


def test_trouble_comes_at_about_its_rate():
    faults = hours = 0.0
    for seed in range(1, 6):
        m = mowing(seed, patches=("front", "back", "orchard"), stuck_per_hour=4)
        for _ in range(240):
            m.advance(30)
            if m.phase is Phase.FAULT:
                m.clear_fault()
                obey(m, wire.GoOn())
        faults += sum(isinstance(h, wire.FaultRaised) for h in m.take_happenings())
        hours += m.read().counters.cutting_s / 3600
    assert 2 < faults / hours < 7


def test_it_refuses_to_start_without_charge_or_for_unknown_patches():
    m = machine(start_battery=10)
    assert obey(m, wire.Cut()) == "the battery is too low"
    assert machine().read().phase is Phase.PARKED
    assert obey(machine(), wire.Cut(patches=("front", "moon"))) == "no such area: moon"
    assert obey(machine(), wire.CutSpot(centre=(500.0, 0.0), radius_m=1)) == "there is no lawn at that place"


def test_a_spot_is_mown_around_its_middle():
    m = machine()
    assert obey(m, wire.CutSpot(centre=(11.0, 8.0), radius_m=1.5)) is None
    cut = []
    while m.phase is not Phase.HOMING:
        m.advance(TICK_S)
        if m.read().blades_on:
            cut.append(distance(m.chassis.wheels.at, (11.0, 8.0)))
    assert max(cut) <= 1.5
    assert len(cut) > 50


def test_by_hand_it_stops_when_the_frames_stop():
    m = machine()
    assert not m.steer(1, 1.0, 0.0, 1.0), "not in the remote mode"
    assert obey(m, wire.TakeRemote()) is None
    assert m.steer(1, -1.0, 0.0, 0.6)
    start = m.chassis.wheels.at
    m.advance(10)
    assert distance(start, m.chassis.wheels.at) == pytest.approx(0.5 * 0.6)
    assert m.read().speed_mps == 0
    assert not m.steer(1, -1.0, 0.0, 1.0), "an old frame"
    assert not m.steer(2, float("nan"), 0.0, 1.0)
    m.advance(70)
    assert m.phase is Phase.STANDBY


def test_by_hand_it_does_not_drive_through_the_house():
    m = machine()
    obey(m, wire.TakeRemote())
    for sequence in range(100):
        m.steer(sequence, 1.0, 0.0, 1.0)
        m.advance(0.5)
    assert m.garden.is_free(m.chassis.wheels.at)
    assert m.read().counters.bumps == 1


def test_after_driving_by_hand_the_job_can_go_on():
    m = mowing()
    m.advance(60)
    assert obey(m, wire.TakeRemote()) == "pause it first"
    obey(m, wire.Halt())
    done = m.read().progress["front"]
    obey(m, wire.TakeRemote())
    m.steer(1, 1.0, 0.2, 5.0)
    m.advance(5)
    m.let_go()
    assert m.phase is Phase.HALTED
    assert obey(m, wire.GoOn()) is None
    m.advance(60)
    assert m.read().progress["front"] > done


def test_settings_and_the_plan_are_kept():
    m = machine()
    window = wire.PlanWindow(weekday=1, start_minute=600, end_minute=700, patches=("front",))
    assert obey(m, wire.SkipWindow()) == "nothing is planned"
    assert obey(m, wire.SetPlan(windows=(wire.PlanWindow(weekday=1, start_minute=0, end_minute=9, patches=("x",)),)))
    assert obey(m, wire.SetPlan(windows=(window,))) is None
    assert obey(m, wire.SkipWindow()) is None
    assert obey(m, wire.SetHeight(height_mm=60)) is None
    assert obey(m, wire.SetPace(speed_mps=0.3)) is None
    assert obey(m, wire.Beep()) is None
    reading = m.read()
    assert (reading.plan, reading.skips_next, reading.is_beeping) == ((window,), True, True)
    assert (reading.blade_height_mm, reading.target_speed_mps) == (60, 0.3)
    m.advance(20)
    assert not m.read().is_beeping


def test_new_blades_reset_the_wear_and_not_the_life():
    m = mowing()
    m.advance(600)
    before = m.read().counters
    assert before.blade_wear_s > 500
    obey(m, wire.NewBlades())
    after = m.read().counters
    assert after.blade_wear_s == 0
    assert after.blades_s == before.blades_s


def test_a_window_starts_a_job_only_when_it_is_followed_and_not_skipped():
    window = wire.PlanWindow(weekday=1, start_minute=600, end_minute=700, patches=("front",))
    m = machine()
    obey(m, wire.SetPlan(windows=(window,)))
    assert begin_window(m, window, limit_s=60, is_followed=False) == "the plan is not followed"
    obey(m, wire.SkipWindow())
    assert begin_window(m, window, limit_s=60, is_followed=True) == "this window is skipped"
    assert m.phase is Phase.PARKED
    assert begin_window(m, window, limit_s=60, is_followed=True) is None
    assert m.read().is_by_plan is True
    obey(m, wire.KillSwitch())
    assert begin_window(m, window, limit_s=60, is_followed=True) == "a planned job starts only from the dock"


ORDERS = st.one_of(
    st.sampled_from(
        [
            wire.Cut(),
            wire.Cut(patches=("front",)),
            wire.Cut(patches=("orchard", "side"), limit_s=300),
            wire.CutSpot(centre=(11.0, 8.0), radius_m=2.0),
            wire.Halt(),
            wire.GoOn(),
            wire.GoHome(),
            wire.KillSwitch(),
            wire.ClearFault(),
            wire.TakeRemote(),
            wire.SetPace(speed_mps=0.6),
            wire.NewBlades(),
            wire.Beep(),
        ]
    ),
    st.sampled_from([Fault.STUCK, Fault.LIFTED, Fault.NO_WAY]),
    st.tuples(st.floats(-1, 1), st.floats(-1, 1)),
)
SCRIPTS = st.lists(st.tuples(ORDERS, st.sampled_from([1.0, 7.0, 40.0, 300.0, 4000.0])), min_size=1, max_size=14)


def play(m, sequence, order):
    if isinstance(order, Fault):
        m.fail(order)
    elif isinstance(order, tuple):
        m.steer(sequence, *order, 5.0)
    else:
        obey(m, order)


def grew(before, after):
    names = ("cutting_s", "running_s", "charging_s", "blades_s", "distance_m", "charges", "bumps")
    return all(getattr(after, name) >= getattr(before, name) for name in names)


@settings(max_examples=60, deadline=None)
@given(SCRIPTS, st.integers(1, 4), st.sampled_from([15.0, 30.0, 100.0]))
def test_whatever_it_is_told_it_stays_honest_and_in_its_garden(script, seed, battery):
    m = machine(seed, start_battery=battery, has_rain=True, weather_seed=seed, stuck_per_hour=6)
    for sequence, (order, seconds) in enumerate(script):
        play(m, sequence, order)
        ticks = round(seconds / TICK_S)
        step = max(1, ticks // 100)
        for _ in range(ticks // step):
            before, at = m.read(), m.chassis.wheels.at
            m.advance(step * TICK_S)
            after = m.read()
            assert 0 <= after.battery <= 100
            assert m.garden.is_free(m.chassis.wheels.at)
            assert grew(before.counters, after.counters)
            assert not after.blades_on or after.phase is Phase.CUTTING
            assert (after.phase is Phase.FAULT) == (after.fault is not None)
            if after.phase in STANDING:
                assert after.speed_mps == 0
                assert not after.blades_on
            if step == 1 and before.phase is after.phase and after.phase in STANDING:
                assert m.chassis.wheels.at == at
            assert all(0 <= percent <= 100 for percent in after.progress.values())


@settings(max_examples=40, deadline=None)
@given(SCRIPTS, st.sampled_from([0.01, 0.1, 0.25, 1.0, 3.7, 30.0]))
def test_the_track_does_not_depend_on_the_pieces_of_time(script, piece_s):
    whole = machine(2, stuck_per_hour=6, has_rain=True)
    parts = machine(2, stuck_per_hour=6, has_rain=True)
    for sequence, (order, seconds) in enumerate(script):
        play(whole, sequence, order)
        play(parts, sequence, order)
        seconds = min(seconds, 60.0)
        whole.advance(seconds)
        count = int(seconds / piece_s)
        for _ in range(count):
            parts.advance(piece_s)
        parts.advance(seconds - count * piece_s + 1e-9)
        assert parts.clock_s == whole.clock_s
        assert parts.read() == whole.read()
        assert parts.chassis.wheels.at == whole.chassis.wheels.at
    assert parts.take_happenings() == whole.take_happenings()


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                wire.Beep(),
                wire.NewBlades(),
                wire.KillSwitch(),
                wire.GoHome(),
                wire.GoOn(),
                wire.Halt(),
                wire.ClearFault(),
                wire.SkipWindow(),
            ]
        ),
        max_size=8,
    )
)
def test_nothing_but_a_start_leaves_the_dock(orders):
    m = machine(1, start_battery=50, stuck_per_hour=60)
    for order in orders:
        obey(m, order)
        m.advance(500)
        assert m.chassis.wheels.at == m.garden.dock
