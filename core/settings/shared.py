"""Settings that every host has, with one meaning."""

from __future__ import annotations

from core.settings import validators as v
from core.settings.table import Setting

RETENTION_SETTINGS: tuple[Setting, ...] = (
    Setting(name="history_days", help="Days that the history is kept.", default=30, validator=v.integer(1, 3650)),
    Setting(
        name="positions_days",
        help="Days that the track is kept; 0 is for ever, otherwise at least detail_days.",
        default=730,
        validator=v.integer(0, 3650),
    ),
    Setting(
        name="timeline_days",
        help="Days that the transitions of commands are kept.",
        default=30,
        validator=v.integer(1, 3650),
    ),
)

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
    Setting(
        name="thinning_from_hour",
        help="Hour of the night from which old tracks are thinned; equal to the other one means always.",
        default=1,
        validator=v.integer(0, 23),
    ),
    Setting(
        name="thinning_until_hour",
        help="Hour at which that ends; it may be on the next day.",
        default=5,
        validator=v.integer(0, 23),
    ),
    Setting(
        name="time_zone",
        help="Time zone of these hours, such as Europe/Berlin; empty means the machine's own.",
        default="",
        validator=v.optional(v.time_zone),
    ),
)
