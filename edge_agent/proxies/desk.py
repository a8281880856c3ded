"""The proxies of the box: added and removed by a person, each with a line of its own, beside what the network offers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from core.domain.clock import Clock
from core.domain.errors import AdapterOffError, RequirementMissingError
from edge_agent.proxies.book import ProxyBook
from edge_agent.proxies.pace import Pace
from edge_agent.proxies.record import ProxyRecord, ProxyStatus

if TYPE_CHECKING:  # the libraries are loaded with the first proxy
    from edge_agent.bluetooth.service import BluetoothService
    from edge_agent.proxies.line import ProxyLine

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

    async def run(self) -> None:
        """Keeps the lines up, until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                for record in self._book.records():
                    if self._service is not None:
                        self._start(record)
                await asyncio.get_running_loop().create_future()
            finally:
                self._group = None

    def statuses(self) -> list[ProxyStatus]:
        """All of them, in the order in which they were added."""
        return [self._status(record) for record in self._book.records()]

    async def add(self, host: str, port: int, key: str | None) -> ProxyStatus:
        """A person wants it. What comes of it is seen in its status. InvalidInputError, ConflictError,
        LimitExceededError, AdapterOffError, RequirementMissingError, StorageError."""
        self._check_usable()
        record = await self._book.add(host, port, key)
        self._start(record)
        return self._status(record)

    async def remove(self, proxy_id: str) -> None:
        """Let go, and forgotten with its key. The bonds that it made stay on it. NotFoundError, StorageError."""
        await self._book.remove(proxy_id)
        self._lines.pop(proxy_id, None)
        task = self._tasks.pop(proxy_id, None)
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    def _check_usable(self) -> None:
        if self._service is None:
            raise AdapterOffError("Bluetooth is switched off on this box", hint=OFF_HINT)
        try:
            import edge_agent.proxies.line  # noqa: F401
        except ImportError as err:
            raise RequirementMissingError(f"{err.name} is missing: pip install 'mowdeck[ble]'") from err

    def _start(self, record: ProxyRecord) -> None:
        from edge_agent.proxies.line import ProxyLine

        if self._service is None or self._group is None:
            return
        line = ProxyLine(
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
        reason = "Bluetooth is switched off on this box" if self._service is None else None
        return ProxyStatus(
            record=record,
            state="connecting" if reason is None else "unreachable",
            is_encrypted=is_encrypted,
            reason=reason,
            hint=None if reason is None else OFF_HINT,
        )
