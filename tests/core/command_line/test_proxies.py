"""`mowdeck ble proxies` against a host that plays along."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.core.command_line.conftest import Terminal
from tests.core.command_line.fake_host import FakeHost

KEY = "bW93ZGVjayBwcm94eSBrZXkgb2YgMzIgYnl0ZXMgISE="
SHED: dict[str, Any] = {
    "proxy_id": "01ABC",
    "host": "10.0.0.9",
    "port": 6053,
    "is_encrypted": True,
    "state": "connected",
    "reason": None,
    "hint": None,
    "name": "[b]Shed",
    "source": "proxy-1",
    "firmware": "2026.9.1",
    "slots": 3,
    "slots_free": 2,
}
SICK = {
    **SHED,
    "proxy_id": "01DEF",
    "host": "hall.local",
    "name": None,
    "state": "wrong_key",
    "reason": "it refuses the encryption key",
    "hint": "Copy the key.",
    "slots": None,
    "slots_free": None,
}
OFFER = {"name": "Attic", "host": "attic.local", "port": 6054, "is_encrypted": False, "is_proxy": True}
FOUND = {"items": [SHED, SICK], "offers": [OFFER]}


def test_the_list_says_how_each_one_is_and_what_the_network_offers(terminal: Terminal, host: FakeHost):
    host.answers["GET /box/bluetooth/proxies"] = (200, FOUND)
    shown = terminal.run("ble", "proxies").stdout
    assert "[b]Shed" in shown
    assert "2 of 3" in shown
    assert "wrong key" in shown
    assert "hall.local: it refuses the encryption key. Copy the key." in shown
    assert "mowdeck ble proxies add attic.local --port 6054 --no-key" in shown
    assert terminal.ask("ble", "proxies") == FOUND
    host.answers["GET /box/bluetooth/proxies"] = (200, {"items": [], "offers": []})
    assert "no Bluetooth proxies" in terminal.run("ble", "proxies").stdout


def test_add_asks_for_the_key_and_never_shows_it(terminal: Terminal, host: FakeHost, tmp_path: Path):
    host.answers["POST /box/bluetooth/proxies"] = lambda _body: (201, SHED)
    shown = terminal.run("ble", "proxies", "add", "10.0.0.9", stdin=f"{KEY}\n")
    assert "Added 10.0.0.9" in shown.stdout
    assert KEY not in shown.output
    file = tmp_path / "key"
    file.write_text(KEY + "\n")
    terminal.ask("ble", "proxies", "add", "10.0.0.9", "--key-file", str(file))
    terminal.ask("ble", "proxies", "add", "attic.local", "--port", "6054", "--no-key")
    assert host.asked("POST /box/bluetooth/proxies") == [
        {"host": "10.0.0.9", "port": 6053, "encryption_key": KEY},
        {"host": "10.0.0.9", "port": 6053, "encryption_key": KEY},
        {"host": "attic.local", "port": 6054, "encryption_key": None},
    ]
    missing = terminal.ask("ble", "proxies", "add", "x", "--key-file", str(tmp_path / "none"), status=2)
    assert missing["error"]["mistakes"][0]["field"] == "key_file"


def test_remove_takes_a_name_an_address_or_an_id(terminal: Terminal, host: FakeHost):
    host.answers["GET /box/bluetooth/proxies"] = (200, FOUND)
    host.answers["DELETE /box/bluetooth/proxies/01ABC"] = (204, None)
    for word in ("[b]Shed", "10.0.0.9", "01ABC"):
        assert terminal.ask("ble", "proxies", "remove", word) == {"removed": "01ABC"}
    assert terminal.run("ble", "proxies", "remove", "nobody").exit_code == 2
