"""ESPHome devices that the home network knows (zeroconf): offered to a person, never joined by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

import structlog
from zeroconf import Error as ZeroconfError
from zeroconf import ServiceStateChange, Zeroconf
from zeroconf.asyncio import AsyncServiceBrowser, AsyncServiceInfo, AsyncZeroconf

log = structlog.get_logger(__name__)

SERVICE_TYPE = "_esphomelib._tcp.local."
OFFERS_MAX = 64
TEXT_MAX = 64
RETRY_S = 60.0
ASK_DEADLINE_S = 5.0

OpenZeroconf = Callable[[], AsyncZeroconf]
Pause = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A device that may be added. `host` is its name in the network, which outlives a new address."""

    name: str
    host: str
    port: int
    is_encrypted: bool
    is_proxy: bool
    """Whether it says that it is a Bluetooth proxy. Many that are one say nothing."""
    addresses: tuple[str, ...] = ()

    def is_at(self, hosts: Collection[tuple[str, int]]) -> bool:
        """Whether it is one of these, by name or address."""
        return any((host, self.port) in hosts for host in (self.host, *self.addresses))


class ProxyOffers:
    """`run` is its life."""

    def __init__(self, *, open_zeroconf: OpenZeroconf = AsyncZeroconf, pause: Pause = asyncio.sleep) -> None:
        self._open_zeroconf = open_zeroconf
        self._pause = pause
        self._offers: dict[str, Offer] = {}
        self._news: asyncio.Queue[tuple[str, bool]] = asyncio.Queue(OFFERS_MAX)

    def offers(self) -> list[Offer]:
        """Those that say that they are proxies first."""
        return sorted(self._offers.values(), key=lambda offer: (not offer.is_proxy, offer.name))

    async def run(self) -> None:
        """Browses until cancelled; a network that cannot be used is tried again."""
        was_told = False
        while True:
            try:
                await self._browse()
            except (OSError, ZeroconfError, TimeoutError) as err:
                if not was_told:
                    log.warning("proxies in the network cannot be found", error=f"{type(err).__name__}: {err}")
                was_told = True
            self._offers.clear()
            await self._pause(RETRY_S)

    async def _browse(self) -> None:
        zeroconf = self._open_zeroconf()
        browser = None
        try:
            browser = AsyncServiceBrowser(zeroconf.zeroconf, SERVICE_TYPE, handlers=[self._changed])
            while True:
                name, is_gone = await self._news.get()
                if is_gone:
                    self._offers.pop(name, None)
                elif name in self._offers or len(self._offers) < OFFERS_MAX:
                    await self._ask(zeroconf.zeroconf, name)
        finally:
            if browser is not None:
                await browser.async_cancel()
            await zeroconf.async_close()

    def _changed(self, zeroconf: Zeroconf, service_type: str, name: str, state_change: ServiceStateChange) -> None:  # noqa: ARG002  (called by keyword)
        if not self._news.full():  # a flood: the next announcement of a device brings it again
            self._news.put_nowait((name, state_change is ServiceStateChange.Removed))

    async def _ask(self, zeroconf: Zeroconf, name: str) -> None:
        info = AsyncServiceInfo(SERVICE_TYPE, name)
        if await info.async_request(zeroconf, ASK_DEADLINE_S * 1000):
            offer = offer_of(info)
            if offer is not None:
                self._offers[name] = offer


def offer_of(info: AsyncServiceInfo) -> Offer | None:
    """What a device says of itself; None when it says too little."""
    if info.server is None or info.port is None:
        return None
    said = {key: _clean(value or "") for key, value in info.decoded_properties.items()}
    label = info.name.removesuffix(f".{SERVICE_TYPE}")
    project = said.get("project_name", "")
    return Offer(
        name=said.get("friendly_name") or _clean(label),
        host=info.server.rstrip(".").lower(),
        port=info.port,
        is_encrypted=bool(said.get("api_encryption")),
        is_proxy="bluetooth-proxy" in project or said.get("bluetooth_proxy", "").lower() in ("1", "true", "yes"),
        addresses=tuple(info.parsed_addresses()),
    )


def _clean(text: str) -> str:
    """A stranger's words: short, and nothing that steers a terminal."""
    return "".join(mark for mark in text if mark.isprintable())[:TEXT_MAX]
