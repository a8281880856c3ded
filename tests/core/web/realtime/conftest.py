"""The fixture of the realtime tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.core.web.realtime.world import Realtime, serving


@pytest.fixture
async def realtime() -> AsyncIterator[Realtime]:
    async with serving() as world:
        yield world
