"""The fire door of one entry's link to one mower, as a value: what it is doing, and when it tries again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

import msgspec

from core.domain import limits
from core.domain.capabilities import Capabilities
from core.domain.errors import MowdeckError
from core.domain.ids import EntryId, MowerId
from core.domain.mower import LinkKind, MowerDescription
from core.platform.integration import Integration
from edge_agent.runtime.carrier import OpenLink
from edge_agent.runtime.lane import Lane

JITTER = 0.2
"""Share of a pause that is added at random, so that many mowers do not come back in step."""

LONGEST_ASKED_S = 86_400.0
"""A longer pause than a day that somebody asks for is not believed."""


class Phase(StrEnum):
    """Where a door stands."""

    CONNECTING = "connecting"
    ONLINE = "online"
    WAITING = "waiting"
    """After a failure that may pass; tried again by itself."""
    PARKED = "parked"
    """Until a person does something, or the entry is loaded again."""


class DoorStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A door as status pages and diagnostics show it. `code` and `detail` are those of the last failure."""

    mower_id: MowerId
    entry_id: EntryId
    phase: Phase
    since: datetime
    link: LinkKind | None = None
    """The kind that is up."""
    has_reported: bool = False
    """Whether that link has met the mower yet: it is open as soon as it may look for it."""
    failures: int = 0
    code: str | None = None
    detail: str | None = None
    hint: str | None = None
    retry_in_s: float | None = None


@dataclass(slots=True, kw_only=True)
class Door:
    """The supervisor's own notes on one entry's way to one mower."""

    mower_id: MowerId
    entry_id: EntryId
    description: MowerDescription
    integration: Integration
    links: Sequence[LinkKind]
    status: DoorStatus
    open_link: OpenLink | None = None
    lane: Lane | None = None
    """Of the open link."""
    capabilities: Capabilities | None = None
    """Of its newest link; kept while that is down."""
    failures: int = 0
    task: asyncio.Task[None] | None = None
    resumed: asyncio.Event = field(default_factory=asyncio.Event)


def retry_pause_s(failures: int, rng: random.Random, *, at_least_s: float = 0.0) -> float:
    """min(2^n x 5 s, 600 s) with n = failures before this one, plus jitter; never below `at_least_s`."""
    exponent = min(max(failures - 1, 0), 16)
    pause = max(min(limits.RETRY_FIRST_S * 2.0**exponent, limits.RETRY_MAX_S), at_least_s)
    return pause * (1.0 + JITTER * rng.random())


def wanted_pause_s(error: Exception) -> float:
    """How long the other side asked us to wait (0: it did not say)."""
    asked: object = getattr(error, "retry_after_s", None)
    if not isinstance(asked, (int, float)) or not 0 <= asked < LONGEST_ASKED_S:
        return 0.0
    return float(asked)


def is_retryable(error: Exception) -> bool:
    """Whether trying again by itself can help; a bug never gets better by itself."""
    return isinstance(error, MowdeckError) and error.retryable


OnChange = Callable[[DoorStatus], None]
