"""The web server's socket and the file that says where it is."""

from __future__ import annotations

import asyncio
import json
import os

import pytest
from aiohttp import web

from core.domain.errors import SettingsError
from core.web.serving import IDLE_S, announced, bind, serve, url_of


def test_free_port_is_told():
    with bind("127.0.0.1", 0, section="relay") as sock:
        assert url_of(sock) == f"http://127.0.0.1:{sock.getsockname()[1]}"


def test_all_addresses_are_told_as_loopback():
    with bind("0.0.0.0", 0, section="relay") as sock:
        assert url_of(sock).startswith("http://127.0.0.1:")


def test_taken_port_is_a_mistake_of_the_settings():
    with bind("127.0.0.1", 0, section="relay") as sock:
        sock.listen()
        with pytest.raises(SettingsError) as caught:
            bind("127.0.0.1", sock.getsockname()[1], section="relay")
    assert caught.value.mistakes[0].field == "MOWDECK_RELAY_LISTEN_PORT"


def test_address_of_somebody_else():
    with pytest.raises(SettingsError):
        bind("203.0.113.7", 0, section="relay")


def test_address_file_lives_as_long_as_the_relay(tmp_path):
    path = tmp_path / "relay.address"
    with announced(path, {"url": "http://127.0.0.1:1"}):
        assert json.loads(path.read_text()) == {"url": "http://127.0.0.1:1", "pid": os.getpid()}
    assert not path.exists()


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET /"])
async def test_a_connection_without_a_whole_request_is_closed(said):
    with bind("127.0.0.1", 0, section="relay") as sock:
        async with serve(web.Application(), sock, idle_s=0.1):
            reader, writer = await asyncio.open_connection(*sock.getsockname())
            writer.write(said)
            async with asyncio.timeout(5):
                await reader.read()
            writer.close()
            await writer.wait_closed()
    assert IDLE_S < 120


def test_a_disk_that_does_not_take_the_address_keeps_nobody_from_serving(tmp_path):
    served = False
    with announced(tmp_path / "absent" / "edge.address", {"url": "http://127.0.0.1:1"}):
        served = True
    assert served
