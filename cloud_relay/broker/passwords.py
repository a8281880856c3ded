"""Password hashes as Mosquitto reads them: `$7$<iterations>$<salt>$<hash>`, PBKDF2 with SHA-512."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets

ITERATIONS = 101
"""What mosquitto_passwd uses, too. Credentials of boxes are 256 random bits, which need no slow hash, and every
connection pays it on the broker's only thread."""
_SALT_BYTES = 12
_HASH_BYTES = 64


def hash_password(password: str, *, salt: bytes | None = None) -> str:
    """The `$7$` hash of `password`; `salt` (12 bytes) is random by default."""
    grain = secrets.token_bytes(_SALT_BYTES) if salt is None else salt
    digest = _derive(password, grain, ITERATIONS)
    return f"$7${ITERATIONS}${base64.b64encode(grain).decode()}${base64.b64encode(digest).decode()}"


def is_password_hash(text: str) -> bool:
    """Whether `text` is such a hash, and safe as a field of a password file."""
    try:
        _split(text)
    except ValueError:
        return False
    return True


def does_match(password: str, hashed: str) -> bool:
    """Whether `password` makes `hashed`; false for anything that is no hash."""
    try:
        iterations, salt, digest = _split(hashed)
    except ValueError:
        return False
    return hmac.compare_digest(_derive(password, salt, iterations), digest)


def _derive(password: str, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac("sha512", password.encode(), salt, iterations, _HASH_BYTES)


def _split(text: str) -> tuple[int, bytes, bytes]:
    parts = text.split("$")
    if len(parts) != 5 or parts[:2] != ["", "7"] or not parts[2].isascii() or not parts[2].isdigit():
        raise ValueError("not a $7$ hash")
    try:
        salt, digest = (base64.b64decode(part, validate=True) for part in parts[3:])
    except binascii.Error as err:
        raise ValueError("not a $7$ hash") from err
    if not salt or len(digest) != _HASH_BYTES:
        raise ValueError("not a $7$ hash")
    return int(parts[2]), salt, digest
