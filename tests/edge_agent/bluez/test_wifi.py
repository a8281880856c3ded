from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.bluez.wifi import decode_frequency_mhz, linked_interfaces, read_frequency_mhz, uses_wifi_24_ghz

HEAD = """Inter-| sta-|   Quality        |   Discarded packets               | Missed | WE
 face | tus | link level noise |  nwid  crypt   frag  retry   misc | beacon | 22
"""
LINKED = " wlan0: 0000   58.  -52.  -256        0      0      0      0      0        0\n"
IDLE = " wlan1: 0000    0.    0.     0        0      0      0      0      0        0\n"


def machine(folder: Path, wireless: str | None, **interfaces: str) -> dict[str, Path]:
    net, proc = folder / "net", folder / "wireless"
    net.mkdir()
    for name, operstate in interfaces.items():
        (net / name).mkdir()
        (net / name / "operstate").write_text(operstate + "\n")
        if name.startswith("wl"):
            (net / name / "phy80211").mkdir()
    if wireless is not None:
        proc.write_text(wireless)
    return {"net": net, "proc": proc}


@pytest.mark.parametrize(
    ("wireless", "state", "mhz", "uses"),
    [
        (HEAD + LINKED + IDLE, "up", 2437.0, True),
        (HEAD + LINKED, "up", 5180.0, False),
        (HEAD + LINKED, "up", None, None),
        (HEAD, "up", 2437.0, None),  # a driver that this file does not list
        (None, "up", 2437.0, None),
        (HEAD + IDLE, "down", 2437.0, False),
        (None, "down", None, False),
    ],
)
def test_unknown_is_unknown(tmp_path: Path, wireless: str | None, state: str, mhz: float | None, uses: object) -> None:
    files = machine(tmp_path, wireless, wlan0=state, eth0="up")
    assert uses_wifi_24_ghz(**files, frequency_of=lambda _name: mhz) is uses  # type: ignore[arg-type]


def test_a_machine_that_tells_nothing(tmp_path: Path) -> None:
    assert uses_wifi_24_ghz(net=tmp_path / "none", proc=tmp_path / "none") is None
    assert read_frequency_mhz("nowhere0") is None


def test_frequencies_as_the_kernel_writes_them() -> None:
    def answer(mantissa: int, exponent: int) -> bytes:
        return struct.pack("16sihBB", b"wlan0", mantissa, exponent, 0, 0).ljust(32, b"\0")

    assert decode_frequency_mhz(answer(2437, 6)) == pytest.approx(2437.0)
    assert decode_frequency_mhz(answer(243_700_000, 1)) == pytest.approx(2437.0)
    assert decode_frequency_mhz(answer(6, 0)) == pytest.approx(2437.0)
    assert decode_frequency_mhz(answer(0, 0)) is None


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    assert linked_interfaces(HEAD + text.replace("wlan0", "")) >= set()
    assert "wlan0" in linked_interfaces(HEAD + LINKED + text)
