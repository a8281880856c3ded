"""A track as a file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from core.domain.errors import StorageError
from core.web.streamed import Streamed, send_streamed
from core.web.tracing import CORRELATION
from core.web.track_routes import PIECE_ROWS, accepted_format
from tests.core.web.test_telemetry_routes import record, state
from tests.core.web.world import STRANGER, World, problem
from tests.fakes.clock import START


@pytest.mark.parametrize(
    ("kind", "media", "begin"),
    [
        ("csv", "text/csv", b"observed_at,"),
        ("gpx", "application/gpx+xml", b"<?xml"),
        ("geojson", "application/geo+json", b'{"type":"FeatureCollection"'),
    ],
)
async def test_a_whole_track_as_a_file(world: World, kind: str, media: str, begin: bytes) -> None:
    count = PIECE_ROWS + 5
    world.clock.advance(count)
    await record(world, *(state(START + timedelta(seconds=n), n) for n in range(count)))
    answer = await world.get("/telemetry/mowers/front/positions", params={"format": kind})
    assert (answer.status, answer.content_type) == (200, media)
    assert answer.headers["Content-Disposition"].startswith('attachment; filename="track-front-')
    assert answer.headers["Content-Disposition"].endswith(f'.{kind}"')
    assert (answer.headers["Cache-Control"], answer.headers["X-Content-Type-Options"]) == ("no-store", "nosniff")
    body = await answer.read()
    assert body.startswith(begin)
    assert body.count(b"2026-06-01T08:") + body.count(b"2026-06-01T09:") == count
    by_accept = await world.client.get(
        "/api/v1/telemetry/mowers/front/positions",
        headers={"Accept": media, "Authorization": answer.request_info.headers["Authorization"]},
    )
    assert await by_accept.read() == body


async def test_a_foreign_track_is_no_file_either(world: World) -> None:
    answer = await world.get("/telemetry/mowers/front/positions", STRANGER, params={"format": "csv"})
    assert (await problem(answer)).code == "not-found"
    assert (await world.get("/telemetry/mowers/front/positions", params={"format": "kml"})).status == 422


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", "json"),
        ("*/*", "json"),
        ("text/html, application/xml", "json"),
        ("text/csv", "csv"),
        ("application/json;q=0.5, application/gpx+xml", "gpx"),
        ("application/geo+json;q=0.1, application/json", "json"),
        ("text/csv;q=0, */*;q=0.1", "json"),
        ("text/csv;q=x", "json"),
    ],
)
def test_the_format_that_is_liked_best(accept: str, kind: str) -> None:
    assert accepted_format(accept) == kind


async def serve_pieces(pieces: AsyncGenerator[bytes, None], *, deadline_s: float = 10) -> TestClient[Any, Any]:
    async def handle(request: web.Request) -> web.StreamResponse:
        request[CORRELATION] = "c"
        streamed = Streamed(pieces=pieces, content_type="text/csv", file_name="a.csv")
        return await send_streamed(streamed, request, deadline_s=deadline_s)

    app = web.Application()
    app.router.add_get("/", handle)
    client: TestClient[Any, Any] = TestClient(TestServer(app))
    await client.start_server()
    return client


async def test_half_a_file_is_never_taken_for_a_whole_one() -> None:
    async def pieces() -> AsyncGenerator[bytes, None]:
        yield b"half"
        raise StorageError("the disk")

    client = await serve_pieces(pieces())
    try:
        answer = await client.get("/")
        with pytest.raises(aiohttp.ClientError):
            await answer.read()
    finally:
        await client.close()


async def test_a_piece_that_never_comes_ends_the_answer() -> None:
    is_closed = False

    async def pieces() -> AsyncGenerator[bytes, None]:
        nonlocal is_closed
        try:
            yield b"half"
            await asyncio.Event().wait()
        finally:
            is_closed = True

    client = await serve_pieces(pieces(), deadline_s=0.05)
    try:
        answer = await client.get("/")
        with pytest.raises(aiohttp.ClientError):
            await answer.read()
    finally:
        await client.close()
    assert is_closed
