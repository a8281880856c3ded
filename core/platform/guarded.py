"""A plugin's integration behind the fire door: every call has a deadline, every answer is checked for its shape."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import msgspec

from core.domain.capabilities import Capabilities
from core.domain.commands import Command
from core.domain.drive import DriveFrame
from core.domain.errors import IntegrationError
from core.domain.limits import CLOSE_DEADLINE_S, SETUP_DEADLINE_S
from core.domain.mower import LinkKind, MowerDescription
from core.platform.containment import entered
from core.platform.fire_door import call, call_now
from core.platform.integration import DrivableLink, Integration, MowerKey, MowerLink, Outcome, Report, key_of
from core.platform.plugin_tasks import PluginTasks

MAX_TEXT = 200
MAX_MOWERS = 256


class GuardedIntegration:
    """Looks like the plugin's Integration and raises MowdeckErrors only. The links that `open` returns are the
    plugin's: whoever calls their `run` and `send` does so through `fire_door.call`."""

    def __init__(
        self,
        plugin: Integration,
        name: str,
        tasks: PluginTasks,
        *,
        deadline_s: float = SETUP_DEADLINE_S,
        close_deadline_s: float = CLOSE_DEADLINE_S,
    ) -> None:
        for method in ("mowers", "open", "close"):
            if not call_now(partial(_has_method, plugin, method), where=name, context=tasks.context()):
                raise IntegrationError(f"{name}: create() returned something without {method}()")
        self._plugin = plugin
        self._name = name
        self._tasks = tasks
        self._deadline_s = deadline_s
        self._close_deadline_s = close_deadline_s

    async def mowers(self) -> Sequence[MowerDescription]:
        """The mowers behind the entry; IntegrationError when the plugin answers nonsense."""
        answer = await self._call(self._plugin.mowers, "mowers")
        return call_now(lambda: _checked_mowers(answer, self._name), where=f"{self._name} mowers")

    async def open(self, mower: MowerKey, link: LinkKind) -> MowerLink:
        """A new link; IntegrationError when what comes back is none."""
        answer: MowerLink = await self._call(lambda: self._plugin.open(mower, link), "open")
        is_link = call_now(lambda: _is_link(answer), where=f"{self._name} open")
        if not is_link:
            raise IntegrationError(f"{self._name}: open() returned no link")
        return (
            _ScopedDrivableLink(answer, self._tasks) if hasattr(answer, "drive") else _ScopedLink(answer, self._tasks)
        )

    async def close(self) -> None:
        """Releases everything, within the close deadline."""
        await call(
            self._plugin.close,
            where=f"{self._name} close",
            deadline_s=self._close_deadline_s,
            close_deadline_s=self._close_deadline_s,
            context=self._tasks.context(),
        )

    async def _call(self, make: Any, what: str) -> Any:
        return await call(
            make,
            where=f"{self._name} {what}",
            deadline_s=self._deadline_s,
            close_deadline_s=self._close_deadline_s,
            context=self._tasks.context(),
        )


class _ScopedLink:
    """A plugin's link whose tasks belong to the plugin's scope, whoever runs it."""

    def __init__(self, link: MowerLink, scope: PluginTasks) -> None:
        self._link = link
        self._scope = scope

    @property
    def capabilities(self) -> Capabilities:
        return self._link.capabilities

    @capabilities.setter
    def capabilities(self, capabilities: Capabilities) -> None:
        self._link.capabilities = capabilities

    async def run(self, report: Report) -> None:
        with entered(self._scope):
            await self._link.run(report)

    async def send(self, command: Command) -> Outcome:
        with entered(self._scope):
            return await self._link.send(command)


class _ScopedDrivableLink(_ScopedLink):
    async def drive(self, frame: DriveFrame) -> None:
        with entered(self._scope):
            await cast("DrivableLink", self._link).drive(frame)


def _has_method(plugin: object, method: str) -> bool:
    return callable(getattr(plugin, method, None))


def _is_link(answer: Any) -> bool:
    return isinstance(answer, MowerLink) and isinstance(answer.capabilities, Capabilities)


def _checked_mowers(answer: Any, name: str) -> tuple[MowerDescription, ...]:
    """The descriptions if each is one; the first of several with the same identity wins."""
    if not isinstance(answer, Sequence) or len(answer) > MAX_MOWERS:
        raise IntegrationError(f"{name}: mowers() returned no list of at most {MAX_MOWERS} descriptions")
    found: dict[MowerKey, MowerDescription] = {}
    for mower in answer:
        if not isinstance(mower, MowerDescription) or not _is_described(mower):
            raise IntegrationError(f"{name}: mowers() returned something that describes no mower")
        # through builtins and back: every field, however deep, has the type that it claims
        checked = msgspec.convert(msgspec.to_builtins(mower), MowerDescription)
        found.setdefault(key_of(checked), checked)
    return tuple(found.values())


def _is_described(mower: MowerDescription) -> bool:
    texts: tuple[object, ...] = (mower.vendor, mower.serial, mower.name)
    links: object = mower.links
    return (
        all(isinstance(text, str) and 0 < len(text) <= MAX_TEXT for text in texts)
        and isinstance(links, tuple | list)
        and len(links) > 0
        and all(isinstance(link, LinkKind) for link in links)
    )
