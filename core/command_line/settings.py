"""Settings of the commands that speak to a host: `MOWDECK_CLIENT_*`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from core.settings import validators as v
from core.settings.table import Setting, read_settings

SECTION = "client"

TABLE: tuple[Setting, ...] = (
    Setting(
        name="host",
        help="Box or relay that is asked when --host is not given; else the one signed in to last.",
        default="",
        validator=v.optional(v.http_url),
    ),
    Setting(
        name="config_dir",
        help="Folder where sign-ins are kept.",
        default="~/.config/mowdeck",
        validator=v.path,
    ),
    Setting(
        name="token",
        help="Service token to use instead of a sign-in.",
        default="",
        validator=v.optional(v.text),
        is_secret=True,
    ),
    Setting(
        name="password",
        help="Password for `mowdeck sign-in` and `mowdeck register`, instead of being asked.",
        default="",
        validator=v.optional(v.text),
        is_secret=True,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Checked values; the meaning of each stands in TABLE."""

    host: str | None
    config_dir: Path
    token: str | None
    password: str | None

    def __repr__(self) -> str:
        """Without the secrets."""
        return f"ClientSettings(host={self.host!r})"


def load_settings(environ: Mapping[str, str]) -> ClientSettings:
    """The client's settings; SettingsError lists every mistake."""
    return ClientSettings(**read_settings(SECTION, TABLE, environ))
