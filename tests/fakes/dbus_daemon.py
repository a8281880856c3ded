"""A throwaway message bus: a real dbus-daemon with a configuration and a socket of its own, ended by its pid."""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

BINARY = shutil.which("dbus-daemon")
CONFIG = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>custom</type>
  <listen>unix:path={socket}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*"/>
    <allow receive_sender="*"/>
    <allow own="*"/>
  </policy>
</busconfig>
"""


@dataclass(slots=True)
class DbusDaemon:
    """A running bus; `address` goes into DBUS_SYSTEM_BUS_ADDRESS."""

    folder: Path
    process: asyncio.subprocess.Process | None = None

    @property
    def address(self) -> str:
        return f"unix:path={self.folder / 'bus'}"

    async def start(self) -> None:
        assert BINARY is not None, "install the Debian package dbus"
        config = self.folder / "bus.conf"
        config.write_text(CONFIG.format(socket=self.folder / "bus"))
        self.process = await asyncio.create_subprocess_exec(
            BINARY,
            f"--config-file={config}",
            "--nofork",
            "--nopidfile",
            "--print-address",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        assert self.process.stdout is not None
        async with asyncio.timeout(10):
            assert await self.process.stdout.readline(), "the bus did not start"

    async def stop(self) -> None:
        process, self.process = self.process, None
        if process is not None and process.returncode is None:
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(10):
                await process.wait()


@asynccontextmanager
async def running_dbus_daemon() -> AsyncIterator[DbusDaemon]:
    """A bus in a folder with a short name: a socket's path holds 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="bus") as folder:
        daemon = DbusDaemon(folder=Path(folder))
        await daemon.start()
        try:
            yield daemon
        finally:
            await daemon.stop()
