"""One named task per link of each mower, each a fire door: retryable -> back off, final -> park, bug -> log and park.

Whatever one link's plugin does, the mower's other links, the other mowers and the box do not notice. The supervisor opens links and never sends
a command: nothing moves because software started again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import msgspec
import structlog

from core.domain import limits
from core.domain.capabilities import Capabilities, unite
from core.domain.clock import Clock
from core.domain.errors import ConflictError, IntegrationError, LinkLostError, MowdeckError
from core.domain.ids import EntryId, MowerId
from core.domain.mower import LinkKind, MowerDescription
from core.platform import fire_door
from core.platform.integration import Integration, MowerLink, key_of
from edge_agent.runtime.carrier import OpenLink, preference
from edge_agent.runtime.door import (
    Door,
    DoorStatus,
    OnChange,
    Phase,
    is_retryable,
    retry_pause_s,
    wanted_pause_s,
)
from edge_agent.runtime.intake import Intake
from edge_agent.runtime.leash import run_until

_log = structlog.get_logger(__name__)

OPEN_DEADLINE_S = 90.0
"""A plugin that has not opened its link by then has failed (a Bluetooth connect may take 60 s)."""

Pause = Callable[[float], Awaitable[None]]


class Supervisor:
    """Keeps one link per mower and entry that reaches it. `run` is the life of all doors; `add`, `remove` and `resume` may come at any
    time from the same loop."""

    def __init__(
        self,
        *,
        intake: Intake,
        clock: Clock,
        rng: random.Random,
        on_change: OnChange | None = None,
        pause: Pause = asyncio.sleep,
        open_deadline_s: float = OPEN_DEADLINE_S,
        close_deadline_s: float = limits.CLOSE_DEADLINE_S,
    ) -> None:
        self._intake = intake
        self._clock = clock
        self._rng = rng
        self._on_change = on_change
        self._pause = pause
        self._open_deadline_s = open_deadline_s
        self._close_deadline_s = close_deadline_s
        self._doors: dict[tuple[MowerId, EntryId], Door] = {}
        self._group: asyncio.TaskGroup | None = None

    # -- the household's mowers

    def add(
        self,
        mower_id: MowerId,
        entry_id: EntryId,
        description: MowerDescription,
        integration: Integration,
        links: Sequence[LinkKind],
    ) -> None:
        """Begins to keep an entry's link to a mower, trying `links` in this order: of one entry they are
        alternatives, of several entries they are up at once. The intake must know the mower. ConflictError when it
        is kept already."""
        if (mower_id, entry_id) in self._doors:
            raise ConflictError(f"mower {mower_id} is already supervised for entry {entry_id}")
        if not links:
            raise ConflictError(f"mower {mower_id} has no link")
        status = DoorStatus(mower_id=mower_id, entry_id=entry_id, phase=Phase.CONNECTING, since=self._clock.now())
        door = Door(
            mower_id=mower_id,
            entry_id=entry_id,
            description=description,
            integration=integration,
            links=tuple(links),
            status=status,
        )
        self._doors[mower_id, entry_id] = door
        if self._group is not None:
            self._start(door, self._group)

    async def remove(self, mower_id: MowerId, entry_id: EntryId) -> None:
        """Ends an entry's link to a mower and forgets it; returns when its task is dead (or its plugin's was
        abandoned). The mower's other links go on."""
        door = self._doors.pop((mower_id, entry_id), None)
        if door is None or door.task is None:
            return
        door.task.cancel()
        await asyncio.wait({door.task})

    def resume(self, mower_id: MowerId) -> None:
        """Tries at once: parked doors of the mower after an entry was corrected, waiting ones because a person
        asked."""
        for door in self._doors_of(mower_id):
            if door.status.phase in {Phase.PARKED, Phase.WAITING}:
                door.failures = 0
                door.resumed.set()

    # -- looking at it

    def open_links(self, mower_id: MowerId) -> tuple[OpenLink, ...]:
        """The links that are up now, the one to be used first first."""
        found = [
            replace(
                door.open_link,
                says_offline=door.lane is not None and door.lane.says_offline,
                has_reported=_has_reported(door),
            )
            for door in self._doors_of(mower_id)
            if door.open_link is not None
        ]
        return tuple(sorted(found, key=lambda link: preference(link.key, says_offline=link.says_offline)))

    def abilities(self, mower_id: MowerId) -> dict[EntryId, Capabilities]:
        """What the mower can do over each entry's link, also while that is down; nothing before it was first up."""
        return {door.entry_id: door.capabilities for door in self._doors_of(mower_id) if door.capabilities is not None}

    def capabilities(self, mower_id: MowerId) -> Capabilities | None:
        """What the mower can do over any link, also while it is out of reach; None until its first link."""
        able = self.abilities(mower_id)
        return unite(able.values()) if able else None

    def statuses(self) -> tuple[DoorStatus, ...]:
        """Every door, for status and diagnostics."""
        return tuple(
            msgspec.structs.replace(door.status, has_reported=_has_reported(door)) for door in self._doors.values()
        )

    def _doors_of(self, mower_id: MowerId) -> list[Door]:
        return [door for (known, _), door in self._doors.items() if known == mower_id]

    # -- the doors

    async def run(self) -> None:
        """Runs all doors until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                for door in self._doors.values():
                    self._start(door, group)
                await asyncio.get_running_loop().create_future()
            finally:
                self._group = None

    def _start(self, door: Door, group: asyncio.TaskGroup) -> None:
        door.task = group.create_task(self._keep(door), name=f"mower {door.mower_id} {door.entry_id}")

    async def _keep(self, door: Door) -> None:
        """The fire door itself: leaves only by cancellation."""
        while True:
            began = self._clock.monotonic()
            try:
                await self._session(door)
                error: Exception = LinkLostError("the mower closed the connection")
            except Exception as err:  # noqa: BLE001  (fire door: one mower's plugin must not touch the others)
                error = err
            if self._clock.monotonic() - began >= limits.RECONNECT_STABLE_S:
                door.failures = 0
            door.failures += 1
            if is_retryable(error):
                await self._back_off(door, error)
            else:
                await self._park(door, error)

    async def _session(self, door: Door) -> None:
        """One link from opening to its end. Raises why it ended, or returns when it was closed in peace."""
        kind, link = await self._open(door)
        name = f"{key_of(door.description)} {kind}"
        lane = door.lane = self._intake.open_lane(door.mower_id, kind, door.entry_id)
        try:
            capabilities = fire_door.call_now(lambda: link.capabilities, where=name)
            if not isinstance(capabilities, Capabilities):
                raise IntegrationError(f"{name}: capabilities are a {type(capabilities).__name__}")
            door.capabilities = capabilities
            door.open_link = OpenLink(
                kind=kind,
                entry_id=door.entry_id,
                link=link,
                capabilities=capabilities,
                areas=door.description.areas,
            )
            self._note(door, Phase.ONLINE, link=kind)
            await run_until(
                lane.failed,
                lambda: link.run(lane.report),
                where=f"{name} run",
                close_deadline_s=self._close_deadline_s,
            )
            if lane.fault is not None:
                raise lane.fault
        finally:
            door.open_link = door.lane = None
            self._intake.close_lane(lane)

    async def _open(self, door: Door) -> tuple[LinkKind, MowerLink]:
        """The first link that opens, in the order of preference. When none does: an error that may pass, if there
        is one among them (a dead password for the cloud must not park a mower whose radio is only out of range)."""
        self._note(door, Phase.CONNECTING)
        errors: list[MowdeckError] = []
        for kind in door.links:
            name = f"{key_of(door.description)} {kind} open"
            try:
                link = await fire_door.call(
                    lambda kind=kind: door.integration.open(key_of(door.description), kind),  # type: ignore[misc]
                    where=name,
                    deadline_s=self._open_deadline_s,
                    close_deadline_s=self._close_deadline_s,
                )
            except MowdeckError as err:
                errors.append(err)
                continue
            if not fire_door.call_now(lambda link=link: isinstance(link, MowerLink), where=name):  # type: ignore[misc]
                raise IntegrationError(f"{name}: returned a {type(link).__name__}")
            return kind, link
        raise next((error for error in errors if error.retryable), errors[-1])

    async def _back_off(self, door: Door, error: Exception) -> None:
        pause_s = retry_pause_s(door.failures, self._rng, at_least_s=wanted_pause_s(error))
        self._note(door, Phase.WAITING, error=error, retry_in_s=pause_s)
        door.resumed.clear()
        async with asyncio.TaskGroup() as group:
            pause = group.create_task(_until(self._pause(pause_s)), name=f"pause {door.mower_id}")
            resumed = group.create_task(door.resumed.wait(), name=f"resume {door.mower_id}")
            await asyncio.wait({pause, resumed}, return_when=asyncio.FIRST_COMPLETED)
            pause.cancel()
            resumed.cancel()

    async def _park(self, door: Door, error: Exception) -> None:
        self._note(door, Phase.PARKED, error=error)
        door.resumed.clear()
        await door.resumed.wait()

    def _note(
        self,
        door: Door,
        phase: Phase,
        *,
        link: LinkKind | None = None,
        error: Exception | None = None,
        retry_in_s: float | None = None,
    ) -> None:
        before = door.status
        code, detail, hint = _describe(error)
        door.status = msgspec.structs.replace(
            before,
            phase=phase,
            since=self._clock.now(),
            link=link,
            failures=door.failures,
            code=code if error is not None else (before.code if phase is Phase.CONNECTING else None),
            detail=detail if error is not None else (before.detail if phase is Phase.CONNECTING else None),
            hint=hint,
            retry_in_s=retry_in_s,
        )
        _log_transition(door.status, error)
        if self._on_change is not None:
            try:
                self._on_change(door.status)
            except Exception:  # noqa: BLE001  (a listener's defect must not end the door)
                _log.exception("a listener of doors failed", mower_id=door.mower_id)


def _has_reported(door: Door) -> bool:
    """A link that is open has not met its mower before its first report."""
    return door.lane is not None and door.lane.said is not None


async def _until(work: Awaitable[None]) -> None:
    await work


def _describe(error: Exception | None) -> tuple[str | None, str | None, str | None]:
    if error is None:
        return None, None, None
    if isinstance(error, MowdeckError):
        return error.code, error.detail, error.advice
    return "internal", fire_door.text_of(error), MowdeckError.hint


def _log_transition(status: DoorStatus, error: Exception | None) -> None:
    fields = {
        "mower_id": status.mower_id,
        "entry_id": status.entry_id,
        "phase": status.phase.value,
        "link": status.link,
    }
    if error is None:
        _log.info("door", **fields)
    elif isinstance(error, MowdeckError):
        _log.warning("door", code=status.code, detail=status.detail, retry_in_s=status.retry_in_s, **fields)
    else:
        _log.error("a defect parked its mower", exc_info=error, **fields)
