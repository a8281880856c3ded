"""The keys that sign access tokens: Ed25519, one file each, rotated with overlap."""

from __future__ import annotations

import base64
import hashlib
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from core.domain.clock import Clock
from core.domain.errors import StorageError

KEY_LIFE = timedelta(days=90)
KEY_OVERLAP = timedelta(days=1)
"""A key that signs no more is believed, and published, for this long: more than any token of it lives."""

_STAMP = "%Y%m%dT%H%M%SZ"
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """One key. The number orders keys: a box's clock may have been wrong when it made one."""

    number: int
    created_at: datetime
    kid: str
    private: Ed25519PrivateKey
    file: Path

    @property
    def public(self) -> Ed25519PublicKey:
        return self.private.public_key()


class SigningKeys:
    """The keys of a folder. `open`, `rotate` and `expire` touch the disk: call them in a thread."""

    def __init__(self, folder: Path, clock: Clock, keys: list[SigningKey]) -> None:
        """Use `open`."""
        self._folder = folder
        self._clock = clock
        self._keys = keys

    @classmethod
    def open(cls, folder: Path, clock: Clock) -> SigningKeys:
        """Reads the folder, and makes it and a first key if there is none. StorageError names what is wrong."""
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = sorted((_read(file) for file in folder.glob("*.pem")), key=lambda key: key.number)
        except OSError as err:
            raise StorageError(f"cannot read the signing keys: {err.strerror}") from err
        keys = cls(folder, clock, found)
        if not found:
            keys.rotate()
        return keys

    @property
    def current(self) -> SigningKey:
        """The key that signs."""
        return self._keys[-1]

    def public(self, kid: str) -> Ed25519PublicKey | None:
        """The key to verify with, if it is one of ours."""
        return next((key.public for key in self._keys if key.kid == kid), None)

    def jwks(self) -> dict[str, list[dict[str, str]]]:
        """The public keys as a JSON Web Key Set, newest first."""
        return {
            "keys": [
                {"kty": "OKP", "crv": "Ed25519", "x": _x(key.public), "kid": key.kid, "alg": "EdDSA", "use": "sig"}
                for key in reversed(self._keys)
            ]
        }

    def is_due(self) -> bool:
        """Whether the current key has signed for long enough."""
        return self._clock.now() - self.current.created_at >= KEY_LIFE

    def rotate(self) -> SigningKey:
        """A new key signs from now on; the others are still believed."""
        private = Ed25519PrivateKey.generate()
        now = self._clock.now().astimezone(UTC).replace(microsecond=0)
        number = self._keys[-1].number + 1 if self._keys else 1
        kid = _kid(private.public_key())
        file = self._folder / f"{number:06d}-{now.strftime(_STAMP)}-{kid}.pem"
        key = SigningKey(number=number, created_at=now, kid=kid, private=private, file=file)
        try:
            _write(key)
        except OSError as err:
            raise StorageError(f"cannot write a signing key: {err.strerror}") from err
        self._keys.append(key)
        _log.info("a new signing key", kid=kid)
        return key

    def expire(self) -> None:
        """Deletes keys whose successor has signed for longer than the overlap."""
        now = self._clock.now()
        pairs = list(zip(self._keys, self._keys[1:], strict=False))
        gone = [key for key, successor in pairs if now - successor.created_at >= KEY_OVERLAP]
        for key in gone:
            self._keys.remove(key)
            try:
                key.file.unlink(missing_ok=True)
            except OSError as err:
                raise StorageError(f"cannot delete a signing key: {err.strerror}") from err


def _read(file: Path) -> SigningKey:
    if file.stat().st_mode & 0o077:
        file.chmod(0o600)
        _log.warning("a signing key could be read by others; tightened", file=file.name)
    try:
        number, stamp, kid = file.stem.split("-", 2)
        created_at = datetime.strptime(stamp, _STAMP).replace(tzinfo=UTC)
        private = serialization.load_pem_private_key(file.read_bytes(), password=None)
        if not isinstance(private, Ed25519PrivateKey) or _kid(private.public_key()) != kid:
            raise ValueError("another key than its name says")
        return SigningKey(number=int(number), created_at=created_at, kid=kid, private=private, file=file)
    except (ValueError, TypeError, UnsupportedAlgorithm) as err:
        raise StorageError(f"{file.name} is not a signing key", hint="Move it out of the folder.") from err


def _write(key: SigningKey) -> None:
    """All or nothing: a half-written key would keep the service from starting."""
    pem = key.private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    draft = key.file.with_suffix(".new")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as stream:
        stream.write(pem)
        stream.flush()
        os.fsync(stream.fileno())
    draft.rename(key.file)
    folder = os.open(key.file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _x(public: Ed25519PublicKey) -> str:
    return _base64url(public.public_bytes_raw())


def _kid(public: Ed25519PublicKey) -> str:
    """The thumbprint of RFC 7638 (and RFC 8037 for this kind of key)."""
    return _base64url(hashlib.sha256(f'{{"crv":"Ed25519","kty":"OKP","x":"{_x(public)}"}}'.encode()).digest())


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
