"""The proxies that a person has added: a file, and their encryption keys with the secrets."""

from __future__ import annotations

import base64
import binascii
from pathlib import Path

from core.domain.clock import Clock
from core.domain.errors import ConflictError, InvalidInputError, LimitExceededError, NotFoundError
from core.domain.ids import EntryId, make_id
from core.platform.durable_file import JsonDocument
from core.platform.secret_store import SecretStore
from edge_agent.proxies.record import ProxyRecord

FORMAT = 1
PROXIES_MAX = 16
KEY = "encryption_key"
KEY_BYTES = 32
HOST_MAX = 253


class ProxyBook:
    """`load` before use."""

    def __init__(self, folder: Path, secrets: SecretStore, clock: Clock) -> None:
        self._document = JsonDocument(folder / "proxies.json", list[ProxyRecord], version=FORMAT, clock=clock)
        self._secrets = secrets
        self._clock = clock
        self._records: dict[str, ProxyRecord] = {}

    def load(self) -> None:
        """Reads the file; blocks. DatabaseNewerError; one that makes no sense is moved aside."""
        self._records = {record.proxy_id: record for record in self._document.load() or []}

    @property
    def problem(self) -> str | None:
        """What was wrong with the file."""
        return self._document.problem

    def records(self) -> list[ProxyRecord]:
        """In the order in which they were added."""
        return list(self._records.values())

    def key(self, proxy_id: str) -> str | None:
        """The encryption key, base64; None: the proxy does not encrypt."""
        return self._secrets.read(_secret_id(proxy_id)).get(KEY)

    async def add(self, host: str, port: int, key: str | None) -> ProxyRecord:
        """On the disk when it returns. InvalidInputError, ConflictError, LimitExceededError, StorageError."""
        host = host.strip().lower().rstrip(".")
        if not host or len(host) > HOST_MAX or any(mark in host for mark in " /@"):
            raise InvalidInputError.of("host", "is neither a host name nor an address")
        if key is not None:
            check_key(key)
        if any((known.host, known.port) == (host, port) for known in self._records.values()):
            raise ConflictError(f"the proxy at {host} is here already", hint="Remove it first to give it another key.")
        if len(self._records) >= PROXIES_MAX:
            raise LimitExceededError(f"a box has at most {PROXIES_MAX} proxies")
        record = ProxyRecord(proxy_id=make_id(self._clock.now()), host=host, port=port)
        if key is not None:
            self._secrets.change(_secret_id(record.proxy_id), {KEY: key})
            await self._secrets.flush()
        self._records[record.proxy_id] = record
        try:
            await self._document.save(self.records())
        except BaseException:
            self._records.pop(record.proxy_id, None)
            self._secrets.remove(_secret_id(record.proxy_id))
            raise
        return record

    async def remove(self, proxy_id: str) -> None:
        """With its key. NotFoundError, StorageError."""
        record = self._records.pop(proxy_id, None)
        if record is None:
            raise NotFoundError("there is no such proxy")
        try:
            await self._document.save(self.records())
        except BaseException:
            self._records[proxy_id] = record
            raise
        self._secrets.remove(_secret_id(proxy_id))
        await self._secrets.flush()


def check_key(key: str) -> None:
    """InvalidInputError, which does not repeat the key."""
    try:
        is_key = len(base64.b64decode(key, validate=True)) == KEY_BYTES
    except (binascii.Error, ValueError):
        is_key = False
    if not is_key:
        raise InvalidInputError.of(KEY, f"is not the base64 text of {KEY_BYTES} bytes that ESPHome shows")


def _secret_id(proxy_id: str) -> EntryId:
    return EntryId(f"proxy-{proxy_id}")
