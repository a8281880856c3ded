"""A box's public key as people pass it on: typed, read out, or scanned. Pure."""

from __future__ import annotations

import base64
import binascii
import hashlib

from core.domain.errors import InvalidInputError
from core.platform.handover.sealed_box import KEY_BYTES

_FORMAT = 1
_CHECK_BYTES = 2
_GROUP = 4
_FINGERPRINT_GROUPS = 5
_FINGERPRINT_DIGITS = 5
_LABEL = b"mowdeck handover key 1"


def encode_key(key: bytes) -> str:
    """56 letters and digits (base32) in groups of four: a format byte, the key, and two bytes against typing errors."""
    body = bytes([_FORMAT]) + key
    text = base64.b32encode(body + _check(body)).decode()
    return "-".join(text[at : at + _GROUP] for at in range(0, len(text), _GROUP))


def decode_key(text: str) -> bytes:
    """The 32 bytes of a key that a person gave; case, spaces and dashes do not count. InvalidInputError."""
    letters = "".join(text.split()).replace("-", "").upper()
    try:
        raw = base64.b32decode(letters)
    except (binascii.Error, ValueError) as err:
        raise _mistake("is not a key as `mowdeck handover key` shows it") from err
    if len(raw) != 1 + KEY_BYTES + _CHECK_BYTES:
        raise _mistake("is not a whole key: 56 letters and digits")
    body, check = raw[:-_CHECK_BYTES], raw[-_CHECK_BYTES:]
    if check != _check(body):
        raise _mistake("has a typing error")
    if body[0] != _FORMAT:
        raise _mistake("is of a newer Mowdeck")
    return body[1:]


def fingerprint_of(key: bytes) -> str:
    """25 digits in five groups, to compare by eye or over the phone (83 bits of a hash)."""
    number = int.from_bytes(hashlib.sha256(_LABEL + key).digest(), "big")
    digits = str(number % 10 ** (_FINGERPRINT_GROUPS * _FINGERPRINT_DIGITS))
    digits = digits.zfill(_FINGERPRINT_GROUPS * _FINGERPRINT_DIGITS)
    return " ".join(digits[at : at + _FINGERPRINT_DIGITS] for at in range(0, len(digits), _FINGERPRINT_DIGITS))


def _check(body: bytes) -> bytes:
    return hashlib.sha256(_LABEL + body).digest()[:_CHECK_BYTES]


def _mistake(reason: str) -> InvalidInputError:
    return InvalidInputError.of("recipient", reason)
