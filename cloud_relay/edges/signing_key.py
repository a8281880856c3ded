"""The relay's Ed25519 key for commands: boxes pin its public half when they are linked."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from core.domain.errors import SettingsError, StorageError
from core.sync.envelope import key_id_of, public_jwk


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """The private key and the name that its signatures carry."""

    key_id: str
    private: Ed25519PrivateKey = field(repr=False)

    def jwk(self) -> dict[str, Any]:
        """The public half, for boxes."""
        return public_jwk(self.private.public_key(), self.key_id)


def load_signing_key(path: Path) -> SigningKey:
    """The key in `path` (PEM, mode 0600), made at the first start. SettingsError for a file that is no such key
    or that others can read; StorageError when it cannot be written. Losing it means linking every box again."""
    if not path.exists():
        _create(path)
    if path.stat().st_mode & 0o077:
        raise SettingsError.of(str(path), "others can read the signing key; set its mode to 0600")
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError, OSError) as err:
        raise SettingsError.of(str(path), "is not a readable private key") from err
    if not isinstance(key, Ed25519PrivateKey):
        raise SettingsError.of(str(path), "is not an Ed25519 key")
    return SigningKey(key_id=key_id_of(key.public_key()), private=key)


def _create(path: Path) -> None:
    pem = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    draft = path.with_suffix(".new")
    try:
        draft.unlink(missing_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(pem)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
    except OSError as err:
        raise StorageError(f"cannot write {path}: {err.strerror}") from err
