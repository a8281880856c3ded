"""What can be set for an Ardumower entry: the schema that checks it and the typed values made of it.

`data` says which mower and over which path, `options` what a person may change at will; the password is a secret.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import voluptuous as vol

from core.domain.errors import EntryError
from core.domain.geo import GeoPoint
from core.domain.mower import LinkKind
from core.platform.bluetooth_address import read_address
from core.platform.integration import Entry
from integrations.ardumower.areas import Patch, read_areas
from integrations.ardumower.battery import DEFAULT_CELLS
from integrations.ardumower.frame import LocalFrame

DEFAULT_NAME = "Ardumower"
DEFAULT_PASSWORD = "123456"  # noqa: S105  (the firmware's own default, printed in its manual)
PASSWORD_MAX = 2**31 - 1
"""The firmware keeps it in a signed number of 32 bits."""
_HOST = re.compile(r"[A-Za-z0-9_.\-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]")


def number(minimum: float, maximum: float) -> vol.All:
    """A finite number within bounds; never a text, never a truth value."""

    def check(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise vol.Invalid("expected a number")
        return float(value)

    return vol.All(check, vol.Range(min=minimum, max=maximum))


def read_url(text: str) -> str:
    """`192.0.2.7`, `mower.local:8080` or an http address as `http://host:port/`; vol.Invalid for anything else."""
    given = text.strip()
    if not given.isprintable():  # the parser would take control characters out in silence
        raise vol.Invalid("invalid_host")
    try:
        parts = urlsplit(given if "://" in given else f"http://{given}")
        port = parts.port
    except ValueError as err:
        raise vol.Invalid("invalid_host") from err
    host = parts.netloc.rpartition("@")[2]
    host = host.rsplit(":", 1)[0] if port is not None else host.removesuffix(":")
    is_plain = parts.path in ("", "/") and not parts.query and not parts.fragment and "@" not in parts.netloc
    if parts.scheme != "http" or not is_plain or port == 0 or _HOST.fullmatch(host) is None:
        raise vol.Invalid("invalid_host")
    return f"http://{host.lower()}/" if port in (None, 80) else f"http://{host.lower()}:{port}/"


def read_password(text: str | None) -> int:
    """The number behind the digits; vol.Invalid for anything else. The text is never part of an error."""
    digits = (text or "").strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 10 and int(digits) <= PASSWORD_MAX):
        raise vol.Invalid("invalid_password")
    return int(digits)


def _areas(text: str) -> str:
    try:
        read_areas(text)
    except ValueError as err:
        raise vol.Invalid(str(err)) from err
    return text


ENTRY_SCHEMA = vol.Schema(
    {
        vol.Required("link"): vol.In(["lan", "ble"]),
        vol.Optional("url"): vol.All(str, read_url),
        vol.Optional("address"): vol.All(str, read_address),
        vol.Optional("is_bonded", default=False): bool,
        vol.Optional("name", default=DEFAULT_NAME): vol.All(str, vol.Strip, vol.Length(min=1, max=64)),
        vol.Optional("model"): vol.Any(None, str),
        vol.Optional("robot_id"): vol.Any(None, str),
        vol.Optional("cells", default=DEFAULT_CELLS): vol.All(int, vol.Range(min=1, max=20)),
        vol.Optional("datum"): vol.Any(
            None, {vol.Required("lat"): number(-85, 85), vol.Required("lon"): number(-180, 180)}
        ),
        vol.Optional("rotation_deg", default=0.0): number(-360, 360),
        vol.Optional("areas", default=""): vol.All(str, vol.Length(max=20_000), _areas),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArdumowerSettings:
    """The checked values. Exactly one of `url` and `address` is the path."""

    link: LinkKind
    url: str | None
    address: str | None
    is_bonded: bool
    """Whether the mower was paired with a passkey, because it demanded one."""
    name: str
    model: str | None
    serial: str
    robot_id: str | None
    cells: int
    frame: LocalFrame
    patches: tuple[Patch, ...]

    @classmethod
    def of(cls, entry: Entry) -> ArdumowerSettings:
        """The settings of an entry; EntryError names what is wrong with it."""
        try:
            values: dict[str, Any] = ENTRY_SCHEMA({**entry.data, **entry.options})
        except vol.Invalid as err:
            raise EntryError(f"ardumower: {err}") from err
        link = LinkKind(values["link"])
        url, address = values.get("url"), values.get("address")
        if (url if link is LinkKind.LAN else address) is None:
            raise EntryError(f"ardumower: a {link} entry needs {'a url' if link is LinkKind.LAN else 'an address'}")
        datum = values.get("datum")
        return cls(
            link=link,
            url=url if link is LinkKind.LAN else None,
            address=address if link is LinkKind.BLE else None,
            is_bonded=values["is_bonded"],
            name=values["name"],
            model=values.get("model"),
            serial=entry.unique_id or values.get("robot_id") or str(entry.entry_id),
            robot_id=values.get("robot_id"),
            cells=values["cells"],
            frame=LocalFrame(
                datum=None if datum is None else GeoPoint(lat=datum["lat"], lon=datum["lon"]),
                rotation_deg=values["rotation_deg"],
            ),
            patches=read_areas(values["areas"]),
        )
