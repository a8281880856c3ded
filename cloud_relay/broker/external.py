"""A Mosquitto that somebody else runs: the relay manages its boxes through the dynamic security plugin."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

import structlog

from cloud_relay.broker.dynamic_security import ANSWER_S, DynamicSecurity
from core.domain.errors import InvalidInputError, UnauthenticatedError, UnavailableError
from core.domain.ids import EdgeId, is_safe_id
from core.mqtt.session import BrokerAddress, Credential, MqttSession, open_session
from core.sync import linking
from core.sync.backoff import Backoff

T = TypeVar("T")

_RETRY_FIRST_S = 1.0
_RETRY_MAX_S = 60.0

_log = structlog.get_logger(__name__)


class ExternalMosquitto:
    """The broker at `address`, where `credential` is an admin of dynamic security and the relay's own user."""

    def __init__(
        self,
        *,
        address: BrokerAddress,
        credential: Credential,
        advertised: linking.BrokerAddress,
        random_number: Callable[[], float] = random.random,
        answer_s: float = ANSWER_S,
    ) -> None:
        self._address = address
        self._credential = credential
        self._advertised = advertised
        self._random = random_number
        self._ready = asyncio.Event()
        self._lock = asyncio.Lock()
        self._security = DynamicSecurity(self._connect, answer_s=answer_s)

    @property
    def address(self) -> BrokerAddress:
        return self._address

    @property
    def advertised(self) -> linking.BrokerAddress:
        return self._advertised

    @property
    def relay_credential(self) -> Credential:
        return self._credential

    async def wait_ready(self) -> None:
        await self._ready.wait()

    async def run(self) -> None:
        """Gives the relay's user its rights as soon as the broker can be reached; there is nothing to supervise."""
        backoff = Backoff(_RETRY_FIRST_S, _RETRY_MAX_S, random=self._random)
        while not self._ready.is_set():
            try:
                async with self._lock:
                    await self._security.set_up_relay(self._credential.username)
            except (UnavailableError, UnauthenticatedError) as err:
                delay_s = backoff.next_s()
                _log.error("broker not usable yet", error=err.detail, hint=err.advice, delay_s=round(delay_s, 1))
                await asyncio.sleep(delay_s)
            else:
                self._ready.set()
                _log.info("broker ready", host=self._address.host, port=self._address.port)
        await asyncio.get_running_loop().create_future()

    async def put_edge(self, edge_id: EdgeId, password: str) -> None:
        if not is_safe_id(edge_id) or edge_id == self._credential.username:
            raise InvalidInputError.of("edge_id", "cannot be a user name of the broker")
        async with self._lock:
            await _told(self._security.put_edge(edge_id, password))

    async def remove_edge(self, edge_id: EdgeId) -> None:
        if edge_id == self._credential.username:
            return
        async with self._lock:
            await _told(self._security.remove_edges([edge_id]))

    async def sync_edges(self, edges: Mapping[EdgeId, str | None]) -> frozenset[EdgeId]:
        """The plugin keeps the passwords itself and takes no hashes, so the values of `edges` are not used."""
        async with self._lock:
            known = await _told(self._security.edges())
            gone = sorted(known - edges.keys())
            await _told(self._security.remove_edges(gone))
        if gone:
            _log.info("boxes removed from the broker", count=len(gone))
        return frozenset(edges.keys() - known)

    def _connect(self) -> AbstractAsyncContextManager[MqttSession]:
        return open_session(self._address, self._credential)


async def _told(asking: Awaitable[T]) -> T:
    """Refused credentials of the relay's own are the broker's failure, not the caller's."""
    try:
        return await asking
    except UnauthenticatedError as err:
        raise UnavailableError("the broker refuses the relay's own credential") from err
