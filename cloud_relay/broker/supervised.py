"""The relay's own Mosquitto: its files, its child process, and what the relay knows of both.

Passwords rest only as hashes, in the child's password file, which is also the record of them. The relay's own
password is made anew at each start and is nowhere but in memory (and hashed in that file).
"""

from __future__ import annotations

import asyncio
import getpass
import os
import random
import secrets
import signal
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

import structlog

from cloud_relay.broker import mosquitto_files as files
from cloud_relay.broker.child import end_stale, find_binary, read_version, running_child
from cloud_relay.broker.passwords import hash_password, is_password_hash
from core.domain.clock import Clock
from core.domain.errors import InvalidInputError, Mistake, SettingsError, UnavailableError
from core.domain.ids import EdgeId, is_safe_id
from core.mqtt.session import BrokerAddress, Credential
from core.sync import linking
from core.sync.backoff import Backoff

_RESTART_FIRST_S = 0.2
_RESTART_MAX_S = 30.0
_RELOAD_S = 5.0
_LOOPBACK = "127.0.0.1"

_log = structlog.get_logger(__name__)


class SupervisedMosquitto:
    """A Mosquitto child on `host`:`port` (TLS with `certificate` and `key`; PEM paths).

    Boxes are told `advertised_host` and `advertised_port` (by default what is bound) and `ca_pem`. With TLS the relay
    itself uses a second listener on loopback. All files lie in `directory`, which only this user may read.
    """

    def __init__(
        self,
        *,
        directory: Path,
        host: str,
        port: int,
        clock: Clock,
        binary: str = "mosquitto",
        certificate: Path | None = None,
        key: Path | None = None,
        ca_pem: str | None = None,
        advertised_host: str | None = None,
        advertised_port: int | None = None,
        random_number: Callable[[], float] = random.random,
    ) -> None:
        self._directory = directory.absolute()
        self._host = host
        self._port = port or _free_port(host)
        self._certificate = certificate.absolute() if certificate is not None else None
        self._key = key.absolute() if key is not None else None
        self._has_tls = certificate is not None and key is not None
        self._own_port = _free_port(_LOOPBACK) if self._has_tls else self._port
        self._binary = binary
        self._ca_pem = ca_pem
        self._advertised_host = advertised_host or host
        self._advertised_port = advertised_port or self._port
        self._clock = clock
        self._random = random_number
        self._credential = Credential(username=files.RELAY_USER, password=secrets.token_urlsafe(32))
        self._hashes: dict[str, str] | None = None
        self._lock = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._ready = asyncio.Event()
        self._reloads = 0
        self._reloaded = asyncio.Condition()
        self.restarts = 0
        """How often the child died and was started again."""

    @property
    def address(self) -> BrokerAddress:
        host = _LOOPBACK if self._has_tls or self._host in ("0.0.0.0", "::") else self._host
        return BrokerAddress(host=host, port=self._own_port)

    @property
    def advertised(self) -> linking.BrokerAddress:
        return linking.BrokerAddress(
            host=self._advertised_host, port=self._advertised_port, tls=self._has_tls, ca_pem=self._ca_pem
        )

    @property
    def relay_credential(self) -> Credential:
        return self._credential

    @property
    def pid(self) -> int | None:
        """The child's process id while it runs."""
        return None if self._process is None else self._process.pid

    async def wait_ready(self) -> None:
        await self._ready.wait()

    async def run(self) -> None:
        binary = find_binary(self._binary)
        version = await read_version(binary)
        config = self._directory / "mosquitto.conf"
        pid_file = self._directory / "mosquitto.pid"
        async with self._lock:
            self._prepare(config, version)
        await end_stale(config, pid_file)
        self._check_port()
        backoff = Backoff(_RESTART_FIRST_S, _RESTART_MAX_S, random=self._random)
        while True:
            began = self._clock.monotonic()
            async with running_child(binary, config, pid_file) as process:
                self._process = process
                try:
                    code = await self._watch(process)
                finally:
                    self._process = None
                    self._ready.clear()
            self.restarts += 1
            backoff.succeed(self._clock.monotonic() - began)
            delay_s = backoff.next_s()
            _log.error("broker ended, starting it again", exit_code=code, delay_s=round(delay_s, 2))
            await asyncio.sleep(delay_s)

    async def put_edge(self, edge_id: EdgeId, password: str) -> None:
        if not is_safe_id(edge_id) or edge_id == files.RELAY_USER:
            raise InvalidInputError.of("edge_id", "cannot be a user name of the broker")
        hashed = hash_password(password)
        async with self._lock:
            self._known()[edge_id] = hashed
            await self._save_and_reload()

    async def remove_edge(self, edge_id: EdgeId) -> None:
        async with self._lock:
            if self._known().pop(edge_id, None) is not None:
                await self._save_and_reload()

    async def sync_edges(self, edges: Mapping[EdgeId, str | None]) -> frozenset[EdgeId]:
        async with self._lock:
            before = self._known()
            wanted: dict[str, str] = {}
            for edge_id, given in edges.items():
                hashed = before.get(edge_id, given)
                if hashed is not None and is_password_hash(hashed):
                    wanted[edge_id] = hashed
            if wanted != before:
                self._hashes = wanted
                await self._save_and_reload()
            return frozenset(edge_id for edge_id in edges if edge_id not in wanted)

    def _known(self) -> dict[str, str]:
        """The hashes, read from the password file once."""
        if self._hashes is None:
            try:
                text = (self._directory / "passwords").read_text()
            except FileNotFoundError:
                text = ""
            self._hashes = files.parse_passwords(text)
        return self._hashes

    def _prepare(self, config: Path, version: tuple[int, int, int]) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        self._directory.chmod(0o700)
        listeners = [files.Listener(host=self._host, port=self._port, certificate=self._certificate, key=self._key)]
        if self._has_tls:
            listeners.append(files.Listener(host=_LOOPBACK, port=self._own_port))
        # Mosquitto started by root would give up root and then not read its files; the kernel would also forget
        # that it is to end with the relay.
        text = files.configuration(self._directory, tuple(listeners), user=getpass.getuser())
        self._write("mosquitto.conf", text)
        self._write("acl", files.rights())
        self._save()
        _log.info("broker configured", config=str(config), version=".".join(map(str, version)), port=self._port)

    def _save(self) -> None:
        relay = {files.RELAY_USER: hash_password(self._credential.password)}
        self._write("passwords", files.passwords({**self._known(), **relay}))

    def _write(self, name: str, text: str) -> None:
        path = self._directory / name
        fresh = path.with_name(f"{name}.new")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(descriptor)
        fresh.replace(path)

    async def _save_and_reload(self) -> None:
        """The caller holds the lock. Returns when the child has read the file."""
        self._directory.mkdir(parents=True, exist_ok=True)
        self._directory.chmod(0o700)
        self._save()
        process = self._process
        if process is None:
            return  # it reads the file when it starts
        try:
            async with asyncio.timeout(_RELOAD_S):
                await self._ready.wait()  # while starting, it may have read the file already
                async with self._reloaded:
                    before = self._reloads
                    if process is self._process and process.returncode is None:
                        process.send_signal(signal.SIGHUP)
                    await self._reloaded.wait_for(lambda: self._reloads > before or self._process is not process)
        except TimeoutError as err:
            raise UnavailableError("the broker does not read its passwords again") from err

    async def _watch(self, process: asyncio.subprocess.Process) -> int:
        """Reads what the child says until it ends; returns its exit code."""
        assert process.stdout is not None
        async for line in process.stdout:
            text = line.decode(errors="replace").strip()
            if text.endswith(" running"):
                self._ready.set()
                _log.info("broker runs", pid=process.pid, port=self._port)
            elif text == "Reloading config.":
                async with self._reloaded:
                    self._reloads += 1
                    self._reloaded.notify_all()
            elif text.startswith(("Error", "Warning")):
                _log.warning("broker says", text=text[:300])
        code = await process.wait()
        async with self._reloaded:
            self._reloaded.notify_all()
        return code

    def _check_port(self) -> None:
        try:
            with socket.create_server((self._host, self._port), reuse_port=False):
                pass
        except OSError as err:
            raise SettingsError(
                mistakes=(
                    Mistake(
                        field="MOWDECK_RELAY_BROKER_PORT",
                        reason=f"cannot bind {self._host}:{self._port}: {err.strerror}",
                    ),
                ),
                hint="Another program uses the port (a system-wide mosquitto?). Stop it, or choose another port.",
            ) from err


def _free_port(host: str) -> int:
    with socket.create_server((host, 0)) as probe:
        return int(probe.getsockname()[1])
