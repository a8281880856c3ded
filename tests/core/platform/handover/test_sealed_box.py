"""Sealing: only the right key opens it, and not after a single byte has changed."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.domain.errors import InvalidInputError
from core.platform.handover.recipient import decode_key, encode_key, fingerprint_of
from core.platform.handover.sealed_box import public_of, seal, unseal

KEYS = st.binary(min_size=32, max_size=32)


def sealed_for(private: bytes, plain: bytes, header: bytes = b"header") -> bytes:
    return seal(plain, recipient=public_of(private), header=header, random=os.urandom)


@given(KEYS, st.binary(max_size=200), st.binary(max_size=50))
def test_what_is_sealed_comes_out(private: bytes, plain: bytes, header: bytes):
    sealed = sealed_for(private, plain, header)
    assert unseal(sealed, private=private, header=header) == plain
    assert len(plain) < 8 or plain not in sealed


@given(KEYS, st.binary(max_size=60), st.data())
def test_a_flipped_bit_anywhere_is_refused(private: bytes, plain: bytes, data: st.DataObject):
    sealed = bytearray(sealed_for(private, plain))
    sealed[data.draw(st.integers(0, len(sealed) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(InvalidInputError):
        unseal(bytes(sealed), private=private, header=b"header")


@given(KEYS, st.binary(max_size=60), st.data())
def test_what_is_cut_short_or_longer_is_refused(private: bytes, plain: bytes, data: st.DataObject):
    sealed = sealed_for(private, plain)
    with pytest.raises(InvalidInputError):
        unseal(sealed[: data.draw(st.integers(0, len(sealed) - 1))], private=private, header=b"header")
    with pytest.raises(InvalidInputError):
        unseal(sealed + b"\0", private=private, header=b"header")


@given(KEYS, KEYS)
def test_another_key_or_another_header_is_refused(private: bytes, other: bytes):
    sealed = sealed_for(private, b"a PIN")
    with pytest.raises(InvalidInputError):
        unseal(sealed, private=private, header=b"Header")
    if public_of(private) != public_of(other):
        with pytest.raises(InvalidInputError):
            unseal(sealed, private=other, header=b"header")


def test_two_seals_of_the_same_are_not_alike():
    private = os.urandom(32)
    assert sealed_for(private, b"a PIN") != sealed_for(private, b"a PIN")


LOW_ORDER = (bytes(32), (1).to_bytes(32, "little"))


@pytest.mark.parametrize("key", [*LOW_ORDER, b"short", bytes(33)])
def test_a_key_that_is_none_is_refused(key: bytes):
    """A point of low order would make a secret that everybody knows."""
    with pytest.raises(InvalidInputError):
        seal(b"a PIN", recipient=key, header=b"", random=os.urandom)
    with pytest.raises(InvalidInputError):
        unseal(key + bytes(40), private=os.urandom(32), header=b"")


@given(KEYS)
def test_a_key_can_be_typed(key: bytes):
    text = encode_key(key)
    assert decode_key(text) == decode_key(f"  {text.lower().replace('-', ' ')}\n") == key
    assert len(text.replace("-", "")) == 56
    assert [len(group) for group in fingerprint_of(key).split()] == [5] * 5


@given(KEYS, st.integers(0, 55), st.sampled_from("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"))
@settings(max_examples=200)
def test_a_typing_error_is_seen(key: bytes, at: int, letter: str):
    letters = encode_key(key).replace("-", "")
    wrong = letters[:at] + letter + letters[at + 1 :]
    if wrong != letters:
        with pytest.raises(InvalidInputError):
            decode_key(wrong)


@pytest.mark.parametrize("text", ["", "hello", "A" * 55, "ä" * 56, "A" * 64, "1" * 56])
def test_what_is_no_key_is_refused(text: str):
    with pytest.raises(InvalidInputError):
        decode_key(text)
