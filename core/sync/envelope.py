"""Signed envelopes of commands and cancels, and joystick frames: compact JWS (RFC 7515), EdDSA over Ed25519 (RFC 8037).

The algorithm and the type of each are pinned; the header's `kid` only chooses among the keys that the box has pinned
(two while the relay changes its key). Nothing in the header can name a key of its own.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Any, TypeVar

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from core.domain import limits
from core.domain.errors import InvalidInputError, SignatureError
from core.sync.messages import CancelEnvelope, CommandEnvelope, DriveMessage, decode, encode

ALGORITHM = "EdDSA"
TYPE = "mowdeck-command"
"""The header's `typ`: a token that the same key signed for another purpose is no command."""
CANCEL_TYPE = "mowdeck-cancel"
DRIVE_TYPE = "mowdeck-drive"

E = TypeVar("E", CommandEnvelope, CancelEnvelope, DriveMessage)
_jws = jwt.PyJWS(algorithms=[ALGORITHM])


def sign(envelope: CommandEnvelope, key: Ed25519PrivateKey, key_id: str) -> bytes:
    """The envelope as a compact JWS."""
    return _sign(envelope, TYPE, key, key_id)


def sign_cancel(envelope: CancelEnvelope, key: Ed25519PrivateKey, key_id: str) -> bytes:
    """The cancel as a compact JWS that no box takes for a command."""
    return _sign(envelope, CANCEL_TYPE, key, key_id)


def sign_drive(message: DriveMessage, key: Ed25519PrivateKey, key_id: str) -> bytes:
    """The message as a compact JWS. Signing one takes 0.1 ms, so every frame is signed: a broker can drop frames,
    but neither make nor change one."""
    return _sign(message, DRIVE_TYPE, key, key_id)


def _sign(
    message: CommandEnvelope | CancelEnvelope | DriveMessage, kind: str, key: Ed25519PrivateKey, key_id: str
) -> bytes:
    token = _jws.encode(encode(message), key, algorithm=ALGORITHM, headers={"typ": kind, "kid": key_id})
    return token.encode("ascii")


def verify(data: bytes, keys: Mapping[str, Ed25519PublicKey]) -> CommandEnvelope:
    """The envelope in `data` when one of `keys` (by key id) signed it, else SignatureError.

    MalformedMessageError for a well signed payload that this version does not understand.
    """
    return _verify(data, TYPE, keys, CommandEnvelope)


def verify_cancel(data: bytes, keys: Mapping[str, Ed25519PublicKey]) -> CancelEnvelope:
    """As `verify`, for a cancel: neither passes as the other."""
    return _verify(data, CANCEL_TYPE, keys, CancelEnvelope)


def verify_drive(data: bytes, keys: Mapping[str, Ed25519PublicKey]) -> DriveMessage:
    """As `verify`, for a joystick frame or the end of a drive."""
    return _verify(data, DRIVE_TYPE, keys, DriveMessage)


def _verify(data: bytes, kind: str, keys: Mapping[str, Ed25519PublicKey], envelope: type[E]) -> E:
    if len(data) > limits.BATCH_BYTES:
        raise SignatureError(f"too long for a {kind}")
    try:
        header = jwt.get_unverified_header(data)
        key = keys.get(str(header.get("kid")))
        if key is None:
            raise SignatureError("signed with a key that is not pinned here")
        if header.get("typ") != kind:
            raise SignatureError(f"not signed as a {kind}")
        payload = _jws.decode(data, key, algorithms=[ALGORITHM])
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as err:
        raise SignatureError(f"the signature does not hold ({type(err).__name__})") from err
    return decode(payload, envelope)


def export_public_key(key: Ed25519PublicKey) -> str:
    """The raw 32 bytes as base64url without padding (the `x` of a JWK)."""
    return base64.urlsafe_b64encode(key.public_bytes_raw()).rstrip(b"=").decode("ascii")


def import_public_key(text: str) -> Ed25519PublicKey:
    """The key that `export_public_key` wrote; InvalidInputError for anything else."""
    try:
        raw = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        return Ed25519PublicKey.from_public_bytes(raw)
    except (ValueError, binascii.Error) as err:  # UnicodeEncodeError is a ValueError
        raise InvalidInputError.of("public_key", "must be 32 bytes as base64url") from err


def import_jwk(jwk: Mapping[str, Any]) -> tuple[str, Ed25519PublicKey]:
    """Key id and key of a JWK as `public_jwk` writes it; InvalidInputError for any other kind of key."""
    kid, x = jwk.get("kid"), jwk.get("x")
    if (jwk.get("kty"), jwk.get("crv")) != ("OKP", "Ed25519") or not isinstance(kid, str) or not isinstance(x, str):
        raise InvalidInputError.of("relay_keys", "must be Ed25519 keys with a kid")
    return kid, import_public_key(x)


def key_id_of(key: Ed25519PublicKey) -> str:
    """The key's thumbprint (RFC 7638, RFC 8037 appendix A.3): its natural key id."""
    canonical = msgspec.json.encode({"crv": "Ed25519", "kty": "OKP", "x": export_public_key(key)})
    return base64.urlsafe_b64encode(hashlib.sha256(canonical).digest()).rstrip(b"=").decode("ascii")


def public_jwk(key: Ed25519PublicKey, key_id: str) -> dict[str, Any]:
    """The key as a JWK (RFC 8037), e.g. for a key set."""
    return {
        "kty": "OKP",
        "crv": "Ed25519",
        "alg": ALGORITHM,
        "use": "sig",
        "kid": key_id,
        "x": export_public_key(key),
    }
