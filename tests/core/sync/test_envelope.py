"""Signed commands: only what a pinned key signed, as a command, with the pinned algorithm."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st

from core.domain.commands import IssuedBy, Priority, StartMow
from core.domain.drive import DriveFrame
from core.domain.errors import InvalidInputError, MalformedMessageError, SignatureError, SyncError
from core.domain.ids import AccountId, CommandId, EdgeId, MowerId
from core.sync.envelope import (
    export_public_key,
    import_jwk,
    import_public_key,
    key_id_of,
    public_jwk,
    sign,
    sign_cancel,
    sign_drive,
    verify,
    verify_cancel,
    verify_drive,
)
from core.sync.messages import CancelEnvelope, CommandEnvelope, DriveMessage, encode
from core.sync.topics import DOWN_CANCEL, parse_topic, topic, topic_filter

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
KEYS = {"k1": KEY.public_key()}
AT = datetime(2026, 6, 1, 8, tzinfo=UTC)
ENVELOPE = CommandEnvelope(
    command_id=CommandId("c1"),
    account_id=AccountId("a1"),
    edge_id=EdgeId("e1"),
    mower_id=MowerId("m1"),
    command=StartMow(area_ids=("front",), duration_s=600),
    priority=Priority.NORMAL,
    issued_by=IssuedBy(kind="user", subject="u1", display="Ada"),
    issued_at=AT,
    expires_at=AT + timedelta(seconds=30),
    correlation_id="x1",
)

CANCEL = CancelEnvelope(
    command_id=CommandId("c1"),
    account_id=AccountId("a1"),
    edge_id=EdgeId("e1"),
    mower_id=MowerId("m1"),
    reason="who gave it may not do this any more",
    issued_at=AT,
)


def _segment(value: object) -> bytes:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")


def test_what_was_signed_comes_back() -> None:
    assert verify(sign(ENVELOPE, KEY, "k1"), KEYS) == ENVELOPE


def test_a_cancel_comes_back_and_only_from_a_pinned_key() -> None:
    assert verify_cancel(sign_cancel(CANCEL, KEY, "k1"), KEYS) == CANCEL
    for data in (sign_cancel(CANCEL, OTHER, "k1"), sign_cancel(CANCEL, KEY, "k2"), encode(CANCEL), b"a" * 70_000):
        with pytest.raises(SignatureError):
            verify_cancel(data, KEYS)


def test_neither_passes_as_the_other() -> None:
    with pytest.raises(SignatureError, match="not signed as"):
        verify(sign_cancel(CANCEL, KEY, "k1"), KEYS)
    with pytest.raises(SignatureError, match="not signed as"):
        verify_cancel(sign(ENVELOPE, KEY, "k1"), KEYS)


def test_the_header_cannot_be_exchanged_either() -> None:
    command, cancel = (data.split(b".") for data in (sign(ENVELOPE, KEY, "k1"), sign_cancel(CANCEL, KEY, "k1")))
    with pytest.raises(SignatureError, match="does not hold"):
        verify_cancel(b".".join((cancel[0], command[1], command[2])), KEYS)
    with pytest.raises(SignatureError, match="does not hold"):
        verify(b".".join((command[0], cancel[1], cancel[2])), KEYS)


def test_cancels_have_a_branch_of_their_own() -> None:
    where = topic(EdgeId("e1"), DOWN_CANCEL, MowerId("m1"))
    assert where == "mowdeck/v1/edges/e1/down/cancel/m1"
    assert (parse_topic(where).branch, parse_topic(where).tail) == (DOWN_CANCEL, "m1")
    assert topic_filter(DOWN_CANCEL, EdgeId("e1")) == "mowdeck/v1/edges/e1/down/cancel/+"


def test_a_key_may_change_while_both_are_pinned() -> None:
    both = {"k1": KEY.public_key(), "k2": OTHER.public_key()}
    assert verify(sign(ENVELOPE, OTHER, "k2"), both) == ENVELOPE


@pytest.mark.parametrize(
    "data",
    [
        sign(ENVELOPE, OTHER, "k1"),
        sign(ENVELOPE, KEY, "k2"),
        _segment({"alg": "none", "typ": "mowdeck-command", "kid": "k1"}) + b"." + _segment({}) + b".",
        jwt.encode({}, KEY, algorithm="EdDSA", headers={"kid": "k1"}).encode(),
        jwt.encode(
            {},
            export_public_key(KEY.public_key()) * 2,
            algorithm="HS256",
            headers={"kid": "k1", "typ": "mowdeck-command"},
        ).encode(),
        b"",
        b"..",
        b"\xff.\xff.\xff",
        b"a" * 70_000,
    ],
    ids=["foreign-key", "unknown-kid", "alg-none", "other-type", "symmetric", "empty", "dots", "no-ascii", "long"],
)
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(SignatureError):
        verify(data, KEYS)


def test_the_payload_cannot_be_exchanged() -> None:
    header, _, signature = sign(ENVELOPE, KEY, "k1").split(b".")
    forged = base64.urlsafe_b64encode(encode(ENVELOPE).replace(b"front", b"frond")).rstrip(b"=")
    with pytest.raises(SignatureError):
        verify(b".".join((header, forged, signature)), KEYS)


def test_a_signed_payload_that_is_not_understood_is_malformed() -> None:
    token = jwt.PyJWS().encode(
        b'{"command":{"kind":"fly"}}', KEY, algorithm="EdDSA", headers={"kid": "k1", "typ": "mowdeck-command"}
    )
    with pytest.raises(MalformedMessageError):
        verify(token.encode(), KEYS)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2_000), st.integers(1, 255))
def test_no_changed_byte_passes(position: int, change: int) -> None:
    data = bytearray(sign(ENVELOPE, KEY, "k1"))
    position %= len(data)
    data[position] ^= change
    try:
        got = verify(bytes(data), KEYS)
    except SyncError:
        return
    # base64url has spare bits at its end: another spelling of the very same signature may pass
    assert got == ENVELOPE
    assert position == len(data) - 1


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
def test_bytes_at_random_are_refused(data: bytes) -> None:
    with pytest.raises(SignatureError):
        verify(data, KEYS)


def test_public_keys_travel_as_text() -> None:
    text = export_public_key(KEY.public_key())
    assert len(text) == 43
    key = import_public_key(text)
    assert isinstance(key, Ed25519PublicKey)
    assert verify(sign(ENVELOPE, KEY, "k1"), {"k1": key}) == ENVELOPE


@pytest.mark.parametrize("text", ["", "short", "ü" * 43, "!" * 43, "A" * 44])
def test_a_wrong_public_key_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError):
        import_public_key(text)


def test_the_thumbprint_is_the_standards() -> None:
    # RFC 8037, appendix A.2 and A.3
    key = import_public_key("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo")
    assert key_id_of(key) == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
    assert import_jwk(public_jwk(key, "k1"))[0] == "k1"
    assert export_public_key(import_jwk(public_jwk(key, "k1"))[1]) == export_public_key(key)
    with pytest.raises(InvalidInputError):
        import_jwk({"kty": "RSA", "kid": "k1", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"})
    assert public_jwk(key, "k1") == {
        "kty": "OKP",
        "crv": "Ed25519",
        "alg": "EdDSA",
        "use": "sig",
        "kid": "k1",
        "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
    }


# -- joystick frames

MESSAGE = DriveMessage(
    session_id=CommandId("c"),
    edge_id=EdgeId("e"),
    mower_id=MowerId("m"),
    frame=DriveFrame(sequence=1, linear=0.5, angular=0.0),
)


def test_a_frame_comes_back_as_it_was_signed() -> None:
    assert verify_drive(sign_drive(MESSAGE, KEY, "k1"), KEYS) == MESSAGE


def test_a_frame_is_no_command_and_a_command_no_frame() -> None:
    with pytest.raises(SignatureError, match="mowdeck-command"):
        verify(sign_drive(MESSAGE, KEY, "k1"), KEYS)
    with pytest.raises(SignatureError, match="mowdeck-drive"):
        verify_drive(sign(ENVELOPE, KEY, "k1"), KEYS)


def test_a_frame_of_another_key_is_refused() -> None:
    with pytest.raises(SignatureError):
        verify_drive(sign_drive(MESSAGE, Ed25519PrivateKey.generate(), "k1"), KEYS)
