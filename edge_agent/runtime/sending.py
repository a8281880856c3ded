"""Hands a command to one link, once, behind the fire door; and watches for its effect, whichever link shows it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from core.domain.commands import Command, is_confirmed, kind_of
from core.domain.errors import MowdeckError
from core.domain.ids import MowerId
from core.domain.mower import Connectivity, MowerState
from core.platform.integration import Outcome
from edge_agent.runtime.carrier import OpenLink
from edge_agent.runtime.leash import run_until
from edge_agent.runtime.live import LiveStates
from edge_agent.runtime.ticket import UNCONFIRMED, Ticket

_log = structlog.get_logger(__name__)

SEND_DEADLINE_S = 15.0
"""A link that has not said whether it handed the command over by then gets no more time."""


class Sender:
    """Keeps nothing; serves any number of tickets at once."""

    def __init__(self, *, live: LiveStates, send_deadline_s: float = SEND_DEADLINE_S) -> None:
        self._live = live
        self._send_deadline_s = send_deadline_s

    async def send(self, ticket: Ticket, link: OpenLink, leash: asyncio.Future[None]) -> Outcome | None:
        """What the mower said over this link; None when `leash` was done first. Any failure on the way is
        `unknown`: nobody can tell whether the mower heard it."""
        ticket.is_sent = True
        mower_id, command = ticket.envelope.mower_id, ticket.envelope.command
        where = f"{mower_id} send {kind_of(command)} over {link.kind}"
        try:
            outcome: object = await run_until(
                leash, lambda: link.link.send(command), where=where, deadline_s=self._send_deadline_s
            )
        except MowdeckError as err:
            _log.warning("sending failed", mower_id=mower_id, link=link.kind, code=err.code, detail=err.detail)
            return Outcome(kind="unknown", reason=err.detail or err.code)
        if outcome is None and leash.done():
            return None
        if isinstance(outcome, Outcome) and _is_sound(outcome):
            return outcome
        return Outcome(kind="unknown", reason=f"the link answered with a {type(outcome).__name__}")

    @contextmanager
    def watching(self, ticket: Ticket) -> Iterator[asyncio.Future[None]]:
        """A future that is done once a state that comes from now on shows the command's effect."""
        mower_id, command = ticket.envelope.mower_id, ticket.envelope.command
        before = self._live.get(mower_id)
        confirmed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def look(_: MowerId, state: MowerState) -> None:
            if not confirmed.done() and _shows(command, before, state):
                confirmed.set_result(None)

        undo = self._live.subscribe(look, only=mower_id)
        try:
            yield confirmed
        finally:
            undo()

    def shows_already(self, ticket: Ticket) -> bool:
        """Whether the newest state shows the effect."""
        state = self._live.get(ticket.envelope.mower_id)
        return state is not None and _shows(ticket.envelope.command, state, state)


def unconfirmed(reason: str | None) -> str:
    """The reason of a command whose effect was not seen, with what the link said."""
    return UNCONFIRMED if reason is None else f"{UNCONFIRMED}: {reason}"


def _is_sound(outcome: Outcome) -> bool:
    """Whether a plugin filled its answer as declared."""
    kind: object = outcome.kind
    reason: object = outcome.reason
    return kind in ("accepted", "refused", "unknown") and (reason is None or isinstance(reason, str))


def _shows(command: Command, before: MowerState | None, after: MowerState) -> bool:
    """Whether a state confirms the command; one of a mower that is out of reach confirms nothing."""
    return after.connectivity is not Connectivity.OFFLINE and is_confirmed(command, before, after)
