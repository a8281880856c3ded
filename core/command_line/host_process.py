"""A host as a child process: started, waited for, ended. Used by the demo and by tests with real processes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import httpx

from core.domain.errors import UnavailableError

POLL_S = 0.05


class HostProcess:
    """`mowdeck edge run` or `mowdeck relay run` with its own data folder, log file and free port."""

    def __init__(self, kind: Literal["edge", "relay"], data_dir: Path, settings: Mapping[str, str]) -> None:
        self.kind = kind
        self.data_dir = data_dir
        self.log_path = data_dir.parent / f"{data_dir.name}.log"
        self._settings = dict(settings)
        self._process: subprocess.Popen[bytes] | None = None
        self.address: dict[str, Any] = {}

    @property
    def pid(self) -> int:
        """The process id of the running child."""
        if self._process is None:
            raise UnavailableError(f"the {self.kind} is not running")
        return self._process.pid

    @property
    def url(self) -> str:
        """Where its API listens."""
        return str(self.address["url"])

    @property
    def is_running(self) -> bool:
        """Whether the child lives."""
        return self._process is not None and self._process.poll() is None

    def change_settings(self, **settings: str) -> None:
        """Other settings for the next start."""
        self._settings.update(settings)

    def start(self, timeout_s: float = 30.0) -> None:
        """Starts the child and waits until it serves. UnavailableError with the end of its log otherwise."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        address_file = self.data_dir / f"{self.kind}.address"
        address_file.unlink(missing_ok=True)
        prefix = f"MOWDECK_{self.kind.upper()}_"
        kept = {k: v for k, v in os.environ.items() if not k.startswith("MOWDECK_")}
        given = {f"{prefix}{name.upper()}": value for name, value in self._settings.items()}
        with self.log_path.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "core.command_line", self.kind, "run"],
                env={**kept, **given, f"{prefix}DATA_DIR": str(self.data_dir)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        deadline = time.monotonic() + timeout_s
        while not self._is_ready():
            if not self.is_running or time.monotonic() > deadline:
                self.kill()
                raise UnavailableError(f"the {self.kind} did not start:\n{self.log_tail()}")
            time.sleep(POLL_S)

    def stop(self, timeout_s: float = 15.0) -> int:
        """Asks the child to end (SIGTERM) and returns its exit status; kills it when it does not."""
        process = self._process
        if process is None:
            return 0
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            return process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return process.wait()
        finally:
            self._process = None

    def kill(self) -> None:
        """SIGKILL, as a power cut does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def log_tail(self, lines: int = 30) -> str:
        """The last lines of its log."""
        try:
            return "\n".join(self.log_path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
        except OSError:
            return ""

    def read_address(self) -> dict[str, Any]:
        """What the host says of itself now (ports, and the broker's process id); empty when it says nothing."""
        try:
            found: dict[str, Any] = json.loads((self.data_dir / f"{self.kind}.address").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found

    def _is_ready(self) -> bool:
        try:
            self.address = self.read_address()
            return httpx.get(f"{self.url}/health/ready", timeout=2.0).status_code == httpx.codes.OK
        except (OSError, ValueError, KeyError, httpx.HTTPError):
            return False
