"""The box's settings: `MOWDECK_EDGE_*`, or `[edge]` in the file that `MOWDECK_CONFIG` names."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from zoneinfo import ZoneInfo

from core.domain.errors import SettingsError
from core.settings import validators as v
from core.settings.shared import HOST_SETTINGS, RETENTION_SETTINGS
from core.settings.table import Setting, read_settings
from core.telemetry.night_window import NightWindow

SECTION = "edge"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def _adapters(value: object) -> tuple[str, ...]:
    """The named adapters; `off` is none."""
    names = v.words(value)
    return () if names == ("off",) else names


TABLE: tuple[Setting, ...] = (
    Setting(
        name="listen_host",
        help="Address that the local API binds; 0.0.0.0 serves the home network.",
        default="127.0.0.1",
        validator=v.host,
    ),
    Setting(name="listen_port", help="Port of the local API; 0 takes a free one.", default=8481, validator=v.port),
    Setting(
        name="data_dir",
        help="Folder of the databases, entries and secrets.",
        default="~/.local/share/mowdeck/edge",
        validator=v.path,
    ),
    Setting(
        name="integrations_dir",
        help="Folder of third-party integrations; empty means `integrations` in the data folder.",
        default="",
        validator=v.optional(v.path),
    ),
    Setting(
        name="name",
        help="What the box calls itself, on the relay too; empty means its host name.",
        default="",
        validator=v.optional(v.text),
    ),
    Setting(
        name="announce",
        help="Whether the box uses zeroconf: announces itself (_mowdeck._tcp) if it listens there, and looks for Bluetooth proxies.",
        default=True,
        validator=v.boolean,
    ),
    Setting(
        name="trust_clock",
        help="Whether the wall clock is right although the kernel does not say so (no NTP, or an NTP that does not tell it).",
        default=False,
        validator=v.boolean,
    ),
    Setting(
        name="bluetooth",
        help="Adapters, separated by commas: auto (all of the machine), hci0, virtual:unix:/path (emulated), proxies (none, proxies only), or off.",
        default=("auto",),
        validator=_adapters,
    ),
    *RETENTION_SETTINGS,
    Setting(
        name="disk_budget_mib",
        help="MiB that the telemetry file may take; then the oldest rows go, thinned and acknowledged ones first.",
        default=2048,
        validator=v.integer(64, 1_048_576),
    ),
    Setting(
        name="disk_reserve_percent",
        help="Part of the file system that the telemetry file leaves free.",
        default=10,
        validator=v.integer(0, 50),
    ),
    Setting(
        name="card_endurance_tbw",
        help="Terabytes that the card's maker says can be written to it (TBW); 0 assumes 300 times its file system.",
        default=0,
        validator=v.integer(0, 100_000),
    ),
    Setting(
        name="detail_days",
        help="Days that the track is kept in full; older ones are thinned, with the error stated.",
        default=14,
        validator=v.integer(7, 3650),
    ),
    *HOST_SETTINGS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeSettings:
    """Checked values; the meaning of each stands in TABLE."""

    listen_host: str = "127.0.0.1"
    listen_port: int = 8481
    data_dir: Path
    integrations_dir: Path | None = None
    name: str | None = None
    announce: bool = True
    trust_clock: bool = False
    bluetooth: tuple[str, ...] = ("auto",)
    history_days: int = 30
    positions_days: int = 730
    timeline_days: int = 30
    disk_budget_mib: int = 2048
    disk_reserve_percent: int = 10
    card_endurance_tbw: int = 0
    log_level: str = "info"
    log_format: Literal["json", "console"] = "json"
    metrics_token: str | None = None
    detail_days: int = 14
    thinning_from_hour: int = 1
    thinning_until_hour: int = 5
    time_zone: str | None = None

    def __repr__(self) -> str:
        """Without the secrets."""
        return f"EdgeSettings(data_dir={str(self.data_dir)!r})"

    @property
    def box_name(self) -> str:
        return self.name or socket.gethostname()

    @property
    def is_announced(self) -> bool:
        """Nobody is told of an address that only this machine reaches."""
        return self.announce and self.listen_host not in LOOPBACK

    @property
    def custom_integrations(self) -> Path:
        return self.integrations_dir or self.data_dir / "integrations"

    @property
    def thinning_hours(self) -> NightWindow:
        """When old tracks are thinned."""
        zone = None if self.time_zone is None else ZoneInfo(self.time_zone)
        return NightWindow(from_hour=self.thinning_from_hour, until_hour=self.thinning_until_hour, zone=zone)

    @property
    def telemetry_path(self) -> Path:
        return self.data_dir / "telemetry.sqlite3"

    @property
    def relational_url(self) -> str:
        """SQLAlchemy's address of the relational database."""
        return f"sqlite+aiosqlite:///{self.data_dir / 'people.sqlite3'}"

    @property
    def address_path(self) -> Path:
        """Where the running box says on which port it listens (JSON)."""
        return self.data_dir / "edge.address"


def load_settings(environ: Mapping[str, str]) -> EdgeSettings:
    """The box's settings; SettingsError lists every mistake."""
    settings = EdgeSettings(**read_settings(SECTION, TABLE, environ))
    if 0 < settings.positions_days < settings.detail_days:
        raise SettingsError.of(
            "MOWDECK_EDGE_POSITIONS_DAYS", f"must not be less than detail_days ({settings.detail_days})"
        )
    return settings
