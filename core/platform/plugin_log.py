"""The logger that a plugin gets: it names the entry, and takes the entry's secrets out of every line."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from core.platform.fire_door import text_of

MAX_LINE = 4_000
SHORTEST_SECRET = 4
"""Shorter secrets are not looked for: taking every `1` out of a line would leave no line."""
REDACTED = "**REDACTED**"


class Redactor:
    """Takes secrets out of texts. They are asked for at every text, so that a renewed token is known at once."""

    def __init__(self, secrets: Callable[[], Iterable[str]]) -> None:
        self._secrets = secrets

    def __call__(self, text: str) -> str:
        for secret in sorted(set(self._secrets()), key=len, reverse=True):
            if len(secret) >= SHORTEST_SECRET:
                text = text.replace(secret, REDACTED)
        return text


class PluginLog(logging.LoggerAdapter[logging.Logger]):
    """One line per call, cut at MAX_LINE characters."""

    def __init__(self, domain: str, owner_id: str, redact: Callable[[str], str]) -> None:
        super().__init__(logging.getLogger(f"integrations.{domain}"), {"owner_id": owner_id})
        self._redact = redact

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Never raises, whatever it is given."""
        if not self.isEnabledFor(level):
            return
        exc_info = kwargs.pop("exc_info", None)
        text = self._redact(_render(msg, args) + _render_exception(exc_info))
        self.logger.log(level, "%s", text[:MAX_LINE], extra=dict(self.extra or {}))


def _render(msg: object, args: tuple[object, ...]) -> str:
    try:
        text = str(msg)
        if not args:
            return text
        return text % (args[0] if len(args) == 1 and isinstance(args[0], Mapping) else args)
    except Exception as err:  # noqa: BLE001  (fire door: a plugin's log call must not end the plugin)
        return f"(log line that cannot be shown: {text_of(err)})"


def _render_exception(exc_info: Any) -> str:
    if not exc_info:
        return ""
    err = exc_info if isinstance(exc_info, BaseException) else sys.exc_info()[1]
    return "" if err is None else "\n" + "".join(traceback.format_exception(err)).rstrip()
