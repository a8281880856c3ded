"""Takes commands back that have not begun when whoever gave them loses the right.

The box admits a command once and may let it wait behind another; only the relay knows when its giver's role is taken,
their token revoked, their sign-in ended, or the mower moved out of their reach.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import structlog

from cloud_relay.commands.ledger import CommandLedger
from cloud_relay.commands.tenure import OpenCommand, Tenure
from cloud_relay.edges.signing_key import SigningKey
from core.domain.clock import Clock
from core.domain.errors import MowdeckError
from core.domain.ids import CommandId, EdgeId, MowerId
from core.sync.envelope import sign_cancel
from core.sync.messages import CancelEnvelope

log = structlog.get_logger(__name__)

PAGE = 500
"""Open commands that are looked at together."""

Publish = Callable[[EdgeId, MowerId, bytes], Awaitable[None]]
"""Hands a signed cancel to the broker; NotPublishedError when it did not take it."""


class Cancellations:
    """`run` is its life; `recheck` is for those who tell, after a commit, whose rights changed.

    Only asks: the row stays as it is until the box answers or it expires. Whatever is lost is cancelled again at each
    `check` while it is open, so `check` now and then makes up for a broker that was away, for a message that a box
    missed, and for a right whose end nobody tells. A cancel is idempotent and moves nothing.
    """

    def __init__(
        self,
        *,
        ledger: CommandLedger,
        tenure: Tenure,
        key: SigningKey,
        publish: Publish,
        clock: Clock,
        page: int = PAGE,
    ) -> None:
        self._ledger = ledger
        self._tenure = tenure
        self._key = key
        self._publish = publish
        self._clock = clock
        self._page = page
        self._touched: set[str] | None = set()
        self._is_touched = asyncio.Event()
        self._asked: set[CommandId] = set()
        """Cancelled and still open: what was said once in the log."""

    def recheck(self, touched: frozenset[str] | None) -> None:
        """These subjects, or sessions, may have lost something (None: anybody). Never waits."""
        if touched is None or self._touched is None:
            self._touched = None
        else:
            self._touched |= touched
        self._is_touched.set()

    async def run(self) -> None:
        """Until cancelled: checks as soon as it is told."""
        while True:
            await self._is_touched.wait()
            self._is_touched.clear()
            touched, self._touched = self._touched, set()
            try:
                await self.check(touched)
            except MowdeckError as err:
                log.warning("commands not checked yet", error=err.detail, code=err.code)
            except Exception:  # fire door: the next round, or the sweep, tries again
                log.exception("checking commands failed")

    async def check(self, touched: set[str] | None = None) -> None:
        """Looks at the open commands of these subjects and sessions (None: all) and cancels the lost ones.
        UnavailableError or StorageError when that cannot be told, NotPublishedError at the first cancel that the
        broker did not take."""
        seen: set[CommandId] = set()
        after: CommandId | None = None
        while True:
            page = await self._ledger.open(self._clock.now(), after=after, limit=self._page)
            seen.update(one.command_id for one in page)
            await self._cancel_lost([one for one in page if _is_touched(one, touched)])
            if len(page) < self._page:
                break
            after = page[-1].command_id
        self._asked &= seen

    async def _cancel_lost(self, commands: Sequence[OpenCommand]) -> None:
        lost = await self._tenure.losses(commands)
        for one in commands:
            reason = lost.get(one.command_id)
            if reason is not None:
                await self._cancel(one, reason)

    async def _cancel(self, command: OpenCommand, reason: str) -> None:
        cancel = CancelEnvelope(
            command_id=command.command_id,
            account_id=command.account_id,
            edge_id=command.edge_id,
            mower_id=command.mower_id,
            reason=reason,
            issued_at=self._clock.now(),
        )
        if command.command_id not in self._asked:
            self._asked.add(command.command_id)
            log.info("cancelling a command", command_id=command.command_id, mower_id=command.mower_id, reason=reason)
        await self._publish(command.edge_id, command.mower_id, sign_cancel(cancel, self._key.private, self._key.key_id))


def _is_touched(command: OpenCommand, touched: set[str] | None) -> bool:
    return touched is None or command.issued_by.subject in touched or command.session_id in touched
