"""Carries out an emergency stop: over every link that is up, at once. The first acceptance wins.

Stopping twice does no harm, so nothing is spared: each link gets it, and once more when it may not have been heard.
What the other links make of it is noted, and holds up the next command only for a moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import structlog

from core.domain.clock import Clock
from core.domain.commands import CommandStatus, confirm_timeout_s
from core.platform.integration import Outcome
from edge_agent.runtime.carrier import OpenLink, able_links
from edge_agent.runtime.drive import Conclude, FindLinks
from edge_agent.runtime.sending import Sender, unconfirmed
from edge_agent.runtime.ticket import Ticket

_log = structlog.get_logger(__name__)

STOP_TRIES = 2
"""How often one link gets a stop that it may not have heard."""
GRACE_S = 2.0
"""How long a link that has not answered yet is waited for once the mower was seen to stand."""

_Sends = dict["asyncio.Task[Outcome | None]", OpenLink]
Verdict = tuple[CommandStatus, str | None]


class Stopping:
    """Stateless but for its collaborators; `run` may serve several tickets at once."""

    def __init__(self, *, clock: Clock, sender: Sender, find_links: FindLinks, conclude: Conclude) -> None:
        self._clock = clock
        self._sender = sender
        self._find_links = find_links
        self._conclude = conclude

    async def run(self, ticket: Ticket) -> None:
        """Sends first, and writes it down while it is on its way. At least one link that can stop is up."""
        mower_id = ticket.envelope.mower_id
        leash: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._sender.watching(ticket) as confirmed:
            async with asyncio.TaskGroup() as group:
                sends: _Sends = {
                    group.create_task(self._send(ticket, link, leash), name=f"stop {mower_id} {link.kind}"): link
                    for link in able_links(ticket.envelope.command, self._find_links(mower_id))
                }
                judging = group.create_task(self._judge(ticket, sends, confirmed), name=f"stopped? {mower_id}")
                await asyncio.sleep(0)  # the sends are under way before the disk is touched
                await self._conclude(ticket, CommandStatus.ACCEPTED, None)
                status, reason = await judging
                await self._conclude(ticket, status, reason)
                if status is CommandStatus.EXECUTED:
                    await asyncio.wait(sends, timeout=GRACE_S)
                elif not ticket.is_cancelled:
                    await asyncio.wait(sends)
                leash.set_result(None)
        _note_failures(ticket, sends)

    async def _send(self, ticket: Ticket, link: OpenLink, leash: asyncio.Future[None]) -> Outcome | None:
        outcome: Outcome | None = None
        for _ in range(STOP_TRIES):
            now_open = (found for found in self._find_links(ticket.envelope.mower_id) if found.key == link.key)
            outcome = await self._sender.send(ticket, next(now_open, link), leash)
            if outcome is None or outcome.kind == "accepted" or self._clock.monotonic() >= ticket.deadline:
                break
        return outcome

    async def _judge(self, ticket: Ticket, sends: _Sends, confirmed: asyncio.Future[None]) -> Verdict:
        """The first link that takes it, then the mower's own state, say what became of it."""
        waiting = set(sends)
        while waiting and not _find_heard(sends) and not ticket.is_cancelled:
            news: set[asyncio.Future[Any]] = {*waiting, ticket.cancelled}
            await asyncio.wait(news, return_when=asyncio.FIRST_COMPLETED)
            waiting = {task for task in waiting if not task.done()}
        if ticket.is_cancelled:
            return CommandStatus.FAILED, ticket.cancel_reason
        heard = _find_heard(sends)
        if heard is not None and self._sender.shows_already(ticket):
            return CommandStatus.EXECUTED, _failures(sends)
        outcomes = [task.result() for task in sends if task.done()]
        if heard is None and all(outcome is not None and outcome.kind == "refused" for outcome in outcomes):
            return CommandStatus.FAILED, _failures(sends) if len(sends) > 1 else _why(outcomes[0])
        timeout_s = _confirm_timeout_s(ticket, [heard] if heard is not None else list(sends.values()))
        await asyncio.wait({confirmed, ticket.cancelled}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if confirmed.done():
            return CommandStatus.EXECUTED, _failures(sends)
        if ticket.is_cancelled:
            return CommandStatus.FAILED, ticket.cancel_reason
        only = outcomes[0] if len(sends) == 1 else None
        return CommandStatus.FAILED, unconfirmed(only.reason if only is not None else _doubts(sends))


def _find_heard(sends: _Sends) -> OpenLink | None:
    """A link over which the mower has taken it."""
    taken = (task for task in sends if task.done() and not task.cancelled())
    return next((sends[task] for task in taken if (found := task.result()) and found.kind == "accepted"), None)


def _failures(sends: _Sends) -> str | None:
    """Over which of several links it was not taken, as far as is known."""
    if len(sends) < 2:
        return None
    done = [(link, task.result()) for task, link in sends.items() if task.done() and not task.cancelled()]
    failed = [f"{link.kind}: {_why(found)}" for link, found in done if found is not None and found.kind != "accepted"]
    return f"not over {', '.join(failed)}" if failed else None


def _doubts(sends: _Sends) -> str | None:
    """`_failures`, and over which links it is still being told."""
    under_way = [str(link.kind) for task, link in sends.items() if not task.done()]
    parts = [_failures(sends), f"still being told over {', '.join(under_way)}" if under_way else None]
    return "; ".join(part for part in parts if part) or None


def _why(outcome: Outcome | None) -> str:
    reason = None if outcome is None else outcome.reason
    return reason or ("the mower refused" if outcome is not None and outcome.kind == "refused" else "no answer")


def _confirm_timeout_s(ticket: Ticket, links: Sequence[OpenLink]) -> float:
    return max(confirm_timeout_s(ticket.envelope.command, link.capabilities) or 0.0 for link in links)


def _note_failures(ticket: Ticket, sends: _Sends) -> None:
    failures = _failures(sends)
    if failures is not None:
        _log.warning("an emergency stop was not taken by every link", mower_id=ticket.envelope.mower_id, links=failures)
