"""An answer that is sent piece by piece, as a file to keep: no more than one piece is in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

import structlog
from aiohttp import web

from core.domain.errors import MowdeckError, UnavailableError
from core.web.tracing import CORRELATION, CORRELATION_HEADER, secure

_log = structlog.get_logger(__name__)

PIECE_DEADLINE_S = 60.0
"""A piece that is not made and taken within this ends the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """A handler's answer. `file_name` has only characters that a header takes as they are."""

    pieces: AsyncGenerator[bytes, None]
    content_type: str
    file_name: str


async def send_streamed(
    answer: Streamed, raw: web.Request, *, deadline_s: float = PIECE_DEADLINE_S
) -> web.StreamResponse:
    """Sends it. An error before the first piece is answered as any other; after that the connection is cut, so that
    nobody takes half a file for a whole one."""
    async with aclosing(answer.pieces) as pieces:
        try:
            async with asyncio.timeout(deadline_s):
                first = await anext(pieces, b"")
        except TimeoutError as err:
            raise UnavailableError(f"no answer within {deadline_s:.0f} s") from err
        response = web.StreamResponse()
        response.headers["Content-Type"] = answer.content_type
        response.headers["Content-Disposition"] = f'attachment; filename="{answer.file_name}"'
        response.headers[CORRELATION_HEADER] = raw[CORRELATION]
        secure(raw, response)
        await response.prepare(raw)
        if raw.method == "HEAD":
            return response
        is_whole = False
        try:
            await response.write(first)
            await _send_rest(pieces, response, deadline_s)
            is_whole = True
        except (ConnectionError, TimeoutError, MowdeckError) as err:
            _log.warning("a file was cut off", file=answer.file_name, reason=str(err) or type(err).__name__)
        finally:
            if not is_whole and raw.transport is not None:
                raw.transport.abort()
    return response


async def _send_rest(pieces: AsyncGenerator[bytes, None], response: web.StreamResponse, deadline_s: float) -> None:
    while True:
        async with asyncio.timeout(deadline_s):
            piece = await anext(pieces, None)
            if piece is None:
                await response.write_eof()
                return
            if piece:
                await response.write(piece)
