"""One connection to one simulated machine: the only module of the folder that waits.

While the link runs, the machine's time follows the box's monotonic clock, times the time scale. Orders are obeyed at
once; events are reported at once, states at most once in `report_interval_s` and only when something has changed.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import msgspec

from core.domain import commands
from core.domain.capabilities import Capabilities
from core.domain.clock import EPOCH
from core.domain.commands import Command
from core.domain.drive import DriveFrame
from core.domain.errors import LinkLostError, NotReadyError
from core.domain.mower import MowerState
from core.platform.integration import ACCEPTED, IntegrationContext, Outcome, Report
from integrations.simulator.machine import TICK_S, Machine
from integrations.simulator.mapping import Frame, event_of, order_of, state_of
from integrations.simulator.models import MOTOR_TIMEOUT_S
from integrations.simulator.orders import begin_window, obey
from integrations.simulator.schedule import just_begun, next_start
from integrations.simulator.settings import SimulatorSettings
from integrations.simulator.wire import Reading

_WAKE_S = 0.2
"""The link looks at its machine this often, or as often as it may report."""
_SLICE_S = 200 * TICK_S
"""Machine time that is made up for before others get their turn on the loop."""
_BACKLOG_S = 30.0
"""Real seconds that are made up for after the box has slept; what is beyond never happened for the machine."""


class Plot:
    """A machine, where its garden lies, and whether a link holds it. Outlives its links."""

    def __init__(self, machine: Machine, frame: Frame, capabilities: Capabilities) -> None:
        self.machine = machine
        self.frame = frame
        self.capabilities = capabilities
        self.is_held = False
        self._fault: tuple[float, datetime] | None = None

    def fault_since(self, now: datetime, time_scale: float) -> datetime | None:
        """When the fault began; worked out once for each fault, so that it does not wander."""
        reading = self.machine.read()
        if reading.fault_since_s is None:
            self._fault = None
            return None
        if self._fault is None or self._fault[0] != reading.fault_since_s:
            age_s = (reading.clock_s - reading.fault_since_s) / time_scale
            self._fault = reading.fault_since_s, now - timedelta(seconds=age_s)
        return self._fault[1]


class SimulatorLink:
    """A DrivableLink. `run` once; `send` and `drive` only while it runs."""

    def __init__(self, plot: Plot, settings: SimulatorSettings, context: IntegrationContext) -> None:
        self.capabilities = plot.capabilities
        self._plot = plot
        self._machine = plot.machine
        self._settings = settings
        self._clock = context.clock
        self._log = context.log
        self._was_run = False
        self._is_open = False
        self._nudge = asyncio.Event()
        self._monotonic = 0.0
        self._owed_s = 0.0
        self._reported: MowerState | None = None
        self._reported_monotonic = 0.0
        self._plan_seen_at = EPOCH

    async def run(self, report: Report) -> None:
        """Reports until it is cancelled. LinkLostError when it ran before, NotReadyError when another link holds
        the machine."""
        if self._was_run:
            raise LinkLostError("this link has ended; open a new one")
        if self._plot.is_held:
            raise NotReadyError("another link holds the machine")
        self._was_run = self._is_open = self._plot.is_held = True
        self._monotonic = self._clock.monotonic()
        self._plan_seen_at = self._clock.now()
        try:
            await self._keep_reporting(report)
        finally:
            self._machine.let_go()
            self._is_open = self._plot.is_held = False

    async def _keep_reporting(self, report: Report) -> None:
        wake_s = min(_WAKE_S, self._settings.report_interval_s)
        while True:
            self._nudge.clear()
            await self._catch_up()
            self._follow_plan()
            self._report(report)
            try:
                async with asyncio.timeout(wake_s):
                    await self._nudge.wait()
            except TimeoutError:
                continue

    # Time

    async def _catch_up(self) -> None:
        """Lets the machine live through the time since the last look, in slices."""
        now = self._clock.monotonic()
        self._owed_s += min(now - self._monotonic, _BACKLOG_S) * self._settings.time_scale
        self._monotonic = now
        while self._owed_s > 0.0:
            part_s = min(self._owed_s, _SLICE_S)
            self._owed_s -= part_s
            self._machine.advance(part_s)
            await asyncio.sleep(0)

    # Reports

    def _report(self, report: Report) -> None:
        now = self._clock.now()
        for happening in self._machine.take_happenings():
            report(event_of(happening, now))
        monotonic = self._clock.monotonic()
        is_due = self._reported is None or monotonic - self._reported_monotonic >= self._settings.report_interval_s
        if not is_due:
            return
        state = self._state(now)
        if self._reported is not None and state == msgspec.structs.replace(self._reported, observed_at=now):
            return
        self._reported, self._reported_monotonic = state, monotonic
        report(state)

    def _state(self, now: datetime) -> MowerState:
        reading = self._machine.read()
        return state_of(
            reading,
            self._plot.frame,
            observed_at=now,
            error_since=self._plot.fault_since(now, self._settings.time_scale),
            next_start_at=self._next_start(reading, now),
        )

    # The weekly plan

    def _next_start(self, reading: Reading, now: datetime) -> datetime | None:
        return next_start(reading.plan, now, self._settings.time_zone, skips_next=reading.skips_next)

    def _follow_plan(self) -> None:
        """Starts what the plan says begins now, if the entry wants that."""
        now = self._clock.now()
        before, self._plan_seen_at = self._plan_seen_at, now
        plan = self._machine.plan
        window = just_begun(plan, before, now, self._settings.time_zone) if plan else None
        if window is None:
            return
        limit_s = (window.end_minute - window.start_minute) * 60.0 * self._settings.time_scale
        is_followed = self._settings.follows_schedule
        reason = begin_window(self._machine, window, limit_s=limit_s, is_followed=is_followed)
        self._log.info("window of the plan begins: %s", reason or "job started")

    # Commands

    async def send(self, command: Command) -> Outcome:
        """Obeyed or refused at once. LinkLostError when the link does not run."""
        self._check_open()
        kind = commands.kind_of(command)
        if getattr(self.capabilities, kind) is None:
            return Outcome(kind="refused", reason=f"this mower cannot {kind.replace('_', ' ')}")
        mistakes = commands.find_mistakes(command, self.capabilities)
        if mistakes:
            return Outcome(kind="refused", reason="; ".join(f"{m.field}: {m.reason}" for m in mistakes))
        reason = obey(self._machine, order_of(command, self._plot.frame))
        if reason is not None:
            return Outcome(kind="refused", reason=reason)
        self._nudge.set()
        return ACCEPTED

    async def drive(self, frame: DriveFrame) -> None:
        """One joystick frame. Frames outside of the remote mode, and older ones than the last, are not obeyed."""
        self._check_open()
        # The frame holds from now on, so the machine has to have lived up to now.
        await self._catch_up()
        ttl_s = min(max(frame.ttl_ms, 0) / 1000.0, MOTOR_TIMEOUT_S) * self._settings.time_scale
        self._machine.steer(frame.sequence, frame.linear, frame.angular, ttl_s)

    def _check_open(self) -> None:
        if not self._is_open:
            raise LinkLostError("the link does not run")
