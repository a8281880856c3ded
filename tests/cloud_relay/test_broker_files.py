"""Hashes, rights and configuration of the relay's Mosquitto, as text."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloud_relay.broker import mosquitto_files as files
from cloud_relay.broker.passwords import does_match, hash_password, is_password_hash


@settings(max_examples=30, deadline=None)
@given(st.text(max_size=40), st.text(max_size=40))
def test_a_hash_holds_for_its_password_only(password: str, other: str) -> None:
    hashed = hash_password(password)
    assert is_password_hash(hashed)
    assert does_match(password, hashed)
    assert does_match(other, hashed) is (other == password)
    assert password == "" or len(password) < 3 or password not in hashed


def test_hashes_are_salted() -> None:
    assert hash_password("x") != hash_password("x")


@pytest.mark.skipif(shutil.which("mosquitto_passwd") is None, reason="mosquitto_passwd is not installed")
def test_the_hash_is_the_one_that_mosquitto_writes(tmp_path: Path) -> None:
    file = tmp_path / "passwords"
    subprocess.run(["mosquitto_passwd", "-c", "-b", str(file), "ada", "secret word"], check=True, capture_output=True)
    assert does_match("secret word", file.read_text().strip().partition(":")[2])


@pytest.mark.parametrize("text", ["", "x", "$6$abc$def", "$7$101$c2FsdA==$short", "$7$x$c2FsdA==$c2FsdA==", "$7$1$\n$"])
def test_other_texts_are_no_hashes(text: str) -> None:
    assert not is_password_hash(text)
    assert not does_match("x", text)


def test_a_password_file_is_read_back_without_the_relay_and_without_damage() -> None:
    hashes = {"e1": hash_password("a"), "e2": hash_password("b")}
    text = files.passwords({**hashes, files.RELAY_USER: hash_password("c")})
    assert files.parse_passwords(text + "e3:nonsense\n../e:x\n\n") == hashes


def test_nobody_is_let_in_without_a_name() -> None:
    text = files.configuration(Path("/d"), (files.Listener(host="127.0.0.1", port=1),), user="u")
    assert "allow_anonymous false\n" in text
    assert "listener 1 127.0.0.1\n" in text
    assert "certfile" not in text


def test_the_banner_tells_the_version() -> None:
    assert files.parse_version("mosquitto version 2.0.11\n\nmosquitto is") == (2, 0, 11)
    assert files.parse_version("nginx 1.2.3") is None
