"""What can go wrong between a box and a mower, by name, and the bench on which it is made to.

A folder offers its faults in `emulator.py`:

    @asynccontextmanager
    async def contract_fault(context: IntegrationContext, fault: Fault) -> AsyncIterator[Bench]:
        ...as contract_world, and how this fault begins and ends...

    NO_SUCH_FAULT = {Fault.NO_RTK: "it has no satellite receiver"}      # and why

Every fault of the mower's own links is either made, or has its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum

from core.domain.mower import LinkKind
from core.platform.integration import Integration, IntegrationContext


class Fault(StrEnum):
    """The name of a fault; `MEANINGS` says what it is."""

    NOT_PAIRABLE = "not_pairable"
    BOND_LOST = "bond_lost"
    WEAK_SIGNAL = "weak_signal"
    SLOT_TAKEN = "slot_taken"
    PHONE_CONNECTED = "phone_connected"
    ADAPTER_OFF = "adapter_off"
    DROP_MID_FRAME = "drop_mid_frame"
    DROP_ON_WRITE = "drop_on_write"
    LOST_NOTIFICATIONS = "lost_notifications"
    DOUBLED_NOTIFICATIONS = "doubled_notifications"
    GARBLED_NOTIFICATIONS = "garbled_notifications"
    MERGED_NOTIFICATIONS = "merged_notifications"
    SPLIT_NOTIFICATIONS = "split_notifications"
    REFUSED = "refused"
    RESET_MID_ANSWER = "reset_mid_answer"
    HTTP_ERROR = "http_error"
    GARBAGE = "garbage"
    WRONG_PIN = "wrong_pin"
    LOGGED_OUT = "logged_out"
    LOST_ANSWERS = "lost_answers"
    SILENT = "silent"
    SLOW_ANSWERS = "slow_answers"
    UNKNOWN_WORD = "unknown_word"
    REBOOT = "reboot"
    STUCK = "stuck"
    RAIN = "rain"
    NO_RTK = "no_rtk"


MEANINGS: Mapping[Fault, str] = {
    Fault.NOT_PAIRABLE: "the mower has forgotten the box, and takes no new bond",
    Fault.BOND_LOST: "the mower has forgotten the box",
    Fault.WEAK_SIGNAL: "out of reach of every adapter",
    Fault.SLOT_TAKEN: "every connection of the adapter is in use",
    Fault.PHONE_CONNECTED: "the vendor's app holds the mower's only connection",
    Fault.ADAPTER_OFF: "the adapter is switched off or pulled out",
    Fault.DROP_MID_FRAME: "the connection ends within an answer",
    Fault.DROP_ON_WRITE: "the connection ends with a request",
    Fault.LOST_NOTIFICATIONS: "parts of answers never come",
    Fault.DOUBLED_NOTIFICATIONS: "parts of answers come twice",
    Fault.GARBLED_NOTIFICATIONS: "bytes of answers are wrong",
    Fault.MERGED_NOTIFICATIONS: "something unasked and the answer run together",
    Fault.SPLIT_NOTIFICATIONS: "answers come in pieces of another size",
    Fault.REFUSED: "the mower's address takes no connection",
    Fault.RESET_MID_ANSWER: "the connection is reset within an answer",
    Fault.HTTP_ERROR: "answers are errors of the web server",
    Fault.GARBAGE: "answers are no answers",
    Fault.WRONG_PIN: "the mower has another PIN or password now",
    Fault.LOGGED_OUT: "the mower forgets who has signed in",
    Fault.LOST_ANSWERS: "requests are obeyed, and some answers never come",
    Fault.SILENT: "the mower hears nothing and says nothing",
    Fault.SLOW_ANSWERS: "answers take long",
    Fault.UNKNOWN_WORD: "the mower says a word that nobody knows",
    Fault.REBOOT: "the mower loses its power and is back",
    Fault.STUCK: "the mower stops with a fault",
    Fault.RAIN: "it rains",
    Fault.NO_RTK: "the satellites' corrections, or all of them, are gone",
}

RADIO_FAULTS = frozenset(list(Fault)[: list(Fault).index(Fault.REFUSED)])
NETWORK_FAULTS = frozenset({Fault.REFUSED, Fault.RESET_MID_ANSWER, Fault.HTTP_ERROR, Fault.GARBAGE})


def faults_of(links: Iterable[LinkKind]) -> tuple[Fault, ...]:
    """Those that a mower with such links can have: of its radio, its network, and of every machine."""
    kinds = frozenset(links)
    missing = (frozenset() if LinkKind.BLE in kinds else RADIO_FAULTS) | (
        frozenset() if kinds & {LinkKind.LAN, LinkKind.CLOUD} else NETWORK_FAULTS
    )
    return tuple(fault for fault in Fault if fault not in missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """An integration that is set up on a fresh emulated mower, which stands in its dock, and one fault of it."""

    integration: Integration
    begin: Callable[[], None]
    """It goes wrong from now on; called again, it goes wrong again."""
    begin_at_order: Callable[[], None] | None = None
    """The next order goes wrong in this way, and only that: for faults of a single request, which a poll would have
    used up before."""
    end: Callable[[], None]
    """All is well, and a person has done what it takes."""
    is_moving: Callable[[], bool]
    """Whether the emulated mower really moves now."""
    starts: Callable[[], int]
    """How often the emulated mower has heard an order to start."""
    secrets: tuple[str, ...] = ()
    """What must not be in any log, error or state."""
    is_silent: bool = False
    """Nothing can be known of the mower while it lasts."""
    tells_news_only: bool = False
    """The link reports what has changed, and is silent while nothing does."""


MakeBench = Callable[[IntegrationContext, Fault], AbstractAsyncContextManager[Bench]]
"""A fresh bench each time."""
