"""The proxy of `mowdeck emulate --proxy`."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.domain.errors import InvalidInputError
from edge_agent.virtual_radio.emulation import open_proxy
from edge_agent.virtual_radio.radio_spec import RadioSpec
from tests.edge_agent.proxies.conftest import KEY, World
from tests.edge_agent.virtual_radio.echo_mower import ADDRESS, NAME, EchoMower


async def test_it_is_joined_with_the_key_of_its_file(world: World, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(KEY + "\n")
    await world.air.add_peer(EchoMower())
    async with open_proxy(world.air, RadioSpec(), file) as proxy:
        await world.start()
        status = await world.join(proxy, KEY)
        assert status.source is not None
        await world.heard_by(ADDRESS, status.source)
        async with world.service.connect(ADDRESS) as connection:
            assert await connection.read(NAME) == b"Echo"


@pytest.mark.parametrize("key", [None, "nonsense"])
async def test_a_key_that_is_none_is_said(world: World, tmp_path: Path, key: str | None) -> None:
    file = tmp_path / "key"
    if key is not None:
        file.write_text(key)
    with pytest.raises(InvalidInputError):
        async with open_proxy(world.air, RadioSpec(), file):
            pass


async def test_a_proxy_is_reached_over_tcp_only(world: World) -> None:
    with pytest.raises(InvalidInputError, match="TCP"):
        async with open_proxy(world.air, RadioSpec(path="/tmp/radio"), None):
            pass
