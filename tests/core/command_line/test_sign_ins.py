"""The file with a person's sign-ins."""

from __future__ import annotations

import stat
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.command_line.sign_ins import SignIn, SignIns
from core.domain.errors import InvalidInputError

BOX, RELAY = "http://box:8481", "https://relay.example"


def sign_in(host: str = BOX, token: str = "secret-access") -> SignIn:
    return SignIn(
        host=host,
        username="anna",
        access_token=token,
        access_expires_at=datetime(2026, 6, 1, tzinfo=UTC),
        refresh_token="secret-refresh",
    )


def test_nothing_is_known_at_first(tmp_path: Path):
    sign_ins = SignIns(tmp_path / "absent")
    assert sign_ins.get(BOX) is None
    assert sign_ins.last_host is None
    assert not (tmp_path / "absent").exists()


def test_a_sign_in_per_host_and_the_last_is_the_default(tmp_path: Path):
    SignIns(tmp_path).put(sign_in(BOX), is_last=True)
    SignIns(tmp_path).put(sign_in(RELAY), is_last=True)
    SignIns(tmp_path).put(sign_in(BOX, "renewed"), is_last=False)
    sign_ins = SignIns(tmp_path)
    assert sign_ins.last_host == RELAY
    assert sign_ins.get(BOX) == sign_in(BOX, "renewed")
    sign_ins.drop(RELAY)
    assert (sign_ins.get(RELAY), sign_ins.last_host) == (None, BOX)
    sign_ins.drop(BOX)
    assert sign_ins.last_host is None


def test_only_the_person_may_read_it(tmp_path: Path):
    home = tmp_path / "config"
    (home).mkdir()
    left_behind = home / "sign-ins.new"
    left_behind.touch(mode=0o644)
    left_behind.chmod(0o644)
    SignIns(home).put(sign_in(), is_last=True)
    assert stat.S_IMODE((home / "sign-ins.json").stat().st_mode) == 0o600
    assert not left_behind.exists()
    SignIns(tmp_path / "new").put(sign_in(), is_last=True)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"sign_ins": {"x": {}}}', "\x00"])
def test_a_damaged_file_says_what_to_do(tmp_path: Path, damage: str):
    (tmp_path / "sign-ins.json").write_text(damage)
    with pytest.raises(InvalidInputError) as caught:
        SignIns(tmp_path).get(BOX)
    assert "sign-ins.json" in caught.value.detail
    assert caught.value.advice == "Remove it and sign in again."
    assert (tmp_path / "sign-ins.json").read_text() == damage


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInputError, match="file"):
        SignIns(tmp_path / "file" / "config").put(sign_in(), is_last=True)


def test_no_secret_in_words():
    assert "secret" not in repr(sign_in())


def test_the_lock_is_for_one_at_a_time(tmp_path: Path):
    order: list[str] = []

    def other() -> None:
        with SignIns(tmp_path).locked():
            order.append("other")

    with SignIns(tmp_path).locked():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(0.1)
        order.append("first")
    thread.join(5)
    assert order == ["first", "other"]
