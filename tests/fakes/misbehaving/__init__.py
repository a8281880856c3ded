"""An integration that does wrong on demand, to show that the box and its other mowers never notice.

Entry data: `fault` is `<where>:<how>` with where one of create, mowers, open, run, send, close, and how one of
`faults.RAISES`, `faults.HANGS`, and
  mowers:  rubbish (no list), rubbish_items (no descriptions)
  open:    rubbish (no link)
  run:     return (ends at once), flood_states, flood_events, garbage (reports no state), garbage_state (a state of
           wrong types), naive_time, far_future, late (reports after it has ended)
  send:    rubbish (no Outcome), refuse, unknown, late (accepts, and shows its effect never)
  any:     leak (a task by `spawn` that never ends), leak_stubborn (one that swallows cancellation), leak_raw (a task
           behind the box's back), leak_exit (a raw task that raises SystemExit), leak_raise (a spawned one that raises)
`times` faults so often and then behaves; `serial`, `count` name the mowers; `stubborn_s` how long stubborn things last.
A file `import_fault` in the folder (its text is a how) makes the import itself fail.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

import msgspec

from core.domain.capabilities import Capabilities, Drive, Range, Simple, Start
from core.domain.commands import Command, PauseMow, ResumeMow, ReturnToDock, StartMow
from core.domain.mower import Activity, Connectivity, LinkKind, MowerDescription, MowerState
from core.platform.integration import (
    ACCEPTED,
    Entry,
    Integration,
    IntegrationContext,
    MowerKey,
    MowerLink,
    Outcome,
    Report,
)

from . import faults

_import_fault = Path(__file__).with_name("import_fault")
if _import_fault.exists():
    _how = _import_fault.read_text().strip()
    if _how == "missing":
        import a_module_that_nobody_has  # type: ignore[import-not-found]  # noqa: F401
    if _how == "hang":
        import time

        time.sleep(3.0)
    faults.raise_fault(_how)

CAPABILITIES = Capabilities(
    start_mow=Start(confirm_timeout_s=2.0),
    pause_mow=Simple(confirm_timeout_s=2.0),
    resume_mow=Simple(confirm_timeout_s=2.0),
    return_to_dock=Simple(confirm_timeout_s=2.0),
    emergency_stop=Simple(confirm_timeout_s=2.0),
    set_blade_height=Range(minimum=20, maximum=60, step=5, confirm_timeout_s=2.0),
    find_mower=Simple(confirm_timeout_s=2.0),
    manual_drive=Drive(max_speed_mps=0.5, motor_timeout_s=0.5),
)


class Trouble:
    """When and how the entry misbehaves."""

    def __init__(self, context: IntegrationContext, entry: Entry) -> None:
        self.context = context
        self.where, _, self.how = str(entry.data.get("fault", ":")).partition(":")
        self.stubborn_s = float(str(entry.data.get("stubborn_s", 1.0)))
        self._left = int(str(entry.data.get("times", 1_000_000)))
        self.raw: list[asyncio.Task[None]] = []

    def at(self, where: str) -> str:
        """The fault of this place now, or ''."""
        if where != self.where or self._left <= 0:
            return ""
        self._left -= 1
        return self.how

    async def strike(self, where: str) -> str:
        """Raises, hangs or leaks as asked; a fault that the place itself commits is returned."""
        how = self.at(where)
        self.leak(how)
        await faults.apply(how, self.stubborn_s)
        return how

    def leak(self, how: str) -> None:
        forever = asyncio.Event()
        work: dict[str, Any] = {
            "leak": lambda: _wait(forever),
            "leak_raw": lambda: _wait(forever),
            "leak_stubborn": lambda: faults.swallow_cancellation(self.stubborn_s),
            "leak_exit": lambda: _raise_later("exit"),
            "leak_raise": lambda: _raise_later("raise"),
        }
        if how not in work:
            return
        coroutine: Coroutine[object, object, None] = work[how]()
        if how in ("leak_raw", "leak_exit"):
            self.raw.append(asyncio.create_task(coroutine, name=f"misbehaving {how}"))
        else:
            self.context.spawn(coroutine, how)


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


async def _raise_later(how: str) -> None:
    await asyncio.sleep(0)
    faults.raise_fault(how)


class Link:
    """A mower that docks, mows and pauses as told, unless it is asked to do wrong."""

    capabilities = CAPABILITIES

    def __init__(self, trouble: Trouble) -> None:
        self._trouble = trouble
        self._commands: asyncio.Queue[Activity] = asyncio.Queue()

    def _state(self, activity: Activity) -> MowerState:
        return MowerState(
            observed_at=self._trouble.context.clock.now(),
            activity=activity,
            connectivity=Connectivity.ONLINE,
            battery_percent=80,
            blades_on=activity is Activity.MOWING,
        )

    async def run(self, report: Report) -> None:
        report(self._state(Activity.DOCKED))
        how = await self._trouble.strike("run")
        if how == "return":
            return
        try:
            await self._misreport(how, report)
            while True:
                report(self._state(await self._commands.get()))
        finally:
            if how == "late":
                asyncio.get_running_loop().call_soon(report, self._state(Activity.MOWING))

    async def _misreport(self, how: str, report: Any) -> None:
        from core.domain.events import VendorMessage

        state = self._state(Activity.MOWING)
        match how:
            case "flood_states":
                while True:
                    for _ in range(200):
                        report(state)
                    await asyncio.sleep(0)
            case "flood_events":
                for number in range(100_000):
                    report(VendorMessage(at=state.observed_at, code=str(number)))
            case "garbage":
                for thing in (None, 7, "mowing", object(), {"activity": "mowing"}):
                    report(thing)
            case "garbage_state":
                report(msgspec.structs.replace(state, activity="mowing", battery_percent="full", observed_at=None))
            case "naive_time":
                report(msgspec.structs.replace(state, observed_at=state.observed_at.replace(tzinfo=None)))
            case "far_future":
                report(msgspec.structs.replace(state, observed_at=state.observed_at.replace(year=2199)))

    async def send(self, command: Command) -> Outcome:
        how = await self._trouble.strike("send")
        match how:
            case "rubbish":
                return "fine"  # type: ignore[return-value]
            case "refuse":
                return Outcome(kind="refused", reason="I will not")
            case "unknown":
                return Outcome(kind="unknown")
            case "late":
                return ACCEPTED
        match command:
            case StartMow() | ResumeMow():
                self._commands.put_nowait(Activity.MOWING)
            case PauseMow():
                self._commands.put_nowait(Activity.PAUSED)
            case ReturnToDock():
                self._commands.put_nowait(Activity.DOCKED)
            case _:
                self._commands.put_nowait(Activity.IDLE)
        return ACCEPTED


class Misbehaving:
    """The integration of one entry."""

    def __init__(self, trouble: Trouble, entry: Entry) -> None:
        self._trouble = trouble
        self._serial = str(entry.data.get("serial", entry.entry_id))
        self._count = int(str(entry.data.get("count", 1)))

    async def mowers(self) -> Sequence[MowerDescription]:
        how = await self._trouble.strike("mowers")
        if how == "rubbish":
            return 42  # type: ignore[return-value]
        if how == "rubbish_items":
            return ["a mower", None]  # type: ignore[list-item]
        return [
            MowerDescription(
                vendor="misbehaving",
                serial=self._serial if number == 0 else f"{self._serial}-{number}",
                name=f"Misbehaving {number}",
                links=(LinkKind.SIM,),
            )
            for number in range(self._count)
        ]

    async def open(self, mower: MowerKey, link: LinkKind) -> MowerLink:
        if await self._trouble.strike("open") == "rubbish":
            return "a link"  # type: ignore[return-value]
        return Link(self._trouble)

    async def close(self) -> None:
        await self._trouble.strike("close")


def create(context: IntegrationContext, entry: Entry) -> Integration:
    """The plugin's entry point."""
    trouble = Trouble(context, entry)
    how = trouble.at("create")
    trouble.leak(how)
    faults.raise_fault(how)
    if how == "rubbish":
        return object()  # type: ignore[return-value]
    return Misbehaving(trouble, entry)
