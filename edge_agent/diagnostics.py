"""A snapshot of the box for somebody who helps, without anything that says who or where its household is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
import structlog

from core.platform.fire_door import text_of

_log = structlog.get_logger(__name__)

HIDDEN = "**hidden**"
DEPTH = 24
"""Deeper structures are cut; nothing of ours is that deep."""

_WORDS = {
    *("token", "tokens", "password", "passwd", "passphrase", "secret", "secrets", "credential", "credentials"),
    *("pin", "pins", "puk", "authorization", "cookie", "jwt", "key", "keys", "privatekey", "apikey", "signature"),
    *("email", "mail", "username", "user", "login", "subject", "phone"),
    *("serial", "serials", "serialnumber", "mac", "bssid", "ssid", "ip", "ipv4", "ipv6", "host", "hostname"),
    *("address", "addresses", "lat", "lon", "lng", "latitude", "longitude", "latlon", "origin", "ring", "rings"),
    *("coordinates", "geo"),
}
"""A key with one of these words in it hides its value, whatever that is. Local metres (`x_m`, `y_m`) may stay."""
_HARMLESS = frozenset({"stream_id", "edge_id", "mower_id", "entry_id", "boot_id", "command_id", "key_id"})

_PATTERNS = tuple(
    re.compile(pattern)
    for pattern in (
        r"[\w.+-]+@[\w-]+\.[\w.-]+",  # email
        r"\beyJ[\w-]+\.[\w-]+\.[\w-]*",  # JWT
        r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)",  # user:password of a URL
        r"(?i)(?<=bearer )\S+",
        r"(?i)\b(?:token|password|passwd|secret|pin|key)\s*[=:]\s*\S+",
        r"\b(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}\b",  # MAC
        r"\b(?:\d{1,3}\.){3}\d{1,3}\b",  # IPv4
        r"(?i)(?<![\w:])(?:[0-9a-f]{1,4}:){3,7}[0-9a-f]{0,4}(?![\w:])",  # IPv6, written out
        r"(?i)(?<![\w:])(?:[0-9a-f]{1,4}:)+:(?:[0-9a-f]{1,4}:?)+",  # IPv6, shortened
        r"(?<![\d.])-?\d{1,3}\.\d{4,}\s*[,;/ ]\s*-?\d{1,3}\.\d{4,}(?![\d.])",  # a pair of coordinates
        r"\b[A-Za-z0-9_-]{40,}={0,2}",  # long random words
    )
)
_SPLIT = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])")


def redact(value: Any, *, known: Iterable[str] = (), depth: int = DEPTH) -> Any:
    """`value` (of JSON types) without secrets and persons: by the name of the field, by the look of a text, and
    every text in `known` (serial numbers, names) wherever it stands."""
    hidden = sorted({text for text in known if len(text) >= 3}, key=len, reverse=True)
    return _redact(value, hidden, depth)


def _redact(value: Any, known: list[str], depth: int) -> Any:
    if depth <= 0:
        return "**too deep**"
    match value:
        case str():
            return _redact_text(value, known)
        case None | bool() | int() | float():
            return value
        case Mapping():
            return {
                _redact_text(str(key), known): (
                    HIDDEN if is_private(str(key)) and inner is not None else _redact(inner, known, depth - 1)
                )
                for key, inner in value.items()
            }
        case list() | tuple() | set() | frozenset():
            return [_redact(inner, known, depth - 1) for inner in value]
        case _:
            return f"**{type(value).__name__}**"


def is_private(key: str) -> bool:
    """Whether a field of this name holds what nobody else should see."""
    if key in _HARMLESS:
        return False
    words = [word.lower() for word in _SPLIT.split(key) if word]
    return key.lower() in _WORDS or any(word in _WORDS for word in words) or "".join(words) in _WORDS


def _redact_text(text: str, known: list[str]) -> str:
    for secret in known:
        text = text.replace(secret, HIDDEN)
    for pattern in _PATTERNS:
        text = pattern.sub(HIDDEN, text)
    return text


class Diagnostics:
    """Collects the parts that the box's composition names. A part that fails says so and hides no other."""

    def __init__(
        self, parts: Mapping[str, Callable[[], Any]], *, known: Callable[[], Iterable[str]] = lambda: ()
    ) -> None:
        self._parts = dict(parts)
        self._known = known

    def snapshot(self) -> dict[str, Any]:
        """All parts as plain JSON types, redacted. A part gives Structs, dataclasses or plain values."""
        known = list(self._known())
        found: dict[str, Any] = {}
        for name, read in self._parts.items():
            try:
                found[name] = redact(msgspec.to_builtins(read(), enc_hook=_name_of), known=known)
            except Exception as err:  # noqa: BLE001  (diagnostics are asked for when something is broken)
                _log.warning("a part of the diagnostics failed", part=name, error=type(err).__name__)
                found[name] = {"error": redact(text_of(err), known=known)}
        return found


def _name_of(value: object) -> str:
    return f"**{type(value).__name__}**"
