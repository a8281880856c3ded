"""Reads the parts of the running box for its status page and its diagnostics."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from core.domain.ids import BootId
from core.platform import fire_door
from edge_agent.box_status import BoxStatus, ClockStatus, find_problems, read_disk
from edge_agent.clock.keeper import ClockKeeper
from edge_agent.diagnostics import Diagnostics
from edge_agent.linking.link_desk import LinkDesk, LinkView
from edge_agent.plugins import Plugins
from edge_agent.recorder.recorder import Recorder
from edge_agent.recorder.storage_care import StorageCare
from edge_agent.runtime.commander import Commander
from edge_agent.runtime.live import LiveStates
from edge_agent.runtime.supervisor import Supervisor
from edge_agent.settings import EdgeSettings
from edge_agent.uplink.relay_line import RelayLine


class BoxReport:
    """`status` for people, `diagnostics` (redacted) for a report."""

    def __init__(
        self,
        *,
        settings: EdgeSettings,
        version: str,
        boot_id: BootId,
        started_at: datetime,
        clock: ClockKeeper,
        recorder: Recorder,
        care: StorageCare,
        live: LiveStates,
        supervisor: Supervisor,
        commander: Commander,
        plugins: Plugins,
        link_desk: LinkDesk,
        line: RelayLine,
    ) -> None:
        self._settings = settings
        self._version = version
        self._boot_id = boot_id
        self._started_at = started_at
        self._clock = clock
        self._recorder = recorder
        self._care = care
        self._supervisor = supervisor
        self._plugins = plugins
        self._link_desk = link_desk
        self._line = line
        registry, loader = plugins.registry, plugins.loader
        self._diagnostics = Diagnostics(
            {
                "box": self.status,
                "entries": plugins.entries.views,
                "integrations": loader.manifests,
                "integration_problems": lambda: {d: e.detail for d, e in loader.problems().items()},
                "proxies": plugins.proxies.statuses,
                "states": live.all,
                "commands": lambda: dict(commander.counts),
                "abandoned_tasks": fire_door.abandoned,
            },
            known=lambda: [
                *(text for mower in registry.mowers() for text in (mower.name, *mower.key.split(":", 1))),
                *(status.name for status in plugins.proxies.statuses() if status.name is not None),
            ],
        )

    def status(self) -> BoxStatus:
        """How the box is now."""
        clock = ClockStatus(
            now=self._clock.now(),
            is_trusted=self._clock.is_trusted,
            quality=self._clock.quality.value,
            skew_s=self._clock.skew_s(),
        )
        bluetooth = self._plugins.bluetooth
        recorder, link, uplink = self._recorder.status(), _without_code(self._link_desk.view()), self._line.status()
        mowers = self._supervisor.statuses()
        problems = find_problems(
            clock=clock,
            recorder=recorder,
            link=link,
            uplink=uplink,
            mowers=mowers,
            storage=self._care.problems(),
            files=(
                self._plugins.registry.problem,
                self._plugins.entries.store.problem,
                self._line.problem,
                None if bluetooth is None else bluetooth.bonds_problem,
                self._plugins.proxies.problem,
            ),
        )
        return BoxStatus(
            name=self._settings.box_name,
            version=self._version,
            boot_id=self._boot_id,
            started_at=self._started_at,
            clock=clock,
            disk=read_disk(self._settings.telemetry_path),
            storage=self._care.status(),
            recorder=recorder,
            link=link,
            uplink=uplink,
            mowers=mowers,
            problems=problems,
        )

    def diagnostics(self) -> dict[str, Any]:
        """Everything about the box that says nothing about its household."""
        return self._diagnostics.snapshot()


def _without_code(link: LinkView) -> LinkView:
    """Everybody of the household may read the status; only who manages the box may see the code that gives it away."""
    return msgspec.structs.replace(link, user_code=None, verification_uri=None, verification_uri_complete=None)
