"""Secrets of the config entries: one file apart from the entries, encrypted, readable by the agent only.

The key is derived (HKDF) from a random key file beside it and the machine's id, so that neither a copy of the
secrets nor a copy of the whole folder on another machine opens them. Whoever can run code as the agent on this
machine can read them; that is no more than the agent itself has to be able to do.
"""

from __future__ import annotations

import asyncio
import base64
import os
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import msgspec
import structlog
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from core.domain.clock import Clock
from core.domain.errors import LimitExceededError, StorageError
from core.domain.ids import EntryId
from core.platform.durable_file import DurableFile, JsonDocument

log = structlog.get_logger(__name__)

FORMAT = 1
MAX_SECRETS = 64
MAX_NAME = 64
MAX_VALUE = 16 * 1024
_NONCE_BYTES = 12
MACHINE_ID = Path("/etc/machine-id")


class SecretStore:
    """`folder` holds `secrets.json` and `secrets.key`. Changes are on the disk a moment after `put`, and surely once
    `flush` has returned."""

    def __init__(self, folder: Path, clock: Clock, *, machine_id: Path = MACHINE_ID) -> None:
        self._document = JsonDocument(folder / "secrets.json", dict[EntryId, str], version=FORMAT, clock=clock)
        self._key_file = DurableFile(folder / "secrets.key")
        self._machine_id = machine_id
        self._cipher: AESGCM | None = None
        self._plain: dict[EntryId, dict[str, str]] = {}
        self._sealed: dict[EntryId, str] = {}
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="secrets")
        self._lock = threading.Lock()
        self._next: tuple[bytes, int] | None = None
        self._write: Future[None] | None = None

    def load(self) -> None:
        """Opens (or makes) the key and reads the file. What this machine cannot open is left in the file as it is,
        and counts as missing: the entries concerned will ask for their credentials."""
        self._cipher = AESGCM(self._derive_key())
        self._sealed = dict(self._document.load() or {})
        for entry_id, sealed in self._sealed.items():
            try:
                self._plain[entry_id] = self._open(entry_id, sealed)
            except (InvalidTag, ValueError, msgspec.DecodeError):
                log.error("secrets cannot be opened: sealed on another machine or with a lost key", entry_id=entry_id)

    @property
    def problem(self) -> str | None:
        """What was wrong with the file when it was loaded."""
        return self._document.problem

    def _derive_key(self) -> bytes:
        key = self._key_file.read()
        if key is None:
            key = os.urandom(32)
            self._key_file.write_now(key, self._key_file.ask())
        elif len(key) != 32:
            raise StorageError(
                f"{self._key_file.path} is not a key of 32 bytes; restore it, or move it away to begin anew"
            )
        try:
            machine = self._machine_id.read_bytes().strip()
        except OSError:
            machine = b""  # a container may have none; the key file alone then guards
        return HKDF(algorithm=SHA256(), length=32, salt=machine, info=b"mowdeck secrets 1").derive(key)

    def _get_cipher(self) -> AESGCM:
        if self._cipher is None:
            raise StorageError("the secrets have not been loaded")
        return self._cipher

    def _open(self, entry_id: EntryId, sealed: str) -> dict[str, str]:
        blob = base64.b64decode(sealed, validate=True)
        plain = self._get_cipher().decrypt(blob[:_NONCE_BYTES], blob[_NONCE_BYTES:], entry_id.encode())
        return msgspec.json.decode(plain, type=dict[str, str])

    def _seal(self, entry_id: EntryId, values: Mapping[str, str]) -> str:
        nonce = os.urandom(_NONCE_BYTES)
        plain = msgspec.json.encode(values)
        # the entry's id is authenticated too: one entry's secrets cannot be put under another's name
        return base64.b64encode(nonce + self._get_cipher().encrypt(nonce, plain, entry_id.encode())).decode()

    def for_entry(self, entry_id: EntryId) -> EntrySecrets:
        """The secrets of one entry; nothing of another can be reached from it."""
        return EntrySecrets(self, entry_id)

    def read(self, entry_id: EntryId) -> Mapping[str, str]:
        """Name -> value of one entry."""
        return dict(self._plain.get(entry_id, {}))

    def is_readable(self, entry_id: EntryId) -> bool:
        """False when there are secrets that this machine cannot open."""
        return entry_id in self._plain or entry_id not in self._sealed

    def change(self, entry_id: EntryId, changes: Mapping[str, str]) -> None:
        """Adds or replaces secrets. LimitExceededError for too many or too large ones."""
        values = {**self._plain.get(entry_id, {}), **changes}
        for name, value in changes.items():
            _require_text(name, value)
            if not name or len(name) > MAX_NAME or len(value) > MAX_VALUE:
                raise LimitExceededError(f"a secret's name has 1 to {MAX_NAME} characters, its value {MAX_VALUE}")
        if len(values) > MAX_SECRETS:
            raise LimitExceededError(f"an entry has at most {MAX_SECRETS} secrets")
        if values == self._plain.get(entry_id):
            return
        self._plain[entry_id] = values
        self._sealed[entry_id] = self._seal(entry_id, values)
        self._write_soon()

    def remove(self, entry_id: EntryId) -> None:
        """Forgets all secrets of an entry."""
        self._plain.pop(entry_id, None)
        if self._sealed.pop(entry_id, None) is not None:
            self._write_soon()

    def _write_soon(self) -> None:
        """Hands the newest content to the writer; one waiting write is enough, for it takes the newest."""
        data, place = self._document.encode(self._sealed), self._document.file.ask()
        with self._lock:
            is_waiting = self._next is not None
            self._next = (data, place)
        if not is_waiting:
            self._write = self._writer.submit(self._write_next)

    def _write_next(self) -> None:
        with self._lock:
            newest, self._next = self._next, None
        if newest is None:
            return
        try:
            self._document.file.write_now(*newest)
        except StorageError as err:
            log.error("secrets are not on the disk", detail=err.detail)
            raise

    async def flush(self) -> None:
        """Returns when everything is on the disk; StorageError when it cannot be."""
        if self._write is not None and self._write.done() and self._write.exception() is not None:
            self._write_soon()  # it failed; the disk may be well again
        if self._write is not None:
            await asyncio.shield(asyncio.wrap_future(self._write))

    def close(self) -> None:
        """Ends the writer after its last write."""
        self._writer.shutdown(wait=True)

    def __repr__(self) -> str:
        return f"SecretStore({len(self._sealed)} entries)"


def _require_text(*values: object) -> None:
    """A plugin that is not type-checked may put anything."""
    if not all(isinstance(value, str) for value in values):
        raise LimitExceededError("a secret is a text under a name")


class EntrySecrets:
    """Secrets of one entry (the port `integration.Secrets`)."""

    def __init__(self, store: SecretStore, entry_id: EntryId) -> None:
        self._store = store
        self._entry_id = entry_id

    def get(self, name: str) -> str | None:
        """The value, or None."""
        return self._store.read(self._entry_id).get(name)

    def put(self, name: str, value: str) -> None:
        """Adds or replaces a secret."""
        self._store.change(self._entry_id, {name: value})

    def __repr__(self) -> str:
        return f"EntrySecrets({self._entry_id!r})"
