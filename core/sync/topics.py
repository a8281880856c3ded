"""MQTT topics of one box: `mowdeck/v1/edges/{edge_id}/...`. Levels are `[A-Za-z0-9_-]` only, so that every
broker (a NATS cluster included) carries them. No account id and no personal data stands in a topic.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from core.domain.errors import MalformedMessageError
from core.domain.ids import EdgeId, MowerId, is_safe_id

ROOT = "mowdeck/v1/edges"

UP_STATUS = "up/status"
UP_HELLO = "up/hello"
UP_STATE = "up/state"
UP_JOURNAL = "up/journal"
UP_RESULT = "up/result"
UP_EVENT = "up/event"
UP_REPLY = "up/reply"
DOWN_ACK = "down/ack"
DOWN_COMMAND = "down/command"
DOWN_STOP = "down/stop"
"""The emergency lane: the box listens to it over a connection of its own, so that it waits behind nothing."""
DOWN_CANCEL = "down/cancel"
"""Takes a command back that has not begun: `messages.CancelEnvelope`."""
DOWN_DRIVE = "down/drive"
DOWN_REGISTRATIONS = "down/registrations"
DOWN_CALL = "down/call"

WITH_TAIL = frozenset({UP_STATE, UP_RESULT, UP_EVENT, UP_REPLY, DOWN_COMMAND, DOWN_STOP, DOWN_CANCEL, DOWN_DRIVE})
"""Branches whose last level names a mower (or a request, for UP_REPLY)."""
WITHOUT_TAIL = frozenset({UP_STATUS, UP_HELLO, UP_JOURNAL, DOWN_ACK, DOWN_REGISTRATIONS, DOWN_CALL})

_SHAPE = re.compile(r"mowdeck/v1/edges/([^/]+)/((?:up|down)/[^/]+)(?:/([^/]+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A parsed topic: whose, which branch, and the mower or request it names."""

    edge_id: EdgeId
    branch: str
    tail: str | None = None


def topic(edge_id: EdgeId, branch: str, tail: str | MowerId | None = None) -> str:
    """The topic of a branch, e.g. `topic(edge, UP_STATE, mower)`."""
    if (tail is not None) != (branch in WITH_TAIL):
        raise ValueError(f"{branch} {'needs' if tail is None else 'takes no'} last level")
    levels = [ROOT, edge_id, branch] + ([tail] if tail is not None else [])
    if not is_safe_id(edge_id) or (tail is not None and not is_safe_id(tail)):
        raise ValueError("ids in topics must be [A-Za-z0-9_-]")
    return "/".join(levels)


def topic_filter(branch: str, edge_id: EdgeId | None = None) -> str:
    """The subscription for a branch of one box, or of all boxes."""
    tail = "/+" if branch in WITH_TAIL else ""
    return f"{ROOT}/{edge_id or '+'}/{branch}{tail}"


def parse_topic(text: str) -> Topic:
    """The parts of a received topic; MalformedMessageError for any other."""
    match = _SHAPE.fullmatch(text)
    if match is None:
        raise MalformedMessageError(f"not a topic of a box: {text!r}")
    edge_id, branch, tail = match.groups()
    known = branch in WITH_TAIL if tail is not None else branch in WITHOUT_TAIL
    if not known or not is_safe_id(edge_id) or (tail is not None and not is_safe_id(tail)):
        raise MalformedMessageError(f"not a topic of a box: {text!r}")
    return Topic(edge_id=EdgeId(edge_id), branch=branch, tail=tail)
