"""What the box knows beside a mower's own words: its links, the network, the disk, and how worn it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

import structlog

from core.domain.clock import Clock
from core.domain.errors import NotFoundError, StorageError
from core.domain.ids import AccountId, EntryId, MowerId
from core.domain.mower import LinkKind, MowerState
from core.platform.registry import MowerRegistry
from core.storage.record_book import RecordBook
from core.telemetry.admission import EARLIEST
from core.telemetry.alert_rules import Look, Wear
from core.telemetry.blades import BLADE_CARE, BLADE_CARE_KEY, BLADE_CHANGE
from core.telemetry.care import battery_report, blade_report
from core.telemetry.health_day import HEALTH_DAY
from core.telemetry.theft import Surroundings
from edge_agent.box_status import read_disk
from edge_agent.runtime.supervisor import Supervisor

REFRESH_S = 10.0
WEAR_S = 3600.0
DAYS_MAX = 1_000
LATEST = datetime(2200, 1, 1, tzinfo=UTC)
INTERFACES = Path("/sys/class/net")

_log = structlog.get_logger(__name__)


class Outlook:
    """Reads other parts; changes nothing."""

    def __init__(
        self,
        *,
        registry: MowerRegistry,
        supervisor: Supervisor,
        book: RecordBook,
        clock: Clock,
        account_id: Callable[[], AccountId],
        database: Path,
        is_relay_reached: Callable[[], bool],
        is_released: Callable[[Iterable[EntryId]], bool] = lambda _: False,
        interfaces: Path = INTERFACES,
    ) -> None:
        self._registry = registry
        self._supervisor = supervisor
        self._book = book
        self._clock = clock
        self._account_id = account_id
        self._database = database
        self._is_relay_reached = is_relay_reached
        self._is_released = is_released
        self._interfaces = interfaces
        self._started_s = clock.monotonic()
        self._free_percent: float | None = None
        self._has_interface: bool | None = None
        self._wear: dict[MowerId, Wear] = {}
        self._worn_at_s: float | None = None

    async def run(self) -> None:
        """Keeps the slow figures new until cancelled."""
        while True:
            await self.refresh()
            await asyncio.sleep(REFRESH_S)

    async def refresh(self) -> None:
        """Disk and network; once an hour the wear of every mower."""
        disk = await asyncio.to_thread(read_disk, self._database)
        self._free_percent = None if disk is None or not disk.total_bytes else 100 * disk.free_bytes / disk.total_bytes
        self._has_interface = await asyncio.to_thread(has_interface, self._interfaces)
        now_s = self._clock.monotonic()
        if self._worn_at_s is not None and now_s - self._worn_at_s < WEAR_S:
            return
        self._worn_at_s = now_s
        try:
            self._wear = {mower.mower_id: await self._read_wear(mower.mower_id) for mower in self._registry.mowers()}
        except StorageError as err:
            _log.warning("the wear of the mowers cannot be read", detail=err.detail)

    def look(self, mower_id: MowerId, state: MowerState, now: datetime, monotonic_s: float) -> Look:
        """A look at the mower with all of it."""
        try:
            mower = self._registry.get(mower_id)
        except NotFoundError:
            return Look(state=state, now=now, monotonic_s=monotonic_s)
        up = {link.kind for link in self._supervisor.open_links(mower_id) if not link.says_offline}
        links = {kind: kind in up for kinds in mower.links.values() for kind in kinds}
        return Look(
            state=state,
            now=now,
            monotonic_s=monotonic_s,
            areas=mower.areas,
            around=Surroundings(
                links=links,
                is_network_up=self._is_network_up(),
                up_s=self._clock.monotonic() - self._started_s,
                is_ble_released=self._is_released(id_ for id_, kinds in mower.links.items() if LinkKind.BLE in kinds),
            ),
            wear=self._wear.get(mower_id),
            free_percent=self._free_percent,
        )

    def _is_network_up(self) -> bool | None:
        """Whether others can be reached over the network; None when nothing tells."""
        if self._has_interface is False:
            return False
        others = (self._supervisor.open_links(mower.mower_id) for mower in self._registry.mowers())
        far = {LinkKind.LAN, LinkKind.CLOUD}
        is_used = any(link.kind in far and not link.says_offline for links in others for link in links)
        return True if is_used or self._is_relay_reached() else None

    async def _read_wear(self, mower_id: MowerId) -> Wear:
        account_id = self._account_id()
        rows, _ = await self._book.list_kind(
            account_id, mower_id, HEALTH_DAY.name, EARLIEST, LATEST, limit=DAYS_MAX, is_newest_first=True
        )
        days = [day for row in reversed(rows) if (day := HEALTH_DAY.read(row)) is not None]
        changes, _ = await self._book.list_kind(
            account_id, mower_id, BLADE_CHANGE.name, EARLIEST, LATEST, limit=1, is_newest_first=True
        )
        setting = await self._book.get(account_id, mower_id, BLADE_CARE.name, BLADE_CARE_KEY)
        change = BLADE_CHANGE.read(changes[0]) if changes else None
        care = None if setting is None else BLADE_CARE.read(setting)
        blades = blade_report(
            days, None if change is None else (changes[0].at, change), None if care is None else care.interval_h
        )
        return Wear(
            blades_used_h=blades.used_h if days else None,
            blades_interval_h=blades.interval_h,
            endurance_change_percent=battery_report(days).mowing.change_high_percent,
        )


def has_interface(folder: Path) -> bool | None:
    """Whether any network interface but the machine's own loop is up; None when the kernel does not tell."""
    try:
        states = [
            (interface / "operstate").read_text().strip() for interface in folder.iterdir() if interface.name != "lo"
        ]
    except OSError:
        return None
    return any(state in {"up", "unknown"} for state in states) if states else None
