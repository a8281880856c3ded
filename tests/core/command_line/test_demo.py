"""What a demo keeps in its folder from one run to the next."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.command_line.demo import FREE_PORTS, keep_relay_ports, relay_ports
from core.command_line.host_process import HostProcess


def test_the_relay_comes_back_where_its_box_looks_for_it(tmp_path: Path):
    assert relay_ports(tmp_path) == FREE_PORTS
    relay = HostProcess("relay", tmp_path / "relay", {})
    relay.address = {"url": "http://127.0.0.1:8480", "broker": {"port": 8883}}
    keep_relay_ports(tmp_path, relay)
    assert relay_ports(tmp_path) == {"listen_port": "8480", "broker_port": "8883"}


@pytest.mark.parametrize("damaged", [b"", b"\xff", b"[]", b'{"listen_port": 7}'])
def test_damaged_ports_are_free_ones(tmp_path: Path, damaged: bytes):
    (tmp_path / "ports.json").write_bytes(damaged)
    assert relay_ports(tmp_path) == FREE_PORTS
