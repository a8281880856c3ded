"""The line of whatever link the box has now: none, one, or the next one. A new link gets a new Uplink."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from core.domain.commands import CommandResult
from core.domain.errors import MowdeckError
from core.domain.events import MowerEvent
from core.domain.ids import MowerId
from core.domain.mower import MowerState
from core.sync.linking import LinkGrant
from edge_agent.linking.link_grant import check_grant
from edge_agent.uplink.facts import UplinkStatus
from edge_agent.uplink.uplink import Uplink

_log = structlog.get_logger(__name__)


class RelayLine:
    """`run` is its life; `change` may come at any time. Without a link everything that is put is dropped: what has
    to reach a relay is in the journal."""

    def __init__(self, make_uplink: Callable[[LinkGrant], Uplink], link: LinkGrant | None) -> None:
        self._make_uplink = make_uplink
        self._link = link
        self._uplink: Uplink | None = None
        self._changed = asyncio.Event()
        self._problem: str | None = None

    @property
    def problem(self) -> str | None:
        """Why there is no line although there is a link."""
        return self._problem

    def change(self, link: LinkGrant | None) -> None:
        """Another link, or none. The one that it has already changes nothing, unless it could not be used."""
        if link == self._link and self._problem is None:
            return
        self._link = link
        self._changed.set()

    def put_state(self, mower_id: MowerId, state: MowerState) -> None:
        if self._uplink is not None:
            self._uplink.put_state(mower_id, state)

    def put_result(self, result: CommandResult) -> None:
        if self._uplink is not None:
            self._uplink.put_result(result)

    def put_event(self, mower_id: MowerId, event: MowerEvent) -> None:
        if self._uplink is not None:
            self._uplink.put_event(mower_id, event)

    def on_inventory(self) -> None:
        if self._uplink is not None:
            self._uplink.on_inventory()

    def on_growth(self) -> None:
        if self._uplink is not None:
            self._uplink.on_growth()

    def status(self) -> UplinkStatus | None:
        """None without a link."""
        return None if self._uplink is None else self._uplink.status()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._changed.clear()
            uplink = self._make()
            async with asyncio.TaskGroup() as group:
                self._uplink = uplink
                line = None if uplink is None else group.create_task(uplink.run(), name="uplink")
                await self._changed.wait()
                self._uplink = None
                if line is not None:
                    line.cancel()

    def _make(self) -> Uplink | None:
        self._problem = None
        if self._link is None:
            return None
        try:
            check_grant(self._link)
            return self._make_uplink(self._link)
        except MowdeckError as err:
            self._problem = err.detail
            _log.error("the link cannot be used", detail=err.detail)
            return None
