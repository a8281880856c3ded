"""Validators for settings: each takes text (environment) or a TOML value and says what it wants."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import voluptuous as vol


def boolean(value: Any) -> bool:
    """`true/false`, `yes/no`, `on/off`, `1/0`."""
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word in {"true", "yes", "on", "1"}:
        return True
    if word in {"false", "no", "off", "0"}:
        return False
    raise vol.Invalid("must be true or false")


def integer(minimum: int, maximum: int) -> Callable[[Any], int]:
    """A whole number within bounds."""

    def check(value: Any) -> int:
        try:
            number = int(str(value).strip())
        except ValueError as err:
            raise vol.Invalid("must be a whole number") from err
        if isinstance(value, bool) or not minimum <= number <= maximum:
            raise vol.Invalid(f"must be between {minimum} and {maximum}")
        return number

    return check


def port(value: Any) -> int:
    """A TCP port; 0 asks the system for a free one."""
    return integer(0, 65535)(value)


def text(value: Any) -> str:
    """Any text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise vol.Invalid("must not be empty")
    return value.strip()


def one_of(*words: str) -> Callable[[Any], str]:
    """One of a few words."""

    def check(value: Any) -> str:
        word = str(value).strip().lower()
        if word not in words:
            raise vol.Invalid(f"must be one of: {', '.join(words)}")
        return word

    return check


def path(value: Any) -> Path:
    """A path; `~` is the home directory."""
    return Path(text(value)).expanduser()


def host(value: Any) -> str:
    """A host name or an address, without a port."""
    name = text(value)
    if not re.fullmatch(r"[A-Za-z0-9._:\-]+", name):
        raise vol.Invalid("must be a host name or an address")
    return name


def http_url(value: Any) -> str:
    """An http or https address without a path; the trailing slash is dropped."""
    address = text(value).rstrip("/")
    try:
        parts = urlsplit(address)
        is_good = parts.scheme in {"http", "https"} and bool(parts.hostname) and not parts.query
        _ = parts.port
    except ValueError:
        is_good = False
    if not is_good or parts.username or parts.password:
        raise vol.Invalid("must be an address such as https://relay.example")
    return address


def time_zone(value: Any) -> str:
    """An IANA time zone."""
    name = text(value)
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as err:
        raise vol.Invalid("must be a time zone such as Europe/Berlin") from err
    return name


def words(value: Any) -> tuple[str, ...]:
    """A list, or text separated by commas."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if isinstance(value, list | tuple) and all(isinstance(part, str) for part in value):
        return tuple(value)
    raise vol.Invalid("must be a list of words")


def optional(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`check`, but empty text means not set (None)."""

    def run(value: Any) -> Any:
        return None if value is None or value == "" else check(value)

    return run
