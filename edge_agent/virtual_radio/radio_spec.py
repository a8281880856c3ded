"""Where a radio that is shared between processes is found: `unix:/path` or `tcp:127.0.0.1:9001`."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from core.domain.errors import InvalidInputError


@dataclass(frozen=True, slots=True, kw_only=True)
class RadioSpec:
    """Either `path`, or `host` and `port`. HCI asks nobody for a password, so only this machine is allowed."""

    path: str | None = None
    host: str = "127.0.0.1"
    port: int = 0

    def __str__(self) -> str:
        return f"unix:{self.path}" if self.path else f"tcp:{self.host}:{self.port}"


def parse_radio_spec(text: str) -> RadioSpec:
    """InvalidInputError when it is neither, or not on this machine."""
    kind, _, rest = text.partition(":")
    if kind == "unix" and rest:
        return RadioSpec(path=rest)
    host, _, port = rest.rpartition(":")
    if kind != "tcp" or not port.isdecimal() or int(port) > 65_535:
        raise InvalidInputError.of("radio", f"{text!r} is neither unix:/path nor tcp:127.0.0.1:port")
    host = host or "127.0.0.1"
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = host == "localhost"
    if not is_loopback:
        raise InvalidInputError.of("radio", f"{host} is not this machine; a radio is never served to a network")
    return RadioSpec(host=host, port=int(port))
