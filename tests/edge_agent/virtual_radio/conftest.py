"""A virtual radio in virtual time; the tests of several processes take the time they take."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from edge_agent.virtual_radio.air import VirtualAir
from tests.fakes.warp_loop import WarpLoop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, type[asyncio.AbstractEventLoop]]:
    is_real = item.path.name == "test_processes.py"
    return {"real": asyncio.SelectorEventLoop} if is_real else {"warp": WarpLoop}


@pytest.fixture
async def air() -> AsyncIterator[VirtualAir]:
    async with VirtualAir(seed=7) as radio:
        yield radio
