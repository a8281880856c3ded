"""Kinds of records: small documents about a mower that change over time, each with its body as a type.

A kind is only a name to the journal, the store and the relay: they keep what they do not know. So a newer box may
send kinds that its relay learns about later.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

import msgspec

from core.domain import limits
from core.domain.ids import MowerId
from core.telemetry.rows import RecordRow

B = TypeVar("B", bound=msgspec.Struct)
_encoder = msgspec.json.Encoder()
_objects = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordKind(Generic[B]):
    """One kind: its name (lower case, `_`), its body, and how long its records are kept (None: for ever)."""

    name: str
    body: type[B]
    keep: timedelta | None = limits.RECORD_RETENTION

    def make(self, mower_id: MowerId, key: str, body: B, *, at: datetime, updated_at: datetime) -> RecordRow:
        """A version of the record `key`. The store refuses a body of more than limits.RECORD_BYTES."""
        return RecordRow(
            mower_id=mower_id,
            kind=self.name,
            key=key,
            at=at,
            updated_at=updated_at,
            body=_encoder.encode(body),
        )

    def read(self, row: RecordRow) -> B | None:
        """The body; None when it has a shape that this version does not know."""
        try:
            return msgspec.json.decode(row.body, type=self.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None


def find_body_fault(body: bytes) -> str | None:
    """Why these bytes cannot be the body of a record (`too-large`, `malformed`); None when they can."""
    if len(body) > limits.RECORD_BYTES:
        return "too-large"
    try:
        _objects.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "malformed"
    return None


def is_newer(row: RecordRow, known: RecordRow) -> bool:
    """Whether `row` replaces `known`, a version of the same record. Versions of one instant are ordered by their
    bytes, so that both sides keep the same one whatever the order in which they came."""
    return (row.updated_at, row.body) > (known.updated_at, known.body)
