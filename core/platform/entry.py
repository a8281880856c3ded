"""Config entries as values: what is stored, in which state one is, and what the API may show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

import msgspec

from core.domain.errors import InvalidInputError
from core.domain.ids import EntryId
from core.domain.mower import MowerDescription
from core.platform.integration import Entry, MowerKey

EntrySource = Literal["user", "relay", "discovery", "import"]


class EntryState(StrEnum):
    """Where an entry is on its way."""

    NOT_LOADED = "not_loaded"
    SETUP = "setup"
    LOADED = "loaded"
    RETRY = "retry"
    """Will be set up again by itself."""
    AUTH_FAILED = "auth_failed"
    """Waits for a person (a reauth flow is open)."""
    ERROR = "error"
    MIGRATION_ERROR = "migration_error"
    UNLOAD_FAILED = "unload_failed"
    """Tasks of the plugin would not end; it is not set up again while they live."""


DATA_BYTES = 64 * 1024


def plain(data: Mapping[str, Any], field: str) -> dict[str, Any]:
    """A copy as it will come back from the disk, so that a plugin sees the same before and after a restart.
    InvalidInputError for what is not JSON or too large."""
    try:
        text = msgspec.json.encode(data)
        if len(text) > DATA_BYTES:
            raise InvalidInputError.of(field, f"more than {DATA_BYTES} bytes")
        return msgspec.json.decode(text, type=dict[str, Any])
    except (TypeError, ValueError, RecursionError) as err:  # msgspec's errors are ValueErrors
        raise InvalidInputError.of(field, f"is not JSON ({err})") from err


class EntryRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An entry as stored. Secrets are elsewhere."""

    entry_id: EntryId
    domain: str
    title: str
    source: EntrySource
    created_at: datetime
    unique_id: str | None = None
    data: dict[str, Any] = {}
    options: dict[str, Any] = {}
    version: int = 1
    is_disabled: bool = False
    needs_pairing: bool = False
    """Handed over by a box that had a Bluetooth bond with it; not set up before a person has paired it here."""
    mower_names: dict[MowerKey, str] = {}
    """Names that people gave its mowers before it was handed over."""

    def entry(self) -> Entry:
        """What the plugin sees of it."""
        return Entry(
            entry_id=self.entry_id,
            domain=self.domain,
            unique_id=self.unique_id,
            title=self.title,
            data=self.data,
            options=self.options,
            version=self.version,
        )


class IgnoredDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A discovered device that a person does not want to hear of again."""

    domain: str
    unique_id: str
    title: str
    ignored_at: datetime


class ImportedBundle(msgspec.Struct, frozen=True, kw_only=True):
    """A handover bundle that was imported here; it never is again."""

    bundle_id: str
    imported_at: datetime
    expires_at: datetime
    titles: tuple[str, ...]


class EntryView(msgspec.Struct, frozen=True, kw_only=True):
    """An entry as the API shows it: neither data nor secrets."""

    entry_id: EntryId
    domain: str
    title: str
    unique_id: str | None
    source: EntrySource
    is_disabled: bool
    created_at: datetime
    state: EntryState
    reason_code: str | None = None
    """Code of the error that explains the state."""
    reason: str | None = None
    hint: str | None = None
    tries: int = 0
    """Set-ups that failed in a row."""
    next_try_at: datetime | None = None
    mowers: tuple[MowerDescription, ...] = ()


def find_record(records: Iterable[EntryRecord], unique_id: str, same: Mapping[str, Any]) -> EntryRecord | None:
    """The record with this unique id, else one whose data hold all of `same` (which is not empty)."""
    known = tuple(records)
    exact = next((record for record in known if record.unique_id == unique_id), None)
    if exact is not None or not same:
        return exact
    return next((one for one in known if all(one.data.get(key) == value for key, value in same.items())), None)
