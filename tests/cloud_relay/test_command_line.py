"""`mowdeck relay run` as a process: it serves, ends when asked to, and says in one line why it cannot start."""

from __future__ import annotations

import subprocess
import sys

import httpx
import pytest

from core.command_line.host_process import HostProcess
from core.web.serving import bind


def test_ends_in_peace_and_takes_its_broker_along(tmp_path):
    host = HostProcess("relay", tmp_path / "relay", {"listen_port": "0", "broker_port": "0"})
    host.start()
    try:
        assert httpx.get(f"{host.url}/health", timeout=5).status_code == 200
        broker = (tmp_path / "relay" / "broker" / "mosquitto.pid").read_text().strip()
        status = host.stop()
    finally:
        host.kill()
    assert status == 0, host.log_tail()
    assert subprocess.run(["/bin/kill", "-0", broker], capture_output=True).returncode != 0


@pytest.mark.parametrize("name", ["settings", "port"])
def test_one_line_and_exit_status_2(tmp_path, name):
    with bind("127.0.0.1", 0, section="relay") as taken:
        taken.listen()
        port = taken.getsockname()[1]
        given = {
            "settings": ({"MOWDECK_RELAY_BROKER": "none"}, "mowdeck relay: MOWDECK_RELAY_BROKER: must be one of"),
            "port": ({"MOWDECK_RELAY_LISTEN_PORT": str(port)}, f"cannot listen on 127.0.0.1 port {port}"),
        }
        environ, words = given[name]
        done = subprocess.run(
            [sys.executable, "-m", "core.command_line", "relay", "run"],
            env={"PATH": "/usr/bin:/usr/sbin", "MOWDECK_RELAY_DATA_DIR": str(tmp_path), **environ},
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 2, done.stderr
    assert [line for line in done.stderr.splitlines() if words in line], done.stderr
    assert "Traceback" not in done.stderr
