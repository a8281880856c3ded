"""Settings: precedence, and every mistake at once."""

from __future__ import annotations

import pytest

from core.domain.errors import SettingsError
from core.settings import validators as v
from core.settings.table import Setting, read_settings

TABLE = (
    Setting(name="listen_port", help="port", default=8080, validator=v.port),
    Setting(name="name", help="name", default=None, validator=v.text),
    Setting(name="admin_password", help="secret", default=None, validator=v.text, is_secret=True),
    Setting(name="zone", help="zone", default="UTC", validator=v.time_zone),
)


def test_environment_beats_file_beats_default(tmp_path):
    file = tmp_path / "mowdeck.toml"
    file.write_text('[edge]\nlisten_port = 1\nname = "from file"\n[relay]\nother = 1\n')
    values = read_settings("edge", TABLE, {"MOWDECK_CONFIG": str(file), "MOWDECK_EDGE_LISTEN_PORT": "2"})
    assert values == {"listen_port": 2, "name": "from file", "zone": "UTC"}


def test_every_mistake_is_reported_at_once_and_secrets_are_not_repeated(tmp_path):
    file = tmp_path / "mowdeck.toml"
    file.write_text('[edge]\nlisten_prot = 1\nzone = "Mars/Olympus"\n[egde]\n')
    environ = {
        "MOWDECK_CONFIG": str(file),
        "MOWDECK_EDGE_LISTEN_PORT": "many",
        "MOWDECK_EDGE_NAEM": "x",
        "MOWDECK_EDGE_ADMIN_PASSWORD": " ",
        "MOWDECK_RELAY_LISTEN_PORT": "not ours to judge",
    }
    with pytest.raises(SettingsError) as caught:
        read_settings("edge", TABLE, environ)
    reasons = {m.field: m.reason for m in caught.value.mistakes}
    assert reasons == {
        f"{file} [edge] listen_prot": "unknown setting; did you mean listen_port?",
        f"{file} [egde]": "unknown section; did you mean edge?",
        "MOWDECK_EDGE_NAEM": "unknown setting; did you mean MOWDECK_EDGE_NAME?",
        "MOWDECK_EDGE_LISTEN_PORT": "must be a whole number",
        f"{file} [edge] zone": "must be a time zone such as Europe/Berlin",
        "MOWDECK_EDGE_ADMIN_PASSWORD": "must not be empty",
    }


def test_a_secret_comes_from_a_file(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("hunter2hunter2\n")
    assert read_settings("edge", TABLE, {"MOWDECK_EDGE_ADMIN_PASSWORD_FILE": str(secret)})["admin_password"] == (
        "hunter2hunter2"
    )
    with pytest.raises(SettingsError, match="cannot be read"):
        read_settings("edge", TABLE, {"MOWDECK_EDGE_ADMIN_PASSWORD_FILE": str(tmp_path / "absent")})


def test_a_broken_file_says_where(tmp_path):
    file = tmp_path / "mowdeck.toml"
    file.write_text("[edge\n")
    with pytest.raises(SettingsError, match="line 1"):
        read_settings("edge", TABLE, {"MOWDECK_CONFIG": str(file)})


@pytest.mark.parametrize(
    ("validator", "value", "expected"),
    [
        (v.boolean, "on", True),
        (v.boolean, False, False),
        (v.http_url, "https://a.example:8443/", "https://a.example:8443"),
        (v.words, "a, b,", ("a", "b")),
        (v.host, "::1", "::1"),
    ],
)
def test_validators_accept(validator, value, expected):
    assert validator(value) == expected


@pytest.mark.parametrize(
    ("validator", "value"),
    [
        (v.boolean, "maybe"),
        (v.port, "65536"),
        (v.port, True),
        (v.http_url, "ftp://a"),
        (v.http_url, "https://user:secret@a"),
        (v.http_url, "http://a:port"),
        (v.host, "a b"),
        (v.words, 3),
    ],
)
def test_validators_refuse(validator, value):
    with pytest.raises(Exception, match="must be"):
        validator(value)
