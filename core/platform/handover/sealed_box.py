"""A sealed box: bytes that only the holder of one X25519 key can open, together with a header that anybody can read
and nobody can change. Pure; randomness comes from the caller.

    shared = X25519(ephemeral, recipient)
    key, nonce = HKDF-SHA256(shared, salt = ephemeral public + recipient public, info)
    sealed = ephemeral public + ChaCha20-Poly1305(key, nonce, plain, header)

The key is used once, for the ephemeral key is. It is anonymous: it does not say who sealed it.
"""

from __future__ import annotations

from collections.abc import Callable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from core.domain.errors import InvalidInputError

KEY_BYTES = 32
_NONCE_BYTES = 12
_INFO = b"mowdeck handover 1"

RandomBytes = Callable[[int], bytes]


def public_of(private: bytes) -> bytes:
    """The public key (32 bytes) of a private one."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def seal(plain: bytes, *, recipient: bytes, header: bytes, random: RandomBytes) -> bytes:
    """`plain` for the holder of the private key of `recipient`. InvalidInputError for a key that is none."""
    ephemeral = X25519PrivateKey.from_private_bytes(random(KEY_BYTES))
    own = ephemeral.public_key().public_bytes_raw()
    cipher, nonce = _derive(ephemeral, recipient, salt=own + recipient, field="recipient")
    return own + cipher.encrypt(nonce, plain, header)


def unseal(sealed: bytes, *, private: bytes, header: bytes) -> bytes:
    """What was sealed. InvalidInputError: for another key, cut short, or changed in any byte, header included."""
    own, body = sealed[:KEY_BYTES], sealed[KEY_BYTES:]
    if len(own) != KEY_BYTES:
        raise InvalidInputError.of("bundle", "is cut short")
    key = X25519PrivateKey.from_private_bytes(private)
    cipher, nonce = _derive(key, own, salt=own + key.public_key().public_bytes_raw(), field="bundle")
    try:
        return cipher.decrypt(nonce, body, header)
    except InvalidTag as err:
        raise InvalidInputError.of("bundle", "was changed or damaged, or is for another box") from err


def _derive(key: X25519PrivateKey, peer: bytes, *, salt: bytes, field: str) -> tuple[ChaCha20Poly1305, bytes]:
    try:
        shared = key.exchange(X25519PublicKey.from_public_bytes(peer))
    except ValueError as err:  # wrong length, or a point of low order that would make the secret known to all
        raise InvalidInputError.of(field, "holds a key that is none") from err
    made = HKDF(algorithm=SHA256(), length=KEY_BYTES + _NONCE_BYTES, salt=salt, info=_INFO).derive(shared)
    return ChaCha20Poly1305(made[:KEY_BYTES]), made[KEY_BYTES:]
