"""The bundle: config entries with their secrets, sealed for one box. Pure.

    {"header": {format, version, bundle_id, recipient, created_at, expires_at}, "sealed": base64}

The header can be read by anybody and is authenticated with the rest. There is exactly one text for a bundle: a file
that differs from it in any byte is refused.
"""

from __future__ import annotations

import base64
import binascii
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

import msgspec

from core.domain.errors import ConflictError, InvalidInputError, LimitExceededError
from core.domain.limits import ENTRIES, FUTURE_TOLERANCE
from core.domain.secretive import hidden_repr
from core.platform.handover.recipient import fingerprint_of
from core.platform.handover.sealed_box import RandomBytes, public_of, seal, unseal
from core.platform.integration import MowerKey

VERSION = 1
BUNDLE_BYTES = 900 * 1024
"""Fits into one request with room to spare."""
_ID_BYTES = 16

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class BundleHeader(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What anybody may know of a bundle. `recipient` is the fingerprint of the box that it is for."""

    format: Literal["mowdeck-handover"] = "mowdeck-handover"
    version: int = VERSION
    bundle_id: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
    recipient: str
    created_at: datetime
    expires_at: datetime


class HandedMower(msgspec.Struct, frozen=True, kw_only=True):
    """A mower behind an entry, with the name that people gave it (None: its own)."""

    key: MowerKey
    name: Name
    given_name: Name | None = None


class HandedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A config entry on its way. `repr` shows nothing of it."""

    domain: Annotated[str, msgspec.Meta(pattern="^[a-z][a-z0-9_]{0,39}$")]
    title: Name
    unique_id: str | None = None
    data: dict[str, Any] = {}
    options: dict[str, Any] = {}
    version: int = 1
    is_disabled: bool = False
    is_bonded: bool = False
    """The old box has a Bluetooth bond with it; bonds do not travel, so the new one has to pair."""
    secrets: dict[str, str] = {}
    mowers: tuple[HandedMower, ...] = ()

    __repr__ = hidden_repr


class BundleContent(msgspec.Struct, frozen=True, kw_only=True):
    """What is sealed. `from_box` is what the old box calls itself."""

    from_box: str
    entries: Annotated[tuple[HandedEntry, ...], msgspec.Meta(min_length=1, max_length=ENTRIES)]

    __repr__ = hidden_repr


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    header: BundleHeader
    sealed: str


class _Version(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    format: Literal["mowdeck-handover"]


class _AnyFile(msgspec.Struct, frozen=True, kw_only=True):
    header: _Version


def pack(
    content: BundleContent, *, recipient: bytes, now: datetime, keeps: timedelta, random: RandomBytes
) -> tuple[BundleHeader, str]:
    """The bundle's text for the box with that key. LimitExceededError when it is too large."""
    header = BundleHeader(
        bundle_id=random(_ID_BYTES).hex(),
        recipient=fingerprint_of(recipient),
        created_at=now,
        expires_at=now + keeps,
    )
    sealed = seal(msgspec.json.encode(content), recipient=recipient, header=msgspec.json.encode(header), random=random)
    text = _text(_File(header=header, sealed=base64.b64encode(sealed).decode()))
    if len(text) > BUNDLE_BYTES:
        raise LimitExceededError("the bundle is too large", hint="Hand the entries over in several bundles.")
    return header, text


def unpack(text: str, *, private: bytes, now: datetime) -> tuple[BundleHeader, BundleContent]:
    """Header and content, once every check has passed. InvalidInputError: no bundle, changed, damaged, of a newer
    version. ConflictError: for another box, expired, or made in what this box takes for the future."""
    file = _read(text)
    header = file.header
    own = fingerprint_of(public_of(private))
    if header.recipient != own:
        raise ConflictError(
            f"the bundle is for another box, with the fingerprint {header.recipient}; this one has {own}",
            hint="Import it there, or have it made again for the key that `mowdeck handover key` shows here.",
        )
    plain = unseal(_decode(file.sealed), private=private, header=msgspec.json.encode(header))
    if now >= header.expires_at:
        raise ConflictError(
            f"the bundle expired at {header.expires_at:%Y-%m-%d %H:%M} UTC", hint="Have a new one made."
        )
    if now < header.created_at - FUTURE_TOLERANCE:
        raise ConflictError(
            f"the bundle was made at {header.created_at:%Y-%m-%d %H:%M} UTC, and here it is {now:%Y-%m-%d %H:%M} UTC",
            hint="Set the clocks of both boxes.",
        )
    try:
        return header, msgspec.json.decode(plain, type=BundleContent)
    except (msgspec.DecodeError, RecursionError) as err:  # without its words: they may quote what was sealed
        raise InvalidInputError.of("bundle", "holds nothing that this Mowdeck understands") from err


def _read(text: str) -> _File:
    try:
        version = msgspec.json.decode(text, type=_AnyFile).header.version
        if version > VERSION:
            raise InvalidInputError.of("bundle", f"has version {version}; this Mowdeck knows {VERSION}")
        file = msgspec.json.decode(text, type=_File)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as err:
        raise InvalidInputError.of("bundle", "is no handover bundle, or is cut short") from err
    if _text(file) != text.rstrip("\n"):  # a mail or an editor may have added the end of the line
        raise InvalidInputError.of("bundle", "was changed or damaged")
    return file


def _decode(text: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as err:
        raise InvalidInputError.of("bundle", "was changed or damaged") from err
    if base64.b64encode(data).decode() != text:  # the last letter has bits that mean nothing
        raise InvalidInputError.of("bundle", "was changed or damaged")
    return data


def _text(file: _File) -> str:
    return msgspec.json.encode(file).decode()
