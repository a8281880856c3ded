"""Access tokens and keys, with a forger at work."""

from __future__ import annotations

import base64
import json
import stat
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.domain.errors import StorageError, UnauthenticatedError
from core.domain.ids import AccountId, UserId
from core.domain.limits import ACCESS_TOKEN_TTL
from core.identity.access_tokens import AccessTokens
from core.identity.keys import KEY_LIFE, KEY_OVERLAP, SigningKeys
from tests.core.identity.house import ISSUER, House
from tests.fakes.clock import ManualClock


class Mint:
    """Our tokens, and a forger who knows everything but the key."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.folder = folder
        self.keys = SigningKeys.open(folder, self.clock)
        self.tokens = AccessTokens(self.keys, ISSUER, self.clock)

    def issue(self) -> str:
        return self.tokens.issue(user_id=UserId("u"), account_id=AccountId("a"), name="ann", session_id="s")[0]

    def claims(self, **changed: Any) -> dict[str, Any]:
        claims = jwt.decode(self.issue(), options={"verify_signature": False, "verify_exp": False})
        return {name: value for name, value in {**claims, **changed}.items() if value is not ...}

    def sign(self, claims: dict[str, Any], *, key: Any = None, algorithm: str = "EdDSA", **headers: Any) -> str:
        headers = {"kid": self.keys.current.kid, "typ": "at+jwt", **headers}
        return jwt.encode(
            claims, self.keys.current.private if key is None else key, algorithm=algorithm, headers=headers
        )


@pytest.fixture
def mint(tmp_path: Path) -> Mint:
    return Mint(tmp_path / "keys")


def test_what_was_issued_is_read(mint: Mint) -> None:
    claims = mint.tokens.read(mint.issue())
    assert (claims.sub, claims.acc, claims.name, claims.sid, claims.kind) == ("u", "a", "ann", "s", "user")
    assert claims.exp - claims.iat == ACCESS_TOKEN_TTL.total_seconds()
    assert mint.tokens.read(mint.sign(mint.claims()))


def test_no_algorithm_is_no_signature(mint: Mint) -> None:
    def part(value: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    body = part(mint.claims())
    for algorithm in ("none", "None", "NONE", ""):
        header = part({"alg": algorithm, "typ": "at+jwt", "kid": mint.keys.current.kid})
        for signature in ("", mint.issue().rsplit(".", 1)[1]):
            with pytest.raises(UnauthenticatedError):
                mint.tokens.read(f"{header}.{body}.{signature}")


def test_the_public_key_is_no_shared_secret(mint: Mint) -> None:
    """The classic confusion: HS256 with the published key as its secret."""
    public = mint.keys.current.public.public_bytes_raw()
    with pytest.raises(UnauthenticatedError):
        mint.tokens.read(mint.sign(mint.claims(), key=public, algorithm="HS256"))


def test_foreign_keys_issuers_and_types_are_refused(mint: Mint, tmp_path: Path) -> None:
    other = Mint(tmp_path / "other")
    for token in (
        other.issue(),
        mint.sign(mint.claims(), key=Ed25519PrivateKey.generate()),
        mint.sign(mint.claims(), kid="no-such"),
        mint.sign(mint.claims(), kid=""),
        mint.sign(mint.claims(), typ="JWT"),
        mint.sign(mint.claims(), typ="command+jwt"),
        mint.sign(mint.claims(iss="https://evil.example")),
        mint.sign(mint.claims(iss=...)),
    ):
        with pytest.raises(UnauthenticatedError):
            mint.tokens.read(token)


@pytest.mark.parametrize(
    "changed",
    [
        {"exp": ...},
        {"sub": ...},
        {"acc": ...},
        {"sid": ...},
        {"exp": "never"},
        {"exp": 1e400},
        {"sub": 7},
        {"sub": None},
        {"kind": "service"},
        {"kind": "admin"},
        {"iat": 4_000_000_000},
    ],
)
def test_claims_that_cannot_be_are_refused_even_if_signed(mint: Mint, changed: dict[str, Any]) -> None:
    with pytest.raises(UnauthenticatedError):
        mint.tokens.read(mint.sign(mint.claims(**changed)))


def test_tampering_with_claims_breaks_the_signature(mint: Mint) -> None:
    head, body, signature = mint.issue().split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    for name, value in (("acc", "other"), ("sub", "owner"), ("exp", claims["exp"] + 1), ("sid", "x")):
        forged = base64.urlsafe_b64encode(json.dumps({**claims, name: value}).encode()).rstrip(b"=").decode()
        with pytest.raises(UnauthenticatedError):
            mint.tokens.read(f"{head}.{forged}.{signature}")


def test_it_expires_to_the_second(mint: Mint) -> None:
    token = mint.issue()
    mint.clock.advance(ACCESS_TOKEN_TTL.total_seconds() - 1)
    mint.tokens.read(token)
    mint.clock.advance(1)
    with pytest.raises(UnauthenticatedError):
        mint.tokens.read(token)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=200), cut=st.integers(0, 400), where=st.integers(0, 2))
def test_rubbish_is_refused_and_never_breaks_anything(mint: Mint, text: str, cut: int, where: int) -> None:
    parts = mint.issue().split(".")
    parts[where] = text
    for token in (text, ".".join(parts), mint.issue()[:cut], f"{mint.issue()}.{text}"):
        if token != mint.issue():
            with pytest.raises(UnauthenticatedError):
                mint.tokens.read(token)


# Keys


def test_keys_survive_a_restart_and_are_for_their_owner_only(mint: Mint) -> None:
    token = mint.issue()
    assert stat.S_IMODE(mint.folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in mint.folder.iterdir()} == {0o600}
    again = SigningKeys.open(mint.folder, mint.clock)
    assert again.current.kid == mint.keys.current.kid
    assert AccessTokens(again, ISSUER, mint.clock).read(token)


def test_rotation_overlaps_and_the_old_key_goes_when_its_time_is_over(mint: Mint) -> None:
    old = mint.issue()
    old_kid = mint.keys.current.kid
    assert not mint.keys.is_due()
    mint.clock.advance(KEY_LIFE.total_seconds())
    assert mint.keys.is_due()
    token = mint.sign(mint.claims())
    mint.keys.rotate()
    assert mint.keys.current.kid != old_kid
    assert [key["kid"] for key in mint.keys.jwks()["keys"]] == [mint.keys.current.kid, old_kid]
    assert mint.tokens.read(token)
    assert mint.tokens.read(mint.issue())
    mint.keys.expire()
    assert mint.tokens.read(token)
    mint.clock.advance(KEY_OVERLAP.total_seconds())
    mint.keys.expire()
    assert [key["kid"] for key in mint.keys.jwks()["keys"]] == [mint.keys.current.kid]
    assert len(list(mint.folder.iterdir())) == 1
    with pytest.raises(UnauthenticatedError):
        mint.tokens.read(old)


def test_a_key_made_with_a_wrong_clock_still_comes_after_the_older_one(mint: Mint) -> None:
    mint.clock.jump(-86_400 * 365)
    kid = mint.keys.rotate().kid
    assert SigningKeys.open(mint.folder, mint.clock).current.kid == kid


def test_anybody_verifies_with_the_published_keys(mint: Mint) -> None:
    (published,) = jwt.PyJWKSet.from_dict(mint.keys.jwks()).keys
    assert published.key_id == mint.keys.current.kid
    claims = jwt.decode(
        mint.issue(), published, algorithms=["EdDSA"], issuer=ISSUER, options={"verify_exp": False, "verify_iat": False}
    )
    assert claims["sub"] == "u"
    assert "d" not in mint.keys.jwks()["keys"][0]


def test_a_key_that_others_could_read_is_tightened(mint: Mint) -> None:
    mint.keys.current.file.chmod(0o644)
    again = SigningKeys.open(mint.folder, mint.clock)
    assert stat.S_IMODE(again.current.file.stat().st_mode) == 0o600


def test_a_damaged_or_foreign_key_is_named_and_never_used(mint: Mint) -> None:
    file = mint.keys.current.file
    good = file.read_bytes()
    other = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    for content in (b"", good[:40], other):
        file.write_bytes(content)
        with pytest.raises(StorageError, match=file.stem):
            SigningKeys.open(mint.folder, mint.clock)


def test_a_draft_left_by_a_power_cut_does_not_matter(mint: Mint) -> None:
    (mint.folder / "000002-x.new").write_bytes(b"half")
    assert SigningKeys.open(mint.folder, mint.clock).current.kid == mint.keys.current.kid


def test_a_folder_that_cannot_be_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError):
        SigningKeys.open(tmp_path / "file" / "keys", ManualClock())


async def test_sweeping_rotates_when_due_and_tokens_go_on(house: House) -> None:
    await house.owner("ann")
    kid = house.keys.current.kid
    house.clock.advance(KEY_LIFE.total_seconds())
    pair = await house.pair("ann")
    await house.service.sweep()
    assert house.keys.current.kid != kid
    assert await house.service.verify(pair.access_token)
    assert len(house.service.jwks()["keys"]) == 2


async def test_a_token_smuggling_another_account_or_session_is_refused_even_if_signed(house: House) -> None:
    ann, bob = await house.owner("ann"), await house.owner("bob")
    mint = AccessTokens(house.keys, ISSUER, house.clock)
    for account, session in ((ann.account_id, bob.session_id), (bob.account_id, ann.session_id)):
        token, _ = mint.issue(user_id=bob.subject, account_id=account, name="bob", session_id=session)
        with pytest.raises(UnauthenticatedError):
            await house.service.verify(token)
