"""Fixtures of the relay's tests."""

from __future__ import annotations

import pytest

from tests.cloud_relay.relay_parts import relay_parts


@pytest.fixture
async def parts(tmp_path):
    async with relay_parts(tmp_path) as made:
        yield made
