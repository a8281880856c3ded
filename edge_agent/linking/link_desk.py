"""The box's link as a person meets it: none, waiting for a code to be confirmed, linked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import Literal

import aiohttp
import msgspec
import structlog

from core.domain.clock import Clock
from core.domain.errors import ConflictError, InvalidInputError, MowdeckError, StorageError
from core.domain.ids import EdgeId
from core.sync.linking import LinkEnd, LinkGrant, LinkOffer, LinkPending, LinkRequest
from edge_agent.linking.link_grant import check_grant
from edge_agent.linking.link_store import LinkStore, StoredLink
from edge_agent.linking.relay_client import INTERVAL_MAX_S, RelayClient, check_relay_url

log = structlog.get_logger(__name__)

SLOW_DOWN_S = 5.0
OpenSession = Callable[[], AbstractAsyncContextManager[aiohttp.ClientSession]]


class LinkView(msgspec.Struct, frozen=True, kw_only=True):
    """The link as the API shows it; never a secret."""

    status: Literal["unlinked", "waiting", "linked"]
    relay_url: str | None = None
    edge_id: EdgeId | None = None
    linked_at: datetime | None = None
    user_code: str | None = None
    verification_uri: str | None = None
    verification_uri_complete: str | None = None
    expires_at: datetime | None = None
    problem: str | None = None
    """Why the last attempt came to nothing."""


class LinkDesk:
    """Asks for a link, waits for its confirmation in its own `run`, keeps it, ends it.

    `before_link` is awaited before a new link is kept: the journal begins a new stream there, so that the next relay
    gets all that the box has, whatever the one before has acknowledged.
    """

    def __init__(
        self,
        store: LinkStore,
        *,
        name: str,
        version: str,
        clock: Clock,
        open_session: OpenSession,
        before_link: Callable[[], Awaitable[object]],
        on_change: Callable[[StoredLink | None], None],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._name = name
        self._version = version
        self._clock = clock
        self._open_session = open_session
        self._before_link = before_link
        self._on_change = on_change
        self._sleep = sleep
        self._link = store.link()
        self._waiting: tuple[str, LinkOffer, datetime] | None = None
        self._problem: str | None = None
        self._asked = asyncio.Event()
        self._gate = asyncio.Lock()

    @property
    def link(self) -> StoredLink | None:
        """The link that holds now."""
        return self._link

    def view(self) -> LinkView:
        """What to show."""
        if self._link is not None:
            grant = self._link.grant
            return LinkView(
                status="linked",
                relay_url=grant.relay_url,
                edge_id=grant.edge_id,
                linked_at=self._link.linked_at,
                problem=self._problem,
            )
        if self._waiting is not None:
            relay_url, offer, expires_at = self._waiting
            return LinkView(
                status="waiting",
                relay_url=relay_url,
                user_code=offer.user_code,
                verification_uri=offer.verification_uri,
                verification_uri_complete=offer.verification_uri_complete,
                expires_at=expires_at,
            )
        return LinkView(status="unlinked", problem=self._problem)

    async def start(self, relay_url: str) -> LinkView:
        """Asks the relay for a code; a code asked for earlier is forgotten. ConflictError while linked."""
        url = check_relay_url(relay_url)
        async with self._gate:
            if self._link is not None:
                raise ConflictError(
                    f"this box is linked to {self._link.grant.relay_url}", hint="End that link first, on either side."
                )
            request = LinkRequest(
                name=self._name, version=self._version, fingerprint=self._store.identity().fingerprint
            )
            async with self._open_session() as session:
                offer = await RelayClient(session, url).ask(request)
            self._waiting = (url, offer, self._clock.now() + timedelta(seconds=offer.expires_in))
            self._problem = None
            self._asked.set()
            log.info("link asked for", relay_url=url, expires_in_s=offer.expires_in)
            return self.view()

    async def end(self, *, by_relay: bool = False) -> None:
        """Ends the link (or stops waiting for one). The box forgets its credential even when the relay cannot be
        told; the relay then shows it as offline until it is removed there."""
        async with self._gate:
            self._waiting = None
            link, self._link = self._link, None
            if link is None:
                return
            self._problem = "the relay ended the link" if by_relay else None
            self._on_change(None)  # first, and whatever the disk says: nobody may command over this link any more
            try:
                self._store.drop_link()
            except StorageError as err:
                self._problem = f"ended, but its file is still there: {err.detail}"
            log.info("link ended", by_relay=by_relay, edge_id=link.grant.edge_id)
            if by_relay:
                return
            try:
                async with self._open_session() as session:
                    client = RelayClient(session, link.grant.relay_url)
                    await client.end(LinkEnd(edge_id=link.grant.edge_id, credential=link.grant.credential))
            except MowdeckError as err:
                self._problem = f"ended here, but the relay could not be told: {err.detail}"

    async def run(self) -> None:
        """Polls for every code that is asked for, until cancelled."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            waiting = self._waiting
            if waiting is None:
                continue
            try:
                await self._await_confirmation()
            except Exception:  # fire door: what a relay answers must not end the box
                log.exception("waiting for the link broke")
                self._give_up(waiting, "a defect of the box; see its log")

    async def _await_confirmation(self) -> None:
        waiting = self._waiting
        if waiting is None:
            return
        relay_url, offer, expires_at = waiting
        interval_s = float(offer.interval)
        async with self._open_session() as session:
            client = RelayClient(session, relay_url)
            while self._waiting is waiting:
                await self._sleep(interval_s)
                if self._waiting is not waiting:
                    return
                if self._clock.now() >= expires_at:
                    self._give_up(waiting, "the code was not confirmed in time")
                    return
                try:
                    answer = await client.poll(offer.device_code)
                    if isinstance(answer, LinkGrant):
                        await self._accept(waiting, answer)
                        return
                except MowdeckError as err:  # until the box has connected, the relay tells the link again
                    log.info("polling for the link failed, trying again", error=err.detail)
                    continue
                interval_s = self._next_interval(waiting, answer, interval_s)

    def _next_interval(self, waiting: object, answer: LinkPending, interval_s: float) -> float:
        match answer.error:
            case "slow_down":
                return float(min(max(interval_s + SLOW_DOWN_S, answer.interval), INTERVAL_MAX_S))
            case "expired_token":
                self._give_up(waiting, "the code was not confirmed in time")
            case "access_denied":
                self._give_up(waiting, "the link was refused on the relay")
            case "authorization_pending":
                pass
        return interval_s

    def _give_up(self, waiting: object, reason: str) -> None:
        if self._waiting is waiting:
            self._waiting = None
            self._problem = reason
            log.info("link not made", reason=reason)

    async def _accept(self, waiting: object, grant: LinkGrant) -> None:
        async with self._gate:
            if self._waiting is not waiting:
                return
            try:
                check_grant(grant)
            except InvalidInputError as err:
                self._give_up(waiting, f"what the relay granted cannot be used ({err.detail})")
                return
            await self._before_link()
            link = StoredLink(grant=grant, linked_at=self._clock.now())
            self._store.put_link(link)
            self._link, self._waiting, self._problem = link, None, None
            log.info("linked", relay_url=grant.relay_url, edge_id=grant.edge_id)
            self._on_change(link)
