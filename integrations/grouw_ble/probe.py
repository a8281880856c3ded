"""What the config flow does with a mower: one connection, in which it has to answer and to tell the PIN that a person
has typed. The protocol asks for no PIN; that the person knows it is what makes the mower theirs."""

from __future__ import annotations

import asyncio

from core.domain.clock import Clock
from core.domain.errors import MowdeckError, NotReadyError, WrongPinError
from core.platform.bluetooth import GattConnection
from integrations.grouw_ble.conversation import Conversation

ANSWER_S = 5.0


async def check_pin(connection: GattConnection, pin: str, *, clock: Clock, answer_s: float = ANSWER_S) -> None:
    """WrongPinError, NotReadyError when the mower tells no PIN, LinkTimeoutError when it is none of these mowers,
    LinkLostError and BluetoothErrors."""
    failure: MowdeckError | None = None
    talk = Conversation(connection, clock=clock, answer_s=answer_s)
    async with asyncio.TaskGroup() as group:
        watcher = group.create_task(talk.watch(), name=f"connection to {connection.address}")
        try:
            await _ask(talk, pin, clock)
        except MowdeckError as err:
            failure = err  # out of the group as it is, not as a group
        finally:
            watcher.cancel()
    if failure is not None:
        raise failure


async def _ask(talk: Conversation, pin: str, clock: Clock) -> None:
    await talk.open()
    await talk.status()
    told = await talk.ask_pin(clock.now().astimezone())
    if told is None or told.pin is None:
        raise NotReadyError("the mower does not tell its PIN")
    if told.pin != pin:
        raise WrongPinError("the mower has another PIN")
