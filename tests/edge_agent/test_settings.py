"""The box's settings as the rest of it takes them."""

from __future__ import annotations

import socket
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.domain.errors import SettingsError
from edge_agent.settings import TABLE, EdgeSettings, load_settings


def test_the_defaults_are_a_box_that_only_this_machine_reaches():
    settings = load_settings({})
    assert (settings.listen_host, settings.listen_port) == ("127.0.0.1", 8481)
    assert settings.data_dir == Path("~/.local/share/mowdeck/edge").expanduser()
    assert settings.custom_integrations == settings.data_dir / "integrations"
    assert settings.box_name == socket.gethostname()
    assert (settings.metrics_token, settings.trust_clock, settings.announce) == (None, False, True)


def test_defaults_of_the_table_and_of_the_class_agree():
    assert load_settings({}) == EdgeSettings(data_dir=load_settings({}).data_dir)
    assert {setting.name for setting in TABLE} == set(EdgeSettings.__dataclass_fields__)


def test_everything_can_be_set(tmp_path: Path):
    given = {
        "LISTEN_HOST": "0.0.0.0",
        "LISTEN_PORT": "0",
        "DATA_DIR": str(tmp_path),
        "INTEGRATIONS_DIR": str(tmp_path / "plugins"),
        "NAME": "Shed",
        "ANNOUNCE": "false",
        "TRUST_CLOCK": "true",
        "BLUETOOTH": "hci0, hci1",
        "HISTORY_DAYS": "7",
        "POSITIONS_DAYS": "31",
        "DETAIL_DAYS": "30",
        "TIMELINE_DAYS": "8",
        "DISK_BUDGET_MIB": "128",
        "DISK_RESERVE_PERCENT": "20",
        "CARD_ENDURANCE_TBW": "58",
        "THINNING_FROM_HOUR": "22",
        "THINNING_UNTIL_HOUR": "2",
        "TIME_ZONE": "Europe/Berlin",
        "LOG_LEVEL": "debug",
        "LOG_FORMAT": "console",
        "METRICS_TOKEN": "t0ken",
    }
    assert {name.lower() for name in given} == {setting.name for setting in TABLE}
    settings = load_settings({f"MOWDECK_EDGE_{name}": value for name, value in given.items()})
    assert settings == EdgeSettings(
        listen_host="0.0.0.0",
        listen_port=0,
        data_dir=tmp_path,
        integrations_dir=tmp_path / "plugins",
        name="Shed",
        announce=False,
        trust_clock=True,
        bluetooth=("hci0", "hci1"),
        history_days=7,
        positions_days=31,
        timeline_days=8,
        disk_budget_mib=128,
        disk_reserve_percent=20,
        card_endurance_tbw=58,
        detail_days=30,
        thinning_from_hour=22,
        thinning_until_hour=2,
        time_zone="Europe/Berlin",
        log_level="debug",
        log_format="console",
        metrics_token="t0ken",
    )
    assert settings.custom_integrations == tmp_path / "plugins"
    assert settings.box_name == "Shed"
    assert "t0ken" not in repr(settings)


def test_the_hours_of_thinning_are_of_the_zone():
    settings = load_settings({"MOWDECK_EDGE_TIME_ZONE": "Pacific/Auckland"})
    assert settings.thinning_hours.is_open(datetime(2026, 6, 1, 14, 0, tzinfo=UTC))
    assert not settings.thinning_hours.is_open(datetime(2026, 6, 1, 2, 0, tzinfo=UTC))


@pytest.mark.parametrize(("positions", "detail"), [("20", "21"), ("7", "14")])
def test_a_track_is_not_gone_before_it_is_thinned(positions: str, detail: str):
    with pytest.raises(SettingsError) as caught:
        load_settings({"MOWDECK_EDGE_POSITIONS_DAYS": positions, "MOWDECK_EDGE_DETAIL_DAYS": detail})
    assert [mistake.field for mistake in caught.value.mistakes] == ["MOWDECK_EDGE_POSITIONS_DAYS"]


def test_a_track_can_be_kept_for_ever():
    assert load_settings({"MOWDECK_EDGE_POSITIONS_DAYS": "0"}).positions_days == 0


def test_all_mistakes_are_named_and_no_secret():
    wrong = {
        "MOWDECK_EDGE_LISTEN_PORT": "many",
        "MOWDECK_EDGE_HISTORY_DAYS": "0",
        "MOWDECK_EDGE_DETAIL_DAYS": "6",
        "MOWDECK_EDGE_THINNING_UNTIL_HOUR": "24",
        "MOWDECK_EDGE_TIME_ZONE": "Lawn/Shed",
        "MOWDECK_EDGE_LOG_LEVEL": "loud",
        "MOWDECK_EDGE_METRICS_TOKNE": "t0ken",
    }
    with pytest.raises(SettingsError) as caught:
        load_settings(wrong)
    assert {mistake.field for mistake in caught.value.mistakes} == set(wrong)
    assert "t0ken" not in caught.value.detail


def test_an_address_of_this_machine_only_is_announced_to_nobody(tmp_path):
    def announced(**settings: object) -> bool:
        return EdgeSettings(data_dir=tmp_path, **settings).is_announced

    assert not announced(listen_host="127.0.0.1")
    assert announced(listen_host="0.0.0.0")
    assert not announced(listen_host="0.0.0.0", announce=False)
