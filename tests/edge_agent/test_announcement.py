"""The announcement, on a real network interface (loopback)."""

from __future__ import annotations

import asyncio

import pytest
from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

from edge_agent.announcement import SERVICE_TYPE, Announced, Announcement, label_of

BOX = Announced(announced_id="abc123", name="Garden box", version="0.1.0", port=8123, tls=False)


def open_loopback() -> AsyncZeroconf:
    return AsyncZeroconf(interfaces=["127.0.0.1"])


async def test_it_can_be_found() -> None:
    announcement = Announcement(BOX, open_zeroconf=open_loopback, addresses=lambda: ["127.0.0.1"])
    async with asyncio.TaskGroup() as group:
        task = group.create_task(announcement.run())
        other = open_loopback()
        try:
            info = AsyncServiceInfo(SERVICE_TYPE, f"Garden box.{SERVICE_TYPE}")
            assert await info.async_request(other.zeroconf, 8_000)
        finally:
            await other.async_close()
        task.cancel()
    assert info.port == 8123
    assert info.decoded_properties == {
        "id": "abc123",
        "api": "1",
        "version": "0.1.0",
        "name": "Garden box",
        "tls": "0",
    }


async def test_a_network_that_cannot_be_used_is_tried_again() -> None:
    pauses: asyncio.Queue[float] = asyncio.Queue()

    def refuse() -> AsyncZeroconf:
        raise OSError("no such device")

    async def pause(seconds: float) -> None:
        await pauses.put(seconds)
        await asyncio.sleep(0)

    announcement = Announcement(BOX, open_zeroconf=refuse, pause=pause)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(announcement.run())
        assert [await pauses.get(), await pauses.get()] == [60.0, 60.0]
        assert announcement.problem == "OSError: no such device"
        task.cancel()


@pytest.mark.parametrize("name", ["", "a.b.c", "ü" * 100, "x\x00y", "." * 80])
def test_any_name_is_a_label(name: str) -> None:
    label = label_of(name)
    assert 0 < len(label.encode()) <= 63
    assert "." not in label
