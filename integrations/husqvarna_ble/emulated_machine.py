"""The emulated mower itself, without its radio: what it does with time and with orders. Pure.

States and activities as real mowers show them: parked and restricted -> (override) going out -> mowing -> going home ->
charging -> parked; paused; faults that only `help` (a person) ends. Nothing moves unless an order or the plan says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from integrations.husqvarna_ble.wire import (
    Message,
    Mode,
    Model,
    MowerActivity,
    Override,
    OverrideAction,
    Result,
    State,
    Statistics,
    Task,
)

NO_OVERRIDE = Override(action=OverrideAction.NONE, start=0, duration_s=0)
FAULTS = frozenset({State.OFF, State.WAIT_FOR_SAFETYPIN, State.STOPPED, State.FATAL_ERROR, State.ERROR})
AT_DOCK = frozenset({MowerActivity.CHARGING, MowerActivity.PARKED, MowerActivity.NONE})
_STEP_S = 1.0
_LONGEST_S = 12 * 3_600.0
"""Time beyond this at once never happened for the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Who the mower is and how fast it is."""

    serial: int = 230412223
    model: Model = field(default_factory=lambda: Model(device_type=23, variant=1))
    name: str = "305"
    firmware: str = "MSW-1.2.3"
    counts_blades: bool = True
    """False: the shorter statistics of older mowers."""
    leaving_s: float = 20.0
    homing_s: float = 60.0
    mowing_s: float = 70 * 60.0
    """On a full battery."""
    charging_s: float = 60 * 60.0
    """From empty to full."""
    low_percent: float = 20.0


class Machine:
    """`advance` first, then look or order. Orders return a Result."""

    def __init__(self, traits: Traits | None = None, *, clock: int = 1_780_300_800) -> None:
        self.traits = traits if traits is not None else Traits()
        self.clock = float(clock)
        """Local wall time, seconds."""
        self.mode: int = Mode.AUTO
        self.state: int = State.RESTRICTED
        self.activity: int = MowerActivity.PARKED
        self.error = 0
        self.battery = 100.0
        self.override = NO_OVERRIDE
        self.restriction = 2
        self.next_start = 0
        self.cutting_height = 5
        self.tasks: list[Task] = []
        self.messages: list[Message] = []
        self._seconds = {"running": 2_072_608.0, "cutting": 2_023_427.0, "charging": 1_021_329.0, "searching": 99_204.0}
        self._blade_s = 156_257.0
        self.collisions = 24_598
        self.cycles = 280
        self._phase_s = 0.0

    # Looking

    @property
    def is_faulty(self) -> bool:
        return self.state in FAULTS

    @property
    def is_moving(self) -> bool:
        moving = {MowerActivity.GOING_OUT, MowerActivity.MOWING, MowerActivity.GOING_HOME}
        return self.state == State.IN_OPERATION and self.activity in moving

    @property
    def is_charging(self) -> bool:
        return self.activity == MowerActivity.CHARGING

    @property
    def remaining_charge_s(self) -> int:
        return int((100.0 - self.battery) / 100.0 * self.traits.charging_s) if self.is_charging else 0

    @property
    def statistics(self) -> Statistics:
        return Statistics(
            running_s=int(self._seconds["running"]),
            cutting_s=int(self._seconds["cutting"]),
            charging_s=int(self._seconds["charging"]),
            searching_s=int(self._seconds["searching"]),
            collisions=self.collisions,
            charging_cycles=self.cycles,
            blade_usage_s=int(self._blade_s) if self.traits.counts_blades else None,
        )

    # Time

    def advance(self, seconds: float) -> None:
        """Lets the machine live through that time."""
        left_s = min(max(seconds, 0.0), _LONGEST_S)
        while left_s > 0.0:
            step_s = min(left_s, _STEP_S)
            left_s -= step_s
            self._live(step_s)

    def _live(self, step_s: float) -> None:
        self.clock += step_s
        self._end_override()
        if self.is_charging and not self.is_faulty:
            self._charge(step_s)
        elif self.is_moving:
            self._move(step_s)

    def _end_override(self) -> None:
        override = self.override
        if override.action != OverrideAction.NONE and 0 < override.duration_s < self.clock - override.start:
            was_mowing = override.action == OverrideAction.FORCEDMOW
            self.override = NO_OVERRIDE
            if was_mowing and self.is_moving:
                self._go_home()

    def _charge(self, step_s: float) -> None:
        self.battery = min(100.0, self.battery + step_s * 100.0 / self.traits.charging_s)
        self._seconds["charging"] += step_s
        if self.battery < 100.0:
            return
        if self._wants_to_mow and self.state == State.IN_OPERATION:
            self._go_out()
        else:
            self._park(MowerActivity.PARKED)

    def _move(self, step_s: float) -> None:
        self._phase_s += step_s
        self.battery = max(0.0, self.battery - step_s * 100.0 / self.traits.mowing_s)
        self._seconds["running"] += step_s
        if self.activity == MowerActivity.GOING_OUT and self._phase_s >= self.traits.leaving_s:
            self.activity, self._phase_s = MowerActivity.MOWING, 0.0
        elif self.activity == MowerActivity.MOWING:
            self._seconds["cutting"] += step_s
            self._blade_s += step_s
            if self.battery <= self.traits.low_percent:
                self._go_home()
        elif self.activity == MowerActivity.GOING_HOME:
            self._seconds["searching"] += step_s
            if self._phase_s >= self.traits.homing_s:
                self._arrive()

    def _arrive(self) -> None:
        self.cycles += 1
        self._park(MowerActivity.CHARGING)
        if self._wants_to_mow:
            self.state = State.IN_OPERATION  # it goes on when the battery is full

    def _park(self, activity: MowerActivity) -> None:
        self.state, self.activity, self._phase_s = State.RESTRICTED, activity, 0.0

    def _go_home(self) -> None:
        self.state, self.activity, self._phase_s = State.IN_OPERATION, MowerActivity.GOING_HOME, 0.0

    def _go_out(self) -> None:
        self.state, self.activity, self._phase_s = State.IN_OPERATION, MowerActivity.GOING_OUT, 0.0

    @property
    def _wants_to_mow(self) -> bool:
        return self.mode != Mode.HOME and self.override.action == OverrideAction.FORCEDMOW

    # Orders

    def set_mode(self, mode: int) -> Result:
        if mode not in {member.value for member in Mode}:
            return Result.INVALID_VALUE
        self.mode = mode
        return Result.OK

    def set_override(self, action: OverrideAction, duration_s: int) -> Result:
        """`duration_s` 0: until it is cleared."""
        self.override = Override(action=action, start=int(self.clock), duration_s=duration_s)
        return Result.OK

    def clear_override(self) -> Result:
        self.override = NO_OVERRIDE
        return Result.OK

    def trigger(self) -> Result:
        """Begins what mode and override say, or goes on after a pause."""
        if self.is_faulty:
            return Result.NOT_ALLOWED
        is_at_dock = self.activity in AT_DOCK
        if self._is_to_park:
            if is_at_dock:
                self._park(MowerActivity.PARKED if self.battery >= 100.0 else MowerActivity.CHARGING)
            elif not (self.is_moving and self.activity == MowerActivity.GOING_HOME):
                self._go_home()
        elif is_at_dock:
            if self._wants_to_mow:
                self._go_out()
            else:
                self._park(MowerActivity.PARKED if self.battery >= 100.0 else MowerActivity.CHARGING)
        elif not self.is_moving or self.activity == MowerActivity.GOING_HOME:
            self.state, self.activity, self._phase_s = State.IN_OPERATION, MowerActivity.MOWING, 0.0
        return Result.OK

    @property
    def _is_to_park(self) -> bool:
        return self.mode == Mode.HOME or self.override.action == OverrideAction.FORCEDPARK

    def pause(self) -> Result:
        """Stands still where it is, blades off."""
        if self.is_faulty:
            return Result.NOT_ALLOWED
        self.state = State.PAUSED
        return Result.OK

    def set_cutting_height(self, height: int) -> Result:
        if not 1 <= height <= 9:
            return Result.OUT_OF_RANGE
        self.cutting_height = height
        return Result.OK

    def reset_blades(self) -> Result:
        self._blade_s = 0.0
        return Result.OK

    # What happens to it

    def fail(self, error: int, state: State = State.ERROR) -> None:
        """A fault stops it where it is."""
        self.error, self.state = error, state
        self.messages.insert(0, Message(time=int(self.clock), code=error, severity=2))
        if self.activity not in AT_DOCK:
            self.activity = MowerActivity.STOPPED_IN_GARDEN

    def help(self) -> None:
        """A person has come, cleared the fault and put it into its dock."""
        self.error, self.override = 0, NO_OVERRIDE
        self._park(MowerActivity.CHARGING if self.battery < 100.0 else MowerActivity.PARKED)
