"""Structured logs of both hosts and the CLI; no secret gets through, whoever logs it."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

HIDDEN = "**REDACTED**"
_SECRET_KEYS = re.compile(
    r"(^|_)(password|passphrase|pin|secret|token|credential|authorization|cookie|device_code|api_?key|private_key)s?($|_)",
    re.IGNORECASE,
)
_SECRET_WORDS = re.compile(r"(?i)\b((?:password|passwd|passphrase|secret|token|api_?key|pin)[\"']?\s*[=:]\s*)[^\s,;&]+")
"""`password=...` inside a text, as plugins and libraries write it."""
_SECRET_VALUES = re.compile(
    r"(Bearer\s+)\S+|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}|\bmd[krp]_[\w-]{16,}|(://)[^/\s:@]*:[^/\s@]+(?=@)",
    re.IGNORECASE,
)
"""Bearer tokens, JWTs, our own opaque secrets, and the user and password of a URL."""


def is_secret_name(name: str) -> bool:
    """Whether a field of this name holds a secret."""
    return _SECRET_KEYS.search(name) is not None


def redact(value: Any) -> Any:
    """A copy of `value` without what looks like a secret, by key and by shape."""
    if isinstance(value, dict):
        return {k: HIDDEN if _SECRET_KEYS.search(str(k)) and v else redact(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [redact(v) for v in value]
    if isinstance(value, str):
        found = _SECRET_VALUES.sub(lambda m: (m.group(1) or m.group(2) or "") + HIDDEN, value)
        return _SECRET_WORDS.sub(rf"\1{HIDDEN}", found)
    return value


def _redact_event(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {k: HIDDEN if _SECRET_KEYS.search(k) and v else redact(v) for k, v in event.items()}


class _WithoutBadRequests(logging.Filter):
    """aiohttp logs every request that is no HTTP as an error with a traceback: a stranger could fill the disk. The
    client gets its 400 all the same."""

    def filter(self, record: logging.LogRecord) -> bool:
        kind = record.exc_info[0] if record.exc_info else None
        return kind is None or all(base.__name__ != "HttpProcessingError" for base in kind.__mro__)


def configure_logging(level: str, style: str) -> None:
    """Sends structlog and the standard library's logs through one redacting chain to stderr.

    `level` is debug, info, warning or error; `style` is `json` (machines) or `console` (people).
    """
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _redact_event,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    is_terminal = sys.stderr.isatty()
    renderer: Any = (
        structlog.processors.JSONRenderer() if style == "json" else structlog.dev.ConsoleRenderer(colors=is_terminal)
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    server = logging.getLogger("aiohttp.server")
    if not any(isinstance(one, _WithoutBadRequests) for one in server.filters):
        server.addFilter(_WithoutBadRequests())
    for noisy in ("aiohttp.access", "aiosqlite", "paho", "mqtt"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
