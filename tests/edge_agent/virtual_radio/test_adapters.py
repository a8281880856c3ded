from __future__ import annotations

from pathlib import Path

import pytest

from core.domain.errors import AdapterOffError, InvalidInputError
from edge_agent.bluetooth.adapters import open_adapters


async def test_the_machines_own_in_their_order(tmp_path: Path) -> None:
    for name in ("hci10", "hci0", "hci0:64", "rfkill"):
        (tmp_path / name).mkdir()
    async with open_adapters(["auto", "hci0", "hci2"], sysfs=tmp_path) as adapters:
        assert [adapter.name for adapter in adapters] == ["hci0", "hci10", "hci2"]
    async with open_adapters(["auto"], sysfs=tmp_path / "none") as adapters:
        assert adapters == []


@pytest.mark.parametrize("text", ["", "eth0", "hci0;reboot", "virtual:", "virtual:tcp:10.0.0.1:9000"])
async def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError):
        async with open_adapters([text]):
            pass


async def test_a_virtual_radio_that_nobody_serves(tmp_path: Path) -> None:
    with pytest.raises(AdapterOffError):
        async with open_adapters([f"virtual:unix:{tmp_path}/none"]):
            pass
