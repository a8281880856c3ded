"""The whole contract as a list, and one check of it behind the fire door with a verdict."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from core.domain.clock import Clock, SystemClock
from core.domain.errors import MowdeckError
from core.platform.contract import checks
from core.platform.contract.breach import BreachError, NotApplicableError
from core.platform.contract.checks import Subject, World
from core.platform.contract.fault import Fault, MakeBench
from core.platform.contract.fault_check import is_met
from core.platform.contract.surroundings import open_context
from core.platform.fire_door import call, text_of

CHECK_DEADLINE_S = 180.0

Status = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check; `run` raises BreachError or NotApplicableError."""

    name: str
    meaning: str
    run: Callable[[World], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How a check ended, and for one that did not pass, why."""

    name: str
    status: Status
    detail: str = ""
    seconds: float = 0.0


def _of_subject(check: Callable[[Subject], Awaitable[None]]) -> Check:
    async def run(world: World) -> None:
        faults: list[MowdeckError] = []
        async with open_context(faults.append) as context, world.make(context) as integration:
            mowers = await integration.mowers()
            if not mowers:
                raise BreachError("mowers() is empty")
            await check(Subject(world=world, integration=integration, mower=mowers[0]))
            await integration.close()
        if faults:
            raise BreachError(f"a spawned task failed: {explain(faults[0])}") from faults[0]

    return Check(name=check.__name__, meaning=(check.__doc__ or "").strip(), run=run)


CONTRACT: tuple[Check, ...] = (
    _of_subject(checks.mowers_have_a_lasting_identity),
    _of_subject(checks.open_refuses_an_unknown_mower),
    _of_subject(checks.nothing_moves_unless_told),
    _of_subject(checks.states_are_plausible_and_in_order),
    _of_subject(checks.commands_have_a_visible_effect),
    _of_subject(checks.stops_at_once_wherever_it_is),
    _of_subject(checks.what_it_cannot_do_is_refused),
    _of_subject(checks.driving_by_hand_has_a_dead_man),
    _of_subject(checks.a_link_is_never_reopened),
    Check(
        name=checks.leaves_no_task_behind.__name__,
        meaning=(checks.leaves_no_task_behind.__doc__ or "").strip(),
        run=checks.leaves_no_task_behind,
    ),
)


async def run_check(check: Check, world: World, *, folder: Path | None = None) -> Verdict:
    """Runs one check; whatever the plugin does, a verdict comes out. With its `folder` a bug is named by line."""
    return await _judge(check.name, lambda: check.run(world), folder)


async def run_fault(
    make: MakeBench, fault: Fault, *, folder: Path | None = None, clock: Clock | None = None
) -> Verdict:
    """How the integration meets one fault; a verdict comes out as of `run_check`."""
    return await _judge(fault.value, lambda: is_met(make, fault, clock), folder)


async def _judge(name: str, run: Callable[[], Awaitable[None]], folder: Path | None) -> Verdict:
    began = SystemClock().monotonic()
    status: Status = "passed"
    detail = ""
    try:
        await call(
            run,
            where=name,
            deadline_s=CHECK_DEADLINE_S,
            passing=(BreachError, NotApplicableError),
        )
    except NotApplicableError as err:
        status, detail = "skipped", str(err)
    except BreachError as err:
        status, detail = "failed", str(err) + _place(err, folder)
    except MowdeckError as err:
        status, detail = "failed", explain(err, folder)
    return Verdict(name=name, status=status, detail=detail, seconds=SystemClock().monotonic() - began)


def explain(err: MowdeckError, folder: Path | None = None) -> str:
    """An error out of plugin code for the plugin's author, who may see the foreign error and where it came from."""
    text = f"{type(err).__name__}: {err.detail}" if err.detail else type(err).__name__
    cause = err.__cause__
    if cause is not None:
        text += f" ({text_of(cause)})"
    return text + _place(err, folder)


def _place(err: BaseException, folder: Path | None) -> str:
    """Where in the folder an error came from: ` at mapping.py:42`, or nothing."""
    if folder is None:
        return ""
    frames = [f for one in (err, err.__cause__) if one is not None for f in traceback.extract_tb(one.__traceback__)]
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(folder)]
    return f" at {Path(own[-1].filename).name}:{own[-1].lineno}" if own else ""
