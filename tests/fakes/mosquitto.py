"""A throwaway Mosquitto on a free loopback port: real broker, real sockets, ended by its pid."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from core.mqtt.session import BrokerAddress, Credential

BINARY = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def free_port() -> int:
    """A loopback port that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def wait_for_port(port: int, *, timeout_s: float = 10.0) -> None:
    """Returns when something accepts connections on the loopback port."""
    async with asyncio.timeout(timeout_s):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.01)
            else:
                writer.close()
                await writer.wait_closed()
                return


@dataclass(slots=True)
class Mosquitto:
    """A running broker; `kill`, `freeze` and `start` play its misfortunes."""

    directory: Path
    port: int
    lines: Sequence[str]
    process: asyncio.subprocess.Process | None = None

    @property
    def address(self) -> BrokerAddress:
        return BrokerAddress(host="127.0.0.1", port=self.port)

    async def start(self) -> None:
        assert BINARY is not None, "install the Debian package mosquitto"
        config = self.directory / "mosquitto.conf"
        config.write_text("\n".join([f"listener {self.port} 127.0.0.1", "set_tcp_nodelay true", *self.lines, ""]))
        self.process = await asyncio.create_subprocess_exec(
            BINARY, "-c", str(config), stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
        )
        await wait_for_port(self.port)

    async def stop(self) -> None:
        await self._end(signal.SIGTERM)

    async def kill(self) -> None:
        await self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """It keeps its connections and does nothing any more."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    async def _end(self, how: signal.Signals) -> None:
        process, self.process = self.process, None
        if process is not None and process.returncode is None:
            process.send_signal(signal.SIGCONT)
            process.send_signal(how)
            async with asyncio.timeout(10):
                await process.wait()


@asynccontextmanager
async def running_mosquitto(
    directory: Path,
    *,
    users: Mapping[str, str] | None = None,
    acl: str | None = None,
    lines: Sequence[str] = (),
) -> AsyncIterator[Mosquitto]:
    """A broker with `users` (name to password) and the ACL text `acl`; without users anybody may do anything."""
    settings = ["allow_anonymous true" if users is None else "allow_anonymous false"]
    if os.geteuid() == 0:
        settings.append("user root")  # it would otherwise give up root and not read its files
    if users is not None:
        from cloud_relay.broker.passwords import hash_password

        passwords = directory / "passwords"
        passwords.write_text("".join(f"{name}:{hash_password(word)}\n" for name, word in users.items()))
        settings.append(f"password_file {passwords}")
    if acl is not None:
        (directory / "acl").write_text(acl)
        settings.append(f"acl_file {directory / 'acl'}")
    broker = Mosquitto(directory=directory, port=free_port(), lines=[*settings, *lines])
    await broker.start()
    try:
        yield broker
    finally:
        await broker.kill()


def anybody() -> Credential:
    """A credential for a broker that asks for none."""
    return Credential(username="anybody", password="x")
