"""Settings of the relay: defaults that start, and mistakes that are all told at once."""

from __future__ import annotations

import pytest

from cloud_relay.settings import TABLE, RelaySettings, load_settings
from core.domain.errors import SettingsError


def fields(environ):
    with pytest.raises(SettingsError) as caught:
        load_settings(environ)
    return {m.field for m in caught.value.mistakes}


def test_defaults(tmp_path):
    settings = load_settings({"MOWDECK_RELAY_DATA_DIR": str(tmp_path)})
    assert settings == RelaySettings(data_dir=tmp_path)
    assert settings.detail_days == 90
    assert settings.relational_url == f"sqlite+aiosqlite:///{tmp_path}/relay.sqlite3"
    assert {s.name for s in TABLE} == set(RelaySettings.__dataclass_fields__)


def test_postgresql_is_refused_clearly():
    with pytest.raises(SettingsError, match="PostgreSQL is not supported"):
        load_settings({"MOWDECK_RELAY_DATABASE_URL": "postgresql+asyncpg://h/db"})


def test_broker_outside_of_loopback_needs_tls():
    assert fields({"MOWDECK_RELAY_BROKER_HOST": "0.0.0.0"}) == {"MOWDECK_RELAY_BROKER_TLS_CERT"}


def test_external_broker(tmp_path):
    assert fields({"MOWDECK_RELAY_BROKER": "external", "MOWDECK_RELAY_BROKER_PORT": "0"}) == {
        "MOWDECK_RELAY_BROKER_USERNAME",
        "MOWDECK_RELAY_BROKER_PORT",
    }
    secret = tmp_path / "password"
    secret.write_text("s3cret\n")
    settings = load_settings(
        {
            "MOWDECK_RELAY_BROKER": "external",
            "MOWDECK_RELAY_BROKER_HOST": "mqtt.example",
            "MOWDECK_RELAY_BROKER_USERNAME": "relay",
            "MOWDECK_RELAY_BROKER_PASSWORD_FILE": str(secret),
        }
    )
    assert settings.broker_password == "s3cret"
    assert "s3cret" not in repr(settings)


def test_tls_off_only_on_loopback():
    environ = {
        "MOWDECK_RELAY_BROKER": "external",
        "MOWDECK_RELAY_BROKER_HOST": "mqtt.example",
        "MOWDECK_RELAY_BROKER_USERNAME": "u",
        "MOWDECK_RELAY_BROKER_PASSWORD": "p",
        "MOWDECK_RELAY_BROKER_TLS": "no",
    }
    assert fields(environ) == {"MOWDECK_RELAY_BROKER_TLS"}


def test_files_must_exist(tmp_path):
    cert = tmp_path / "cert.pem"
    cert.write_text("x")
    environ = {
        "MOWDECK_RELAY_BROKER_TLS_CERT": str(cert),
        "MOWDECK_RELAY_BROKER_TLS_KEY": str(tmp_path / "missing.pem"),
        "MOWDECK_RELAY_BROKER_CA": str(tmp_path / "missing.pem"),
    }
    assert fields(environ) == {"MOWDECK_RELAY_BROKER_TLS_KEY", "MOWDECK_RELAY_BROKER_CA"}


def test_unknown_setting_is_named():
    assert fields({"MOWDECK_RELAY_LISTEN_PROT": "1"}) == {"MOWDECK_RELAY_LISTEN_PROT"}


def test_retention_has_the_rules_of_the_box():
    assert fields({"MOWDECK_RELAY_POSITIONS_DAYS": "89"}) == {"MOWDECK_RELAY_POSITIONS_DAYS"}
    assert load_settings({"MOWDECK_RELAY_POSITIONS_DAYS": "90"}).positions_days == 90
    assert load_settings({"MOWDECK_RELAY_POSITIONS_DAYS": "0"}).positions_days == 0
    assert fields({"MOWDECK_RELAY_HISTORY_DAYS": "0", "MOWDECK_RELAY_TIMELINE_DAYS": "0"}) == {
        "MOWDECK_RELAY_HISTORY_DAYS",
        "MOWDECK_RELAY_TIMELINE_DAYS",
    }
