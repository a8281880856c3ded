"""Says on the local network that there is a box (`_mowdeck._tcp.local.`), so that Home Assistant finds it by itself.

The record names the box's announced id, never a serial, a person or an account. A network that cannot be used never
stops the box: it is tried again.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog
from zeroconf import Error as ZeroconfError
from zeroconf import get_all_addresses  # type: ignore[attr-defined]
from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

_log = structlog.get_logger(__name__)

SERVICE_TYPE = "_mowdeck._tcp.local."
API_VERSION = "1"
RETRY_S = 60.0
REGISTER_DEADLINE_S = 20.0
LABEL_BYTES = 63
"""A DNS label is no longer."""

OpenZeroconf = Callable[[], AsyncZeroconf]
Pause = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """What the network may know of the box."""

    announced_id: str
    name: str
    version: str
    port: int
    tls: bool


def _own_addresses() -> list[str]:
    """IPv4 addresses of this machine, without loopback."""
    return [str(address) for address in get_all_addresses() if not str(address).startswith("127.")]


class Announcement:
    """Announces until cancelled, and takes the announcement back then."""

    def __init__(
        self,
        announced: Announced,
        *,
        open_zeroconf: OpenZeroconf = AsyncZeroconf,
        addresses: Callable[[], list[str]] = _own_addresses,
        pause: Pause = asyncio.sleep,
    ) -> None:
        self._announced = announced
        self._open_zeroconf = open_zeroconf
        self._addresses = addresses
        self._pause = pause
        self.problem: str | None = None
        """Why the box cannot be found on the network now."""

    async def run(self) -> None:
        """Announces, again and again if it has to be."""
        while True:
            try:
                await self._announce()
            except (OSError, ZeroconfError, TimeoutError) as err:
                if self.problem is None:
                    _log.warning("the box cannot be announced on the network", error=f"{type(err).__name__}: {err}")
                self.problem = f"{type(err).__name__}: {err}"
            await self._pause(RETRY_S)

    async def _announce(self) -> None:
        zeroconf = self._open_zeroconf()
        try:
            async with asyncio.timeout(REGISTER_DEADLINE_S):
                await (await zeroconf.async_register_service(self._info(), allow_name_change=True))
            self.problem = None
            _log.info("announced on the network", service=SERVICE_TYPE, port=self._announced.port)
            await asyncio.get_running_loop().create_future()
        finally:
            await zeroconf.async_unregister_all_services()
            await zeroconf.async_close()

    def _info(self) -> AsyncServiceInfo:
        announced = self._announced
        return AsyncServiceInfo(
            SERVICE_TYPE,
            f"{label_of(announced.name)}.{SERVICE_TYPE}",
            addresses=[socket.inet_aton(address) for address in self._addresses()],
            port=announced.port,
            properties={
                "id": announced.announced_id,
                "api": API_VERSION,
                "version": announced.version,
                "name": announced.name[:LABEL_BYTES],
                "tls": "1" if announced.tls else "0",
            },
            server=f"mowdeck-{announced.announced_id}.local.",
        )


def label_of(name: str) -> str:
    """A name as one DNS label: no dots, no control characters, at most 63 bytes of UTF-8."""
    clean = re.sub(r"[\x00-\x1f\x7f.]+", " ", name).strip() or "Mowdeck"
    return clean.encode()[:LABEL_BYTES].decode(errors="ignore").strip()
