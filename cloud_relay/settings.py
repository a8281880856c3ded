"""The relay's settings: `MOWDECK_RELAY_*`, or `[relay]` in the file that `MOWDECK_CONFIG` names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo

from core.domain.errors import Mistake, SettingsError
from core.settings import validators as v
from core.settings.shared import HOST_SETTINGS, RETENTION_SETTINGS
from core.settings.table import Setting, read_settings
from core.telemetry.night_window import NightWindow

SECTION = "relay"
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


TABLE: tuple[Setting, ...] = (
    Setting(name="listen_host", help="Address that the web server binds.", default="127.0.0.1", validator=v.host),
    Setting(name="listen_port", help="Port of the web server; 0 takes a free one.", default=8480, validator=v.port),
    Setting(
        name="public_url",
        help="Address under which people and boxes reach the relay; by default the listening one.",
        default="",
        validator=v.optional(v.http_url),
    ),
    Setting(
        name="data_dir",
        help="Folder of the databases, keys and the broker's files.",
        default="~/.local/share/mowdeck/relay",
        validator=v.path,
    ),
    Setting(
        name="database_url",
        help="Relational database; empty means SQLite in the data folder.",
        default="",
        validator=v.optional(v.text),
    ),
    Setting(
        name="broker",
        help="embedded: the relay starts its own Mosquitto; external: the one named by the broker_* settings.",
        default="embedded",
        validator=v.one_of("embedded", "external"),
    ),
    Setting(
        name="broker_host",
        help="Address that the embedded broker binds, or where the external one is.",
        default="127.0.0.1",
        validator=v.host,
    ),
    Setting(
        name="broker_port",
        help="Its port; 0 takes a free one (embedded, keep it for tests: boxes remember the port).",
        default=8883,
        validator=v.port,
    ),
    Setting(
        name="broker_binary",
        help="The mosquitto program of the embedded broker.",
        default="mosquitto",
        validator=v.text,
    ),
    Setting(
        name="broker_tls_cert",
        help="Certificate chain (PEM) of the embedded broker; without it only loopback is served.",
        default="",
        validator=v.optional(v.path),
    ),
    Setting(
        name="broker_tls_key",
        help="Private key (PEM) of that certificate.",
        default="",
        validator=v.optional(v.path),
    ),
    Setting(
        name="broker_tls",
        help="Whether the external broker speaks TLS.",
        default=True,
        validator=v.boolean,
    ),
    Setting(
        name="broker_ca",
        help="Authority (PEM) that boxes and relay trust for the broker; empty means the system's.",
        default="",
        validator=v.optional(v.path),
    ),
    Setting(
        name="broker_username",
        help="The relay's own user at the external broker.",
        default="",
        validator=v.optional(v.text),
    ),
    Setting(
        name="broker_password",
        help="Its password.",
        default="",
        validator=v.optional(v.text),
        is_secret=True,
    ),
    Setting(
        name="broker_advertised_host",
        help="Host name that boxes are told; by default the host of public_url.",
        default="",
        validator=v.optional(v.host),
    ),
    Setting(
        name="broker_advertised_port",
        help="Port that boxes are told, when a proxy maps it; 0 means the broker's own.",
        default=0,
        validator=v.port,
    ),
    Setting(
        name="register",
        help="open: anybody may make an account; closed: nobody.",
        default="open",
        validator=v.one_of("open", "closed"),
    ),
    Setting(
        name="trusted_proxies",
        help="Addresses of proxies whose X-Forwarded-For is believed, separated by commas.",
        default=(),
        validator=v.words,
    ),
    Setting(
        name="detail_days",
        help="Days that the track is kept in full; older ones are thinned, with the error stated.",
        default=90,
        validator=v.integer(7, 3650),
    ),
    *RETENTION_SETTINGS,
    *HOST_SETTINGS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaySettings:
    """Checked values; the meaning of each stands in TABLE."""

    listen_host: str = "127.0.0.1"
    listen_port: int = 8480
    public_url: str | None = None
    data_dir: Path
    database_url: str | None = None
    broker: Literal["embedded", "external"] = "embedded"
    broker_host: str = "127.0.0.1"
    broker_port: int = 8883
    broker_binary: str = "mosquitto"
    broker_tls_cert: Path | None = None
    broker_tls_key: Path | None = None
    broker_tls: bool = True
    broker_ca: Path | None = None
    broker_username: str | None = None
    broker_password: str | None = None
    broker_advertised_host: str | None = None
    broker_advertised_port: int = 0
    register: Literal["open", "closed"] = "open"
    log_level: str = "info"
    log_format: Literal["json", "console"] = "json"
    trusted_proxies: tuple[str, ...] = ()
    metrics_token: str | None = None
    detail_days: int = 90
    history_days: int = 30
    positions_days: int = 730
    timeline_days: int = 30
    thinning_from_hour: int = 1
    thinning_until_hour: int = 5
    time_zone: str | None = None

    def __repr__(self) -> str:
        """Without the secrets."""
        return f"RelaySettings(data_dir={str(self.data_dir)!r}, broker={self.broker!r})"

    @property
    def relational_url(self) -> str:
        """SQLAlchemy's address of the relational database."""
        return self.database_url or f"sqlite+aiosqlite:///{self.data_dir / 'relay.sqlite3'}"

    @property
    def thinning_hours(self) -> NightWindow:
        """When old tracks are thinned."""
        zone = None if self.time_zone is None else ZoneInfo(self.time_zone)
        return NightWindow(from_hour=self.thinning_from_hour, until_hour=self.thinning_until_hour, zone=zone)

    @property
    def telemetry_path(self) -> Path:
        return self.data_dir / "telemetry.sqlite3"

    @property
    def address_path(self) -> Path:
        """Where the running relay says on which ports it listens (JSON)."""
        return self.data_dir / "relay.address"


def load_settings(environ: Mapping[str, str]) -> RelaySettings:
    """The relay's settings; SettingsError lists every mistake."""
    settings = RelaySettings(**read_settings(SECTION, TABLE, environ))
    check(settings)
    return settings


def check(settings: RelaySettings) -> None:
    """Rules between settings; SettingsError lists every mistake."""
    mistakes: list[Mistake] = []

    def wrong(name: str, reason: str) -> None:
        mistakes.append(Mistake(field=f"MOWDECK_RELAY_{name.upper()}", reason=reason))

    if 0 < settings.positions_days < settings.detail_days:
        wrong("positions_days", f"must not be less than detail_days ({settings.detail_days})")
    url = settings.database_url
    if url and url.startswith(("postgresql", "postgres")):
        wrong("database_url", "PostgreSQL is not supported by this version; leave it empty for SQLite")
    elif url and not url.startswith("sqlite+aiosqlite:///"):
        wrong("database_url", "must begin with sqlite+aiosqlite:///")
    if (settings.broker_tls_cert is None) != (settings.broker_tls_key is None):
        wrong("broker_tls_key", "certificate and key are given together")
    for name in ("broker_tls_cert", "broker_tls_key", "broker_ca"):
        path = getattr(settings, name)
        if path is not None and not path.is_file():
            wrong(name, f"there is no file {path}")
    if settings.broker == "external":
        _check_external(settings, wrong)
    elif settings.broker_tls_cert is None and settings.broker_host not in _LOOPBACK:
        wrong("broker_tls_cert", "the broker is reachable from outside, so it needs TLS")
    if mistakes:
        raise SettingsError(mistakes=tuple(mistakes))


def _check_external(settings: RelaySettings, wrong: Any) -> None:
    if settings.broker_username is None or settings.broker_password is None:
        wrong("broker_username", "an external broker needs the relay's user and password")
    if settings.broker_port == 0:
        wrong("broker_port", "an external broker has a port")
    if not settings.broker_tls and settings.broker_host not in _LOOPBACK:
        wrong("broker_tls", "TLS may only be off on loopback")
