"""The path over the local network: each request is a POST whose body is one line, and so is the answer's.

The mower answers 200 with an empty body to what it does not understand, which here is silence like any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp

from core.domain.errors import LinkLostError
from integrations.ardumower.line import Answer
from integrations.ardumower.protocol import Damage, LineReader, Reply

RESPONSE_BYTES = 32 * 1024


class HttpLine:
    """A Line. Nothing is kept open between requests: the firmware serves one client and closes."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def ask(self, request: bytes, name: str, deadline_s: float) -> Answer:
        try:
            async with asyncio.timeout(deadline_s):
                data = await self._post(request)
        except TimeoutError:
            return None
        except (aiohttp.ClientError, OSError, ValueError) as err:
            raise LinkLostError(f"the mower cannot be reached ({type(err).__name__})") from err
        reader = LineReader()
        return _pick([*reader.feed(data), *reader.close()], name)

    async def _post(self, request: bytes) -> bytes:
        # A redirect would carry a command to somebody else, and a kept connection could be one that is dying.
        async with self._session.post(
            self._url, data=request, allow_redirects=False, headers={"Connection": "close"}
        ) as response:
            if response.status != 200:
                raise LinkLostError(f"the mower answered with HTTP status {response.status}")
            data = bytearray()
            async for chunk in response.content.iter_chunked(4096):
                data += chunk
                if len(data) > RESPONSE_BYTES:
                    raise LinkLostError("the answer is too long for a mower's")
            return bytes(data)

    async def wait_closed(self) -> None:
        """Never: there is no connection that could end."""
        await asyncio.Event().wait()


def _pick(found: list[Reply | Damage], name: str) -> Answer:
    """The sound reply of that name, else damage if anything came at all."""
    for item in found:
        if isinstance(item, Reply) and item.name == name:
            return item
    return Damage(reason="another reply than the one asked for") if found else None


@asynccontextmanager
async def open_http_line(http: Callable[[], Awaitable[aiohttp.ClientSession]], url: str) -> AsyncIterator[HttpLine]:
    """A line to the mower at `url`; nothing is sent yet."""
    yield HttpLine(await http(), url)
