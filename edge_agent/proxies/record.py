"""What is known of a proxy: what a person has given, and how it is now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

PORT = 6053
"""ESPHome's native API."""

ProxyState = Literal["connecting", "connected", "passive", "wrong_key", "unreachable", "taken", "unfit"]
"""`passive`: connected, but it only listens; `taken`: another program has its radio; `unfit`: no proxy, or here twice."""


class ProxyRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is kept in a file. The encryption key is with the secrets."""

    proxy_id: str
    host: str
    port: int = PORT


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyStatus:
    """How a proxy is. `name`, `source` and `firmware` are None until it was reached once; slots until it tells them."""

    record: ProxyRecord
    state: ProxyState
    is_encrypted: bool
    reason: str | None = None
    hint: str | None = None
    name: str | None = None
    source: str | None = None
    """Its name as an adapter: what sightings and bonds call it."""
    firmware: str | None = None
    slots: int | None = None
    slots_free: int | None = None
