"""An emulated Bluetooth mower as a process of its own, and how it is paired with a box through the box's flow."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from core.command_line.flow_prompts import ENDS, await_work
from core.command_line.host_client import HostClient
from core.domain.errors import UnavailableError

PIN = "4711"
READY = "READY"


def can_emulate() -> bool:
    """Whether the extras `ble` and `emulate` are installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("bleak", "bumble"))


class EmulatedMower:
    """`mowdeck emulate` with its own radio on a socket in `directory`."""

    def __init__(self, domain: str, directory: Path, *, time_scale: float) -> None:
        self.domain = domain
        self.radio = f"unix:{directory / 'radio'}"
        self.log_path = directory / "emulate.log"
        self._keys = directory / "emulated-keys.json"
        self._options = [f"pin={PIN}", f"time_scale={time_scale:g}"]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, timeout_s: float = 20.0) -> None:
        """Starts it and waits until its radio is served. UnavailableError with its log otherwise."""
        options = [word for option in self._options for word in ("--option", option)]
        command = [sys.executable, "-m", "core.command_line", "emulate", self.domain, "--radio", self.radio, *options]
        command += ["--keys", str(self._keys)]  # the mower knows the box again when the demo is started again
        with self.log_path.open("wb") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        deadline = time.monotonic() + timeout_s
        while READY not in self.log_path.read_text(encoding="utf-8", errors="replace"):
            if self._process.poll() is not None or time.monotonic() > deadline:
                log = self.log_path.read_text(encoding="utf-8", errors="replace")
                self.stop()
                raise UnavailableError(f"the emulated mower did not start:\n{log}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Ends it, by force when it does not go."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def pair_through_flow(client: HostClient, domain: str, timeout_s: float = 60.0) -> str:
    """Answers the box's discovery flow as a person would (confirm, pair, PIN); the title of the new entry."""
    deadline = time.monotonic() + timeout_s
    view = _offer(client, domain)
    while view is None:
        if time.monotonic() > deadline:
            raise UnavailableError("the box does not hear the emulated mower")
        time.sleep(0.2)
        view = _offer(client, domain)
    while view["result"]["type"] not in ENDS:
        if view["result"]["type"] == "progress":
            view = await_work(client, view)
            continue
        if time.monotonic() > deadline or view["result"].get("errors"):
            raise UnavailableError(f"the emulated mower was not paired: {view['result']}")
        asks_pin = any(field["name"] == "pin" for field in view["result"]["fields"])
        view = client.post(f"/config/flows/{view['flow_id']}", {"user_input": {"pin": PIN} if asks_pin else {}})
    if view["result"]["type"] != "create_entry":
        raise UnavailableError(f"the emulated mower was not paired: {view['result']}")
    return str(view["result"]["title"])


def _offer(client: HostClient, domain: str) -> dict[str, Any] | None:
    for view in client.get("/config/flows")["items"]:
        if view["domain"] == domain and view["source"] == "discovery":
            found: dict[str, Any] = view
            return found
    return None
