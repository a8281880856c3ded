"""The files of the relay's own Mosquitto, as text: configuration, rights, passwords."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cloud_relay.broker.passwords import is_password_hash
from core.domain import limits
from core.domain.ids import is_safe_id
from core.sync import topics

RELAY_USER = "mowdeck-relay"

UP_BRANCHES = (
    topics.UP_STATUS,
    topics.UP_HELLO,
    topics.UP_STATE,
    topics.UP_JOURNAL,
    topics.UP_RESULT,
    topics.UP_EVENT,
    topics.UP_REPLY,
)
"""What a box may write, each branch by itself: it cannot fill the broker with retained topics of its own making."""

_VERSION = re.compile(r"mosquitto version (\d+)\.(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """One address that the broker binds; TLS with both files."""

    host: str
    port: int
    certificate: Path | None = None
    key: Path | None = None


def parse_version(banner: str) -> tuple[int, int, int] | None:
    """The version in the output of `mosquitto -h`."""
    match = _VERSION.search(banner)
    return None if match is None else (int(match[1]), int(match[2]), int(match[3]))


QUEUE = 1_000_000
"""Messages that Mosquitto queues for one client before it drops: more than ever wait, since each box has at most 8
batches in flight. The documented way to say "no limit", 0, is worse than a number: 2.0.11 then disconnects a
client at its second refused publish (a newer box would never stay connected), 2.0.16 drops everything."""


def configuration(directory: Path, listeners: tuple[Listener, ...], *, user: str) -> str:
    """mosquitto.conf. The figures come from measurements: with the default queue QoS 1 is dropped for a relay that
    lags, without `set_tcp_nodelay` replies wait 40 ms, with the default `autosave_interval` a crash loses all
    registrations."""
    lines = ["# written by mowdeck; changes are lost at the next start", "per_listener_settings false"]
    lines += [
        f"user {user}",
        "allow_anonymous false",
        f"password_file {directory / 'passwords'}",
        f"acl_file {directory / 'acl'}",
        "set_tcp_nodelay true",
        f"max_queued_messages {QUEUE}",
        "max_inflight_messages 100",
        f"max_packet_size {limits.MESSAGE_BYTES}",
        "max_keepalive 120",
        "persistence true",
        f"persistence_location {directory}/",
        "autosave_interval 5",
        "persistent_client_expiration 1d",
        "log_dest stderr",  # stdout is buffered when it is a pipe
        "log_timestamp false",
        *(f"log_type {kind}" for kind in ("error", "warning", "notice", "information")),
        "connection_messages false",
    ]
    for listener in listeners:
        lines.append(f"listener {listener.port} {listener.host}")
        if listener.certificate is not None and listener.key is not None:
            lines += [f"certfile {listener.certificate}", f"keyfile {listener.key}", "tls_version tlsv1.2"]
    return "\n".join([*lines, ""])


def rights() -> str:
    """The ACL file: a box (`%u` is its user name, the edge id) touches its own branch, the relay all of them."""
    lines = [
        f"user {RELAY_USER}",
        f"topic read {topics.ROOT}/+/up/#",
        f"topic write {topics.ROOT}/+/down/#",
        # to clear what is retained of a box that is no longer linked
        f"topic write {topics.ROOT}/+/{topics.UP_STATUS}",
        "",
    ]
    for branch in UP_BRANCHES:
        tail = "/+" if branch in topics.WITH_TAIL else ""
        lines.append(f"pattern write {topics.ROOT}/%u/{branch}{tail}")
    lines.append(f"pattern read {topics.ROOT}/%u/down/#")
    return "\n".join([*lines, ""])


def passwords(hashes: Mapping[str, str]) -> str:
    """The password file."""
    return "".join(f"{name}:{hashed}\n" for name, hashed in sorted(hashes.items()))


def parse_passwords(text: str) -> dict[str, str]:
    """The boxes and hashes of a password file (the relay's own user left out); damaged lines are left out too."""
    found = {}
    for line in text.splitlines():
        name, _, hashed = line.partition(":")
        if is_safe_id(name) and name != RELAY_USER and is_password_hash(hashed):
            found[name] = hashed
    return found
