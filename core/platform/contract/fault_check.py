"""The checks of one fault: standing, at the opening of a link, and while the mower mows.

Whatever goes wrong: no error outside the tree, no state that is made up, an end or a new state in bounded time, no
order that is sent again, no task left behind, no secret in a log. And when all is well again, the mower obeys.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from core.domain import commands
from core.domain.clock import Clock, SystemClock
from core.domain.commands import Command, kind_of
from core.domain.errors import MowdeckError
from core.platform.contract.breach import BreachError, require
from core.platform.contract.fault import Bench, Fault, MakeBench
from core.platform.contract.running import QUIET_S
from core.platform.contract.steward import BOUND_S, Steward, keep_up
from core.platform.contract.surroundings import open_context
from core.platform.fire_door import text_of
from core.platform.integration import Outcome

Phase = Callable[[Bench, Steward], Awaitable[None]]


async def is_met(make: MakeBench, fault: Fault, clock: Clock | None = None) -> None:
    """BreachError unless the integration meets the fault, whenever it comes. `clock`: that of the running loop."""
    for phase in (_while_standing, _at_the_opening, _while_mowing):
        try:
            await _run_phase(make, fault, phase, clock or SystemClock())
        except BreachError as err:
            raise BreachError(f"{_name(phase)}: {err}") from err.__cause__


def _name(phase: Phase) -> str:
    return getattr(phase, "__name__", "").strip("_").replace("_", " ")


async def _run_phase(make: MakeBench, fault: Fault, phase: Phase, clock: Clock) -> None:
    before = asyncio.all_tasks()
    failed: list[MowdeckError] = []
    texts: list[str] = []
    with _listening(texts) as log:
        async with open_context(failed.append, clock=clock) as plain:
            context = replace(plain, log=logging.LoggerAdapter(log, {}))
            async with make(context, fault) as bench:
                async with keep_up(bench, clock) as steward:
                    await phase(bench, steward)
                texts += steward.said
                secrets = bench.secrets
                await bench.integration.close()
    if failed:
        raise BreachError(f"a spawned task failed: {text_of(failed[0])}") from failed[0]
    left = asyncio.all_tasks() - before
    require(not left, f"left behind: {sorted(task.get_name() for task in left)}")
    _require_no_secret(secrets, texts)


async def _while_standing(bench: Bench, steward: Steward) -> None:
    """In the dock; then somebody wants it to mow."""
    await steward.fresh_state("a first state")
    _begin(bench, steward)
    await steward.news("the link neither reports nor ends")
    await asyncio.sleep(QUIET_S)
    steward.check()
    require(not bench.is_moving(), "it moves although nobody has told it to")
    if bench.begin_at_order is None:
        bench.begin()
    else:
        await _all_is_well_again(bench, steward)
        bench.begin_at_order()
    outcome = await _send(steward, commands.StartMow())
    await asyncio.sleep(QUIET_S)
    if outcome is not None and outcome.kind == "refused":
        require(not bench.is_moving(), "the start was refused, and it moves")
    await _all_is_well_again(bench, steward)
    require(bench.starts() <= 1, f"one start was sent {bench.starts()} times")
    await _obeys(bench, steward)


async def _at_the_opening(bench: Bench, steward: Steward) -> None:
    """The fault is there before the first link."""
    _begin(bench, steward)
    await steward.until(lambda: bool(steward.states or steward.ends), "the first link neither reports nor ends")
    await asyncio.sleep(QUIET_S)
    require(not bench.is_moving() and bench.starts() == 0, "it moves although nobody has told it to")
    await _all_is_well_again(bench, steward)
    require(bench.starts() == 0, "it was told to start, and nobody wanted that")


async def _while_mowing(bench: Bench, steward: Steward) -> None:
    """It was told to mow, and does."""
    await steward.fresh_state("a first state")
    outcome = await _send(steward, commands.StartMow())
    require(outcome is not None and outcome.kind == "accepted", f"the start of a healthy mower is {outcome}")
    await steward.until(bench.is_moving, "the emulated mower does not start")
    await steward.agreement()
    starts = bench.starts()
    _begin(bench, steward)
    await steward.news("the link neither reports nor ends")
    await asyncio.sleep(QUIET_S)
    await _all_is_well_again(bench, steward)
    require(bench.starts() == starts, "the start was sent again")
    await _obeys(bench, steward)


def _begin(bench: Bench, steward: Steward) -> None:
    bench.begin()
    steward.expect_silence(is_silent=bench.is_silent)


async def _all_is_well_again(bench: Bench, steward: Steward) -> None:
    steward.expect_silence(is_silent=False)
    bench.end()
    steward.go_on()
    await steward.fresh_state("no new state after the fault")
    await steward.agreement()


async def _obeys(bench: Bench, steward: Steward) -> None:
    """The session is not stuck: an emergency stop works."""
    await steward.until(lambda: steward.link is not None, "no new link after the fault")
    outcome = await _send(steward, commands.EmergencyStop())
    require(outcome is not None and outcome.kind == "accepted", f"an emergency stop after the fault is {outcome}")
    await steward.until(lambda: not bench.is_moving(), "it moves on after an emergency stop")
    await steward.agreement()


async def _send(steward: Steward, command: Command) -> Outcome | None:
    """What became of it; None when it could not be sent."""
    link, kind = steward.link, kind_of(command)
    if link is None:
        return None
    try:
        async with asyncio.timeout(BOUND_S):
            outcome = await link.send(command)
    except TimeoutError as err:
        raise BreachError(f"{kind}: send() gave no outcome within {BOUND_S:g} s") from err
    except MowdeckError as err:
        steward.said.append(text_of(err))
        return None
    except Exception as err:
        raise BreachError(f"{kind}: an error that is not of the tree: {text_of(err)}") from err
    require(outcome.kind == "accepted" or outcome.reason, f"{kind} was {outcome.kind} without a reason")
    steward.said.append(repr(outcome))
    return outcome


# Secrets


class _Listener(logging.Handler):
    def __init__(self, texts: list[str]) -> None:
        super().__init__(logging.DEBUG)
        self._texts = texts
        self._format = logging.Formatter("%(message)s")

    def emit(self, record: logging.LogRecord) -> None:
        self._texts.append(self._format.format(record))


@contextmanager
def _listening(texts: list[str]) -> Iterator[logging.Logger]:
    """All that is logged, and a logger for the integration that logs everything and shows nothing."""
    listener, root = _Listener(texts), logging.getLogger()
    own = logging.Logger("integrations.under_test", logging.DEBUG)  # noqa: LOG001  (it must not reach the console)
    own.addHandler(listener)
    root.addHandler(listener)
    try:
        yield own
    finally:
        root.removeHandler(listener)


def _require_no_secret(secrets: tuple[str, ...], texts: list[str]) -> None:
    for secret in secrets:
        pattern = re.compile(rf"(?<![0-9A-Za-z]){re.escape(secret)}(?![0-9A-Za-z])")
        found = [text for text in texts if pattern.search(text)]
        require(not found, f"a secret is told: {pattern.sub('***', found[0]) if found else ''}")
