"""Mowing sessions, cut from the stream of a mower's states: one job from leaving to docking.

A session **opens** at the first state that says leaving or mowing. Its start is known when the state before it, at most
120 s older, said something else; a mower that is met while it mows began earlier, and the session says so.

It **stays open** through everything that belongs to the job: driving, standing in the garden (up to HALT_MAX_S), and breaks
at the dock after which it goes on. What a stay at the dock is, is asked at each state there, in this order:

1. The mower gives a reason: `charging` and `rain` are breaks, any other (a schedule) is the end.
2. A command through Mowdeck sent it home: the end.
3. It stood in the garden with a fault and then was at the dock (somebody carried it): the end, by the fault.
4. Rain as it came in: a break. A mower that has ever named rain as its reason would name it now: then not.
5. A battery of more than LOW_PERCENT as it came in: nothing drove it home but the end of its job or of its window.
6. A mower that has ever named charging as its reason would name it now: the end.
7. Its own progress: the end from DONE_PERCENT on, else a break to charge.
8. Its next start within SOON_S: a break to charge; later: the end.
9. Nothing of this is known: it may go on (`docked`); if it does within CHARGE_MAX_S, it was a break.

It **ends** with the docking, once the stay has looked like the end for SETTLE_S (reasons come a report late, and a contact
that bounces is no job), or for LINGER_S if it looked like a break before (rain that is over); and when a break outlasts
CHARGE_MAX_S or RAIN_MAX_S. Then all that came after the docking is left out of the sums. A stand in the garden that outlasts
HALT_MAX_S ends it where the stand began, a silence of SILENCE_S where it was last heard.

The rules see states only in order: one that is not newer than all before changes nothing, so redelivery and late states
do not matter. All sums are whole microseconds, so time zones and restarts do not matter either.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from core.domain import limits
from core.domain.clock import to_us
from core.domain.mower import AT_DOCK, Activity, Connectivity, MowerState
from core.telemetry.health import ACCURACY_MAX_M, SPEED_MAX_MPS, STEP_MIN_M, is_charging
from core.telemetry.session import EndedBy, Session
from core.telemetry.session_tally import STOPS_MAX, Course, Job, Seen, SessionTally, Standstill, session_body
from core.telemetry.significance import Place, distance_m

CHARGING, RAIN, DOCKED = "charging", "rain", "docked"
GOES_ON = frozenset({CHARGING, RAIN})
LOW_PERCENT = 40
"""Mowers of all brands turn home to charge between 15 and 35 %."""
DONE_PERCENT = 95.0
"""Progress is reported up to a heartbeat late, and corners are left."""
SOON_S = 4 * 3_600.0
"""The longest charges take about this long."""
CHARGE_MAX_S = 6 * 3_600.0
"""A charge of four hours, and patience; the next window of a schedule is usually a night away."""
RAIN_MAX_S = 12 * 3_600.0
"""A rainy day; what is mown after it is another job."""
SETTLE_S = 60.0
"""Six heartbeats."""
LINGER_S = 1_800.0
"""Mowers wait for the grass to dry a little, or begin their way late."""
ORDER_SLACK_S = 30.0
"""A command may be done before the last report of mowing."""
HALT_MAX_S = 4 * 3_600.0
"""Time for a person to come home and free it."""
SILENCE_S = 2 * 3_600.0
"""A far end of the garden out of reach, a box without power for a while; longer, and nobody knows what it did."""
RECORD_S = 300.0
"""An open session is written this often, the first time when it is this old or has its first break, ..."""
IDLE_RECORD_S = 3_600.0
"""... at the dock this often, ..."""
CHANGE_RECORD_S = 60.0
"""... and after a break has begun or ended this often."""
SAMPLE_S = 2.0
"""The way is looked at this often: see health."""
AREAS_MAX = 24
ERRORS_MAX = 24
OTHER = "other"
TEXT_CHARS = 64

WasSentHome = Callable[[int, int], bool]
"""Whether a person's command sent the mower home within these times (microseconds)."""

_SECOND = 1_000_000
_GAP_US = int(limits.HEALTH_GAP_S * _SECOND)
_MAX_US = {RAIN: int(RAIN_MAX_S * _SECOND)}
_CHARGE_MAX_US = int(CHARGE_MAX_S * _SECOND)
_SPENDS = {
    Activity.MOWING: "mowing",
    Activity.LEAVING: "driving",
    Activity.RETURNING: "driving",
    Activity.MANUAL: "driving",
    Activity.ERROR: "error",
    Activity.PAUSED: "paused",
    Activity.IDLE: "paused",
}
_WORKING = frozenset({Activity.LEAVING, Activity.MOWING, Activity.RETURNING})


class SessionVersion(msgspec.Struct, frozen=True):
    """A session to be written as a record, as it is at `updated_us`."""

    session: Session
    updated_us: int


def advance(
    course: Course, state: MowerState, place: Place | None, was_sent_home: WasSentHome
) -> tuple[SessionVersion, ...]:
    """Takes the mower's next state; the versions to be written now. `course` is changed in place."""
    now_us = to_us(state.observed_at)
    if now_us <= course.last_us:
        return ()
    course.last_us = now_us
    is_known = state.activity is not Activity.UNKNOWN and state.connectivity is not Connectivity.OFFLINE
    versions: list[SessionVersion] = []
    job, seen = course.job, course.seen
    if is_known and state.restricted_reason in GOES_ON and state.restricted_reason not in course.told:
        course.told = [*course.told, state.restricted_reason]
    if job is not None and seen is not None:
        ended = _end(course, job, seen, state if is_known else None, now_us)
        if ended is not None:
            versions.append(SessionVersion(ended, now_us))
            job = course.job = None
    if is_known:
        if job is not None and seen is not None:
            _go_on(course, job, seen, (state, now_us, place), was_sent_home)
        elif job is None and state.activity in {Activity.LEAVING, Activity.MOWING}:
            job = course.job = _open(course, now_us, place)
        if job is not None:
            _note(job, seen, state, now_us)
        course.seen, course.is_lost = _seen(state, now_us), False
    else:
        course.is_lost = True
        if job is not None:
            job.anchor = None
    if job is not None and is_known and now_us - job.recorded_us >= _pause_us(job):
        versions.append(SessionVersion(session_body(job, job.tally, now_us), now_us))
        job.recorded_us, job.recorded_reason = now_us, _reason(job)
    return tuple(versions)


def _open(course: Course, now_us: int, place: Place | None) -> Job:
    seen = course.seen
    is_start_known = seen is not None and not course.is_lost and now_us - seen.at_us <= _GAP_US
    return Job(now_us, is_start_known, now_us, SessionTally(), worked_us=now_us, anchor=place)


def _pause_us(job: Job) -> int:
    if job.recorded_reason != _reason(job):
        return int(CHANGE_RECORD_S * _SECOND)
    is_idle = job.standstill is not None and job.standstill.is_at_dock
    return int((IDLE_RECORD_S if is_idle else RECORD_S) * _SECOND)


def _reason(job: Job) -> str | None:
    return None if job.standstill is None else job.standstill.reason


# Ending


def _end(course: Course, job: Job, seen: Seen, state: MowerState | None, now_us: int) -> Session | None:
    """The session as it ended before now, if it did. `state`: what is known now."""
    stop = job.standstill
    if stop is not None and stop.is_at_dock:
        if state is not None and state.activity in AT_DOCK:
            _judge(course, job, stop, state, now_us)
        ended_by = _outcome_at_dock(stop, now_us)
        if ended_by is None:
            return None
        return session_body(job, stop.tally, stop.at_us, ended_us=stop.at_us, ended_by=ended_by)
    if now_us - seen.at_us > SILENCE_S * _SECOND:
        return session_body(job, job.tally, seen.at_us, ended_us=seen.at_us, ended_by=EndedBy.SILENCE)
    if stop is not None and now_us - stop.at_us >= HALT_MAX_S * _SECOND:
        ended_by = EndedBy.ERROR if stop.reason == "error" else EndedBy.LEFT_STANDING
        return session_body(job, stop.tally, stop.at_us, ended_us=stop.at_us, ended_by=ended_by)
    return None


def _outcome_at_dock(stop: Standstill, now_us: int) -> EndedBy | None:
    """How the session has ended by now, None while it has not."""
    if stop.over_us is not None:
        grace_s = LINGER_S if stop.has_waited and not stop.was_sent_home else SETTLE_S
        if now_us - stop.over_us >= grace_s * _SECOND:
            return stop.outcome
    if now_us - stop.at_us < _MAX_US.get(stop.reason, _CHARGE_MAX_US):
        return None
    return EndedBy.DOCKED if stop.reason == DOCKED else EndedBy.NOT_RESUMED


def _judge(course: Course, job: Job, stop: Standstill, state: MowerState, now_us: int) -> None:
    """Whether this stay at the dock looks like a break or like the end: rules 1 to 9."""
    found = _word(course, job, stop, state)
    if isinstance(found, EndedBy):
        stop.outcome = found
        if stop.over_us is None:
            stop.over_us = now_us
        return
    stop.outcome = stop.over_us = None
    stop.has_waited = stop.has_waited or found != DOCKED
    stop.reason = found


def _word(course: Course, job: Job, stop: Standstill, state: MowerState) -> EndedBy | str:
    """How the session ended, or what it waits for."""
    reason = state.restricted_reason
    if reason is not None and not stop.was_sent_home:
        return reason if reason in GOES_ON else EndedBy.DOCKED
    if stop.was_sent_home:
        return EndedBy.SENT_HOME
    if stop.was_carried:
        return EndedBy.ERROR
    if RAIN not in course.told and (job.was_raining or state.is_raining):
        return RAIN
    if CHARGING in course.told or (job.battery_out is not None and job.battery_out > LOW_PERCENT):
        return EndedBy.DOCKED
    if stop.tally.progress_percent is not None:
        return EndedBy.DOCKED if stop.tally.progress_percent >= DONE_PERCENT else CHARGING
    if state.next_start_at is not None:
        is_soon = to_us(state.next_start_at) - stop.at_us <= SOON_S * _SECOND
        return CHARGING if is_soon else EndedBy.DOCKED
    return DOCKED


# Going on


def _go_on(
    course: Course, job: Job, seen: Seen, now: tuple[MowerState, int, Place | None], was_sent_home: WasSentHome
) -> None:
    """The session lives: the time since the last state, and where it stands now."""
    state, now_us, _ = now
    _credit(course, job.tally, seen, now_us)
    _count_way(course, job, seen, now)
    _count_battery(course, job.tally, seen, state, now_us)
    stop, activity = job.standstill, state.activity
    if activity in AT_DOCK:
        if stop is None or not stop.is_at_dock:
            was_carried = stop is not None and stop.reason == "error"
            stop = Standstill(now_us, job.tally.copied(), DOCKED, is_at_dock=True, was_carried=was_carried)
            stop.was_sent_home = was_sent_home(job.worked_us - int(ORDER_SLACK_S * _SECOND), now_us)
            job.standstill = stop
            _judge(course, job, stop, state, now_us)
    elif activity in _WORKING or (stop is not None and stop.is_at_dock):
        if stop is not None:
            _resume(job, stop, now_us)
    elif stop is None:
        job.standstill = Standstill(now_us, job.tally.copied(), _halt_reason(state), is_at_dock=False)
    elif _halt_reason(state) == "error":
        stop.reason = "error"


def _halt_reason(state: MowerState) -> str:
    return "error" if state.error is not None or state.activity is Activity.ERROR else "paused"


def _resume(job: Job, stop: Standstill, now_us: int) -> None:
    tally = job.tally
    tally.interruptions += 1
    if len(tally.stops) < STOPS_MAX:
        tally.stops.append((stop.reason, stop.at_us, now_us))
    job.standstill = None


def _credit(course: Course, tally: SessionTally, seen: Seen, now_us: int) -> None:
    """The stretch belongs to what the last known state said, as far as 120 s and nothing unknown lies between."""
    whole_us = now_us - seen.at_us
    spent_us = 0 if course.is_lost else min(whole_us, _GAP_US)
    for kind, us in ((seen.spends, spent_us), ("unseen", whole_us - spent_us)):
        if us:
            tally.spent_us[kind] = tally.spent_us.get(kind, 0) + us
    if seen.is_raining:
        tally.rain_us += spent_us
    if seen.is_mowing and spent_us:
        area = seen.area or ""
        if area not in tally.areas_us and len(tally.areas_us) >= AREAS_MAX:
            area = ""
        tally.areas_us[area] = tally.areas_us.get(area, 0) + spent_us


def _count_way(course: Course, job: Job, seen: Seen, now: tuple[MowerState, int, Place | None]) -> None:
    """Steps as in health: shorter ones than the receiver's noise wait, faster ones than any mower are jumps."""
    state, now_us, place = now
    accuracy_m = None if state.position is None else state.position.accuracy_m
    is_good = place is not None and (accuracy_m is None or accuracy_m <= ACCURACY_MAX_M)
    is_moving = seen.spends in {"mowing", "driving"}
    if not is_good or not is_moving or course.is_lost or now_us - seen.at_us > _GAP_US:
        job.anchor = place if is_good else None
        return
    anchor = job.anchor
    if anchor is None or place is None:
        job.anchor = place
        return
    is_turn = (state.activity is Activity.MOWING) != seen.is_mowing
    if now_us - anchor.at_us < SAMPLE_S * _SECOND and not is_turn:
        return
    noise_m = STEP_MIN_M if accuracy_m is None or accuracy_m < STEP_MIN_M else accuracy_m
    step_m = distance_m(anchor, place)
    if step_m < noise_m:
        return
    job.anchor = place
    if step_m <= noise_m + SPEED_MAX_MPS * (place.at_us - anchor.at_us) / _SECOND:
        tally, step_mm = job.tally, round(step_m * 1000)
        tally.distance_mm = (tally.distance_mm or 0) + step_mm
        if seen.is_mowing and state.blades_on is not False:
            tally.mowing_mm = (tally.mowing_mm or 0) + step_mm


def _count_battery(course: Course, tally: SessionTally, seen: Seen, state: MowerState, now_us: int) -> None:
    """Signed differences away from the charger: a percentage that flickers sums up to nothing. What a charge has given
    by its first report is no such flicker."""
    had, has = seen.battery_percent, state.battery_percent
    if had is None or has is None or course.is_lost or now_us - seen.at_us > _GAP_US:
        return
    if not seen.is_charging and not seen.is_at_dock:
        tally.used_percent = (tally.used_percent or 0) + (max(0, had - has) if is_charging(state) else had - has)


def _note(job: Job, seen: Seen | None, state: MowerState, now_us: int) -> None:
    """What the state says by itself: for the rules, and as bounds and counts of what begins."""
    tally, battery, is_out = job.tally, state.battery_percent, state.activity not in AT_DOCK
    if is_charging(state) and (seen is None or not seen.is_charging):
        tally.charges += 1
    error = state.error
    if error is not None and (seen is None or seen.error_code != error.code[:TEXT_CHARS]):
        code = error.code[:TEXT_CHARS]
        if code not in tally.errors and len(tally.errors) >= ERRORS_MAX:
            code = OTHER
        tally.errors[code] = tally.errors.get(code, 0) + 1
    if state.activity is Activity.MOWING:
        job.worked_us = now_us
    if is_out:
        job.was_raining = bool(state.is_raining)
        if state.progress_percent is not None:
            tally.progress_percent = state.progress_percent
    if battery is not None:
        if is_out:
            job.battery_out = battery
        tally.battery_min = battery if tally.battery_min is None else min(battery, tally.battery_min)
        tally.battery_max = battery if tally.battery_max is None else max(battery, tally.battery_max)


def _seen(state: MowerState, now_us: int) -> Seen:
    charging, activity = is_charging(state), state.activity
    if activity in AT_DOCK:
        spends = "charging" if charging else "docked"
    else:
        spends = _SPENDS[activity]
        if spends == "paused" and state.error is not None:
            spends = "error"
    return Seen(
        now_us,
        spends,
        None if state.current_area is None else state.current_area[:TEXT_CHARS],
        activity is Activity.MOWING,
        activity in AT_DOCK,
        bool(state.is_raining),
        charging,
        state.battery_percent,
        None if state.error is None else state.error.code[:TEXT_CHARS],
    )
