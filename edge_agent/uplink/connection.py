"""One life of a connection to the broker: several tasks, and the first failure ends them all.

The tasks never raise into their group: on Python 3.11 a group that fails while its owner is being cancelled would
eat the cancellation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import structlog

from core.domain.errors import MowdeckError, UnavailableError
from core.mqtt.session import MqttMessage, MqttSession

_log = structlog.get_logger(__name__)

Take = Callable[[MqttMessage], Awaitable[None]]


async def run_together(session: MqttSession, works: Mapping[str, Callable[[], Awaitable[None]]]) -> MowdeckError:
    """Runs `works` until the session has ended or one of them has; why it is over."""
    over: asyncio.Future[MowdeckError] = asyncio.get_running_loop().create_future()

    def end(error: MowdeckError) -> None:
        if not over.done():
            over.set_result(error)

    async def keep(name: str, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
            end(UnavailableError(f"{name} has ended"))
        except MowdeckError as err:
            end(err)
        except Exception:  # noqa: BLE001  (fire door: a defect of one lane is a lost connection, not a dead box)
            _log.exception("a lane of the line to the relay failed", lane=name)
            end(UnavailableError(f"{name} failed"))

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(keep(name, work), name=f"relay {name}") for name, work in works.items()]
        tasks.append(group.create_task(keep("connection", session.wait_closed), name="relay connection"))
        error = await over
        for task in tasks:
            task.cancel()
    return error


async def consume(session: MqttSession, take: Take) -> None:
    """Hands every message on and acknowledges it once it was handled."""
    async for message in session.messages():
        await take(message)
        session.ack(message)
