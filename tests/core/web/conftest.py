"""A world for the web tests: fakes behind the ports, and real servers and clients on port 0."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.core.web.world import World, serving
from tests.fakes.authorizer import FakeAuthorizer
from tests.fakes.clock import ManualClock
from tests.fakes.tokens import FakeVerifier


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def verifier() -> FakeVerifier:
    return FakeVerifier()


@pytest.fixture
def authorizer() -> FakeAuthorizer:
    return FakeAuthorizer()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with serving(tmp_path) as running:
        yield running
