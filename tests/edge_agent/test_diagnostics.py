"""Nothing personal leaves the box with its diagnostics."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.mower import Activity, LinkKind, MowerDescription, MowerState, Position
from edge_agent.diagnostics import HIDDEN, Diagnostics, is_private, redact
from tests.fakes.clock import START

SECRETS = [
    "anna@example.org",
    "192.168.1.17",
    "fe80::1c2a:3bff:fe4d:5e6f",
    "2001:db8:85a3:0:0:8a2e:370:7334",
    "AA:BB:CC:DD:EE:FF",
    "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiIxIn0.c2ln",
    "52.520008, 13.404954",
    "mqtt://box:hunter2@relay",
    "Bearer abcdef",
    "pin=1234",
    "password: hunter2",
    "Zm9vYmFyYmF6Zm9vYmFyYmF6Zm9vYmFyYmF6Zm9vYmFyYmF6",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_by_the_look_of_it(secret: str) -> None:
    text = redact({"log": [f"said {secret} and went on"]})["log"][0]
    for word in ("anna", "192.168", "1c2a", "8a2e", "BB:CC", "eyJ", "52.52", "hunter2", "abcdef", "1234", "Zm9v"):
        assert word not in text
    assert HIDDEN in text
    assert "went on" in text


@pytest.mark.parametrize(
    "key",
    [
        *("token", "refresh_token", "accessToken", "pin", "PIN", "user_email", "serial", "macAddress", "ip", "ssid"),
        *("lat", "longitude", "origin", "ring", "api_key", "password", "privateKey", "credential", "serial_number"),
    ],
)
def test_by_name(key: str) -> None:
    assert is_private(key)
    assert redact({"a": [{key: {"deep": 1}}]}) == {"a": [{key: HIDDEN}]}


@pytest.mark.parametrize("key", ["x_m", "y_m", "activity", "mower_id", "edge_id", "pinned", "battery", "hint", "late"])
def test_what_may_stay(key: str) -> None:
    assert redact({key: 1.5}) == {key: 1.5}


def test_nothing_is_no_secret() -> None:
    assert redact({"serial": None}) == {"serial": None}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
        max_leaves=20,
    )
)
def test_any_json_stays_json(value: object) -> None:
    found = redact({"a": value, "token": "hunter2"}, known=["xyz"])
    assert "hunter2" not in json.dumps(found)


def test_known_texts_are_hidden_wherever_they_are() -> None:
    found = redact({"fake:190301234": "mower 190301234 of Anna"}, known=["190301234", "Anna"])
    assert "190301234" not in json.dumps(found)
    assert "Anna" not in json.dumps(found)


def test_snapshot_of_real_values() -> None:
    def broken() -> object:
        raise RuntimeError("password=hunter2")

    state = MowerState(
        observed_at=START,
        activity=Activity.MOWING,
        position=Position(lat=52.520008, lon=13.404954, x_m=1.5, y_m=2.5),
        raw={"serial": "190301234"},
    )
    mower = MowerDescription(vendor="fake", serial="190301234", name="Mowy", links=(LinkKind.BLE,))
    found = Diagnostics(
        {"states": lambda: [state], "mowers": lambda: [mower], "broken": broken, "odd": lambda: {"x": object()}},
        known=lambda: ["190301234"],
    ).snapshot()
    text = json.dumps(found)
    for secret in ("52.52", "13.40", "190301234", "hunter2"):
        assert secret not in text
    assert found["states"][0]["position"]["x_m"] == 1.5
    assert found["states"][0]["activity"] == "mowing"
    assert "error" in found["broken"]
    assert found["odd"] == {"x": "**object**"}
