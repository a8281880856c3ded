"""An external Mosquitto with its dynamic security plugin, as an operator would run it beside the relay."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.fakes.mosquitto import BINARY, free_port

PLUGINS = list(Path("/usr/lib").glob("*/mosquitto_dynamic_security.so"))
ADMIN, PASSWORD = "relay", "the relay's own word"


@contextmanager
def external_mosquitto(home: Path) -> Iterator[dict[str, str]]:
    """Runs the broker; gives the relay's settings for it."""
    assert BINARY is not None, "install the Debian package mosquitto"
    assert PLUGINS, "the Debian package mosquitto has the plugin"
    directory = home / "broker"
    directory.mkdir()
    security = directory / "security.json"
    subprocess.run(
        ["mosquitto_ctrl", "dynsec", "init", str(security), ADMIN, PASSWORD], check=True, capture_output=True
    )
    port = free_port()
    config = directory / "mosquitto.conf"
    lines = [
        "per_listener_settings false",
        "allow_anonymous false",
        f"plugin {PLUGINS[0]}",
        f"plugin_opt_config_file {security}",
        f"listener {port} 127.0.0.1",
        "set_tcp_nodelay true",
        "max_queued_messages 0",
        *(["user root"] if os.geteuid() == 0 else []),
    ]
    config.write_text("\n".join(lines) + "\n")
    process = subprocess.Popen(
        [BINARY, "-c", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        _wait(process, port)
        yield {
            "broker": "external",
            "broker_host": "127.0.0.1",
            "broker_port": str(port),
            "broker_tls": "false",
            "broker_username": ADMIN,
            "broker_password": PASSWORD,
        }
    finally:
        process.terminate()
        process.wait(10)


def _wait(process: subprocess.Popen, port: int) -> None:
    import socket

    deadline = time.monotonic() + 10
    while True:
        assert process.poll() is None, "the broker ended at once"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert time.monotonic() < deadline, "the broker does not listen"
            time.sleep(0.02)
        else:
            return
