"""Settings that every host has, with one meaning."""

from __future__ import annotations

from core.settings import validators as v
from core.settings.table import Setting

HOST_SETTINGS: tuple[Setting, ...] = (
    Setting(
        name="log_level",
        help="debug, info, warning or error.",
        default="info",
        validator=v.one_of("debug", "info", "warning", "error"),
    ),
    Setting(
        name="log_format",
        help="json for machines, console for people.",
        default="json",
        validator=v.one_of("json", "console"),
    ),
    Setting(
        name="metrics_token",
        help="Bearer token for GET /metrics from elsewhere than this machine; empty refuses others.",
        default="",
        validator=v.optional(v.text),
        is_secret=True,
    ),
)
