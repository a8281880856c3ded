"""Bundles: one text, for one box, for a time."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.domain.errors import ConflictError, InvalidInputError, LimitExceededError
from core.platform.handover.bundle import BundleContent, HandedEntry, pack, unpack
from core.platform.handover.sealed_box import public_of

PRIVATE = os.urandom(32)
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
PIN = "4711-the-pin"
CONTENT = BundleContent(
    from_box="Van",
    entries=(HandedEntry(domain="simulator", title="Shaun", unique_id="seed-1", secrets={"pin": PIN}),),
)


def packed(content: BundleContent = CONTENT, days: float = 14) -> str:
    keeps = timedelta(days=days)
    return pack(content, recipient=public_of(PRIVATE), now=NOW, keeps=keeps, random=os.urandom)[1]


TEXT = packed()


def test_it_opens_for_its_box_and_shows_nothing_to_others():
    header, content = unpack(TEXT, private=PRIVATE, now=NOW)
    assert content == CONTENT
    assert header.expires_at == NOW + timedelta(days=14)
    assert unpack(TEXT + "\n", private=PRIVATE, now=NOW)[1] == CONTENT
    for hidden in (PIN, "Shaun", "Van", "simulator"):
        assert hidden not in TEXT
    assert PIN not in repr(content)
    assert PIN not in repr(content.entries)


@given(st.integers(0, len(TEXT) - 1), st.integers(1, 127))
@settings(max_examples=400)
def test_a_changed_character_anywhere_is_refused(at: int, change: int):
    wrong = TEXT[:at] + chr(ord(TEXT[at]) ^ change) + TEXT[at + 1 :]
    with pytest.raises((InvalidInputError, ConflictError)):
        unpack(wrong, private=PRIVATE, now=NOW)


@given(st.integers(0, len(TEXT) - 1))
def test_a_cut_one_is_refused(length: int):
    with pytest.raises(InvalidInputError):
        unpack(TEXT[:length], private=PRIVATE, now=NOW)


def test_the_last_letter_counts_whole():
    """Base64 has letters whose last bits mean nothing; another one of those is another text."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    last = len(TEXT) - 1 - len('"}') - TEXT.count("=")
    for letter in alphabet:
        if letter != TEXT[last]:
            with pytest.raises(InvalidInputError):
                unpack(TEXT[:last] + letter + TEXT[last + 1 :], private=PRIVATE, now=NOW)


def test_a_bundle_for_another_box_says_for_which():
    with pytest.raises(ConflictError, match=r"is for another box, with the fingerprint [0-9 ]{29}"):
        unpack(TEXT, private=os.urandom(32), now=NOW)


def test_it_expires_and_a_clock_that_was_set_back_does_not_help():
    unpack(TEXT, private=PRIVATE, now=NOW + timedelta(days=14, seconds=-1))
    with pytest.raises(ConflictError, match="expired"):
        unpack(TEXT, private=PRIVATE, now=NOW + timedelta(days=14))
    with pytest.raises(ConflictError, match="was made at"):
        unpack(TEXT, private=PRIVATE, now=NOW - timedelta(days=1))
    late = json.loads(TEXT)
    late["header"]["expires_at"] = "2036-01-01T00:00:00Z"
    with pytest.raises(InvalidInputError):
        unpack(json.dumps(late, separators=(",", ":")), private=PRIVATE, now=NOW)


def test_a_newer_version_is_named():
    newer = json.loads(TEXT)
    newer["header"]["version"] = 2
    with pytest.raises(InvalidInputError, match="version 2"):
        unpack(json.dumps(newer), private=PRIVATE, now=NOW)


def test_what_is_sealed_has_to_make_sense():
    for content in (BundleContent(from_box="x", entries=()), {"entries": PIN}):
        with pytest.raises(InvalidInputError) as refused:
            unpack(packed(content), private=PRIVATE, now=NOW)
        assert PIN not in str(refused.value)


def test_a_bundle_fits_into_a_request():
    big = HandedEntry(domain="simulator", title="Shaun", data={"x": "y" * 1_000_000})
    with pytest.raises(LimitExceededError):
        packed(BundleContent(from_box="Van", entries=(big,)))
