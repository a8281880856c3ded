"""The proxies of the box: added and removed by a person, each with a line of its own, beside what the network offers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from core.domain.clock import Clock
from core.domain.errors import AdapterOffError, RequirementMissingError
from edge_agent.proxies.book import ProxyBook
from edge_agent.proxies.pace import Pace
from edge_agent.proxies.record import ProxyRecord, ProxyState, ProxyStatus

if TYPE_CHECKING:  # the libraries are loaded with the first proxy
    from edge_agent.bluetooth.service import BluetoothService
    from edge_agent.proxies.line import ProxyLine

LINE = "edge_agent.proxies.line"
OFF_HINT = "Set MOWDECK_EDGE_BLUETOOTH to auto and start the box again."


class ProxyDesk:
    """`run` is its life; the book is loaded."""

    def __init__(
        self,
        book: ProxyBook,
        service: BluetoothService | None,
        *,
        clock: Clock,
        draw: Callable[[], float] = random.random,
        pace: Pace = Pace(),  # noqa: B008  (frozen)
    ) -> None:
        self._book = book
        self._service = service
        self._clock = clock
        self._draw = draw
        self._pace = pace
        self._lines: dict[str, ProxyLine] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._missing: RequirementMissingError | None = None

    @property
    def problem(self) -> str | None:
        """What was wrong with the file of the proxies."""
        return self._book.problem

    async def run(self) -> None:
        """Keeps the lines up, until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                for record in self._book.records():
                    await self._start(record)
                await asyncio.get_running_loop().create_future()
            finally:
                self._group = None

    def statuses(self) -> list[ProxyStatus]:
        """All of them, in the order in which they were added."""
        return [self._status(record) for record in self._book.records()]

    async def add(self, host: str, port: int, key: str | None) -> ProxyStatus:
        """A person wants it. What comes of it is seen in its status. InvalidInputError, ConflictError,
        LimitExceededError, AdapterOffError, RequirementMissingError, StorageError."""
        if self._service is None:
            raise AdapterOffError("Bluetooth is switched off on this box", hint=OFF_HINT)
        await _load_line()
        record = await self._book.add(host, port, key)
        await self._start(record)
        return self._status(record)

    async def remove(self, proxy_id: str) -> None:
        """Let go, and forgotten with its key. The bonds that it made stay on it. NotFoundError, StorageError."""
        await self._book.remove(proxy_id)
        self._lines.pop(proxy_id, None)
        task = self._tasks.pop(proxy_id, None)
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    async def _start(self, record: ProxyRecord) -> None:
        if self._service is None:
            return
        try:
            make = await _load_line()
        except RequirementMissingError as err:
            self._missing = err
            return
        if self._group is None or record.proxy_id in self._lines or record not in self._book.records():
            return  # ended, started or removed meanwhile
        line = make(
            record,
            lambda: self._book.key(record.proxy_id),
            self._service,
            clock=self._clock,
            random=self._draw,
            pace=self._pace,
        )
        self._lines[record.proxy_id] = line
        self._tasks[record.proxy_id] = self._group.create_task(line.run(), name=f"proxy {record.proxy_id}")

    def _status(self, record: ProxyRecord) -> ProxyStatus:
        line = self._lines.get(record.proxy_id)
        if line is not None:
            return line.status
        is_encrypted = self._book.key(record.proxy_id) is not None
        reason, hint = None, None
        if self._service is None:
            reason, hint = "Bluetooth is switched off on this box", OFF_HINT
        elif self._missing is not None:
            reason, hint = self._missing.detail, self._missing.advice
        state: ProxyState = "connecting" if reason is None else "unreachable"
        return ProxyStatus(record=record, state=state, is_encrypted=is_encrypted, reason=reason, hint=hint)


async def _load_line() -> type[ProxyLine]:
    """In a thread: the libraries take their time, and the box goes on meanwhile. RequirementMissingError."""
    try:
        await asyncio.to_thread(import_module, LINE)
    except ImportError as err:
        raise RequirementMissingError(f"{err.name} is missing: pip install 'mowdeck[ble]'") from err
    from edge_agent.proxies.line import ProxyLine

    return ProxyLine
