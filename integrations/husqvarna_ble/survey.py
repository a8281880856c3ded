"""Asking a mower for everything, value by value: one that it does not know or garbles never spoils the others."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from core.domain.clock import Clock
from integrations.husqvarna_ble import wire
from integrations.husqvarna_ble.conversation import Conversation, HurriedError, RefusedError
from integrations.husqvarna_ble.wire import MalformedAnswerError, Operation, Reading, Result

Part = tuple[str, Operation, Callable[[bytes], Any]]

QUICK: tuple[Part, ...] = (
    ("state", Operation.GET_STATE, wire.read_u8),
    ("activity", Operation.GET_ACTIVITY, wire.read_u8),
    ("error", Operation.GET_ERROR, wire.read_u32),
)
"""What shows whether a command has had its effect."""
USUAL: tuple[Part, ...] = (
    *QUICK,
    ("mode", Operation.GET_MODE, wire.read_u8),
    ("battery_percent", Operation.GET_BATTERY_LEVEL, wire.read_u8),
    ("is_charging", Operation.IS_CHARGING, wire.read_bool),
    ("override", Operation.GET_OVERRIDE, wire.read_override),
    ("restriction", Operation.GET_RESTRICTION_REASON, wire.read_u8),
    ("next_start", Operation.GET_NEXT_START_TIME, wire.read_u32),
    ("clock", Operation.GET_TIME, wire.read_u32),
)
SLOW: tuple[Part, ...] = (
    ("cutting_height", Operation.GET_CUTTING_HEIGHT, wire.read_u8),
    ("statistics", Operation.GET_ALL_STATISTICS, wire.read_statistics),
    ("firmware", Operation.GET_SOFTWARE_VERSION, wire.read_text),
)
SLOW_S = 600.0
"""The slow ones change seldom, and are asked this often."""
_NEVER_KNOWN = frozenset({Result.NOT_AVAILABLE, Result.INVALID_GROUP, Result.INVALID_ID})


class Survey:
    """The readings of one connection. `let_through` runs between two questions: a command waits for one answer at most."""

    def __init__(
        self,
        talk: Conversation,
        *,
        clock: Clock,
        log: logging.LoggerAdapter[logging.Logger],
        let_through: Callable[[], Awaitable[None]],
    ) -> None:
        self._talk = talk
        self._clock = clock
        self._log = log
        self._let_through = let_through
        self._reading = Reading()
        self._missing: set[Operation] = set()
        self._slow_at = float("-inf")

    async def take(self, *, is_quick: bool) -> Reading:
        """Asks anew; a quick one keeps what the last one said of all but state, activity and error."""
        parts = QUICK if is_quick else USUAL
        now = self._clock.monotonic()
        is_slow_due = not is_quick and now - self._slow_at >= SLOW_S
        values = [(name, await self._ask(operation, decode)) for name, operation, decode in parts]
        if is_slow_due:
            values += [(name, await self._ask(operation, decode)) for name, operation, decode in SLOW]
            self._slow_at = now
        self._reading = dataclasses.replace(self._reading, **dict(values))
        return self._reading

    async def _ask(self, operation: Operation, decode: Callable[[bytes], Any]) -> Any:
        """The value, or None when the mower does not tell it."""
        await self._let_through()
        if operation in self._missing:
            return None
        try:
            while True:
                try:
                    return await self._read(operation, decode)
                except HurriedError:
                    await self._let_through()
        except RefusedError as err:
            self._note(operation, err.detail, is_for_good=err.result in _NEVER_KNOWN)
        except MalformedAnswerError as err:
            self._note(operation, err.detail, is_for_good=False)
        return None

    async def _read(self, operation: Operation, decode: Callable[[bytes], Any]) -> Any:
        try:
            return await self._talk.read(operation, decode)
        except RefusedError as err:
            if err.result != Result.NOT_ALLOWED or not await self._talk.ensure_signed_in():
                raise
            self._log.info("the mower had forgotten the operator; signed in again")
            return await self._talk.read(operation, decode)

    def _note(self, operation: Operation, detail: str, *, is_for_good: bool) -> None:
        if is_for_good:
            self._missing.add(operation)
        self._log.debug("no value from the mower: %s (%s)", operation.name, detail)
