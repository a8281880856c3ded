"""Manifests: every mistake is named, unknown keys are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.domain.errors import ManifestError
from core.platform.integration import API_VERSION
from core.platform.manifest import MANIFEST_BYTES, check_manifest, read_manifest

GOOD = {
    "domain": "acme",
    "name": "Acme",
    "version": "1.2.0",
    "api": API_VERSION,
    "iot_class": "local_push",
    "links": ["ble", "lan"],
    "codeowners": ["@acme"],
    "licence": "MIT",
}


def mistakes(**changes: object) -> str:
    tree = {key: value for key, value in {**GOOD, **changes}.items() if value is not ...}
    with pytest.raises(ManifestError) as caught:
        check_manifest(tree, folder="acme", where="here")
    return caught.value.detail


def test_a_full_manifest_is_read(tmp_path: Path):
    folder = tmp_path / "acme"
    folder.mkdir()
    more = {
        "requirements": ["bleak==1.0", "aiohttp>=3.9", "thing[extra]==2"],
        "extra": "acme",
        "bluetooth": [{"local_name": "Acme*", "manufacturer_id": 12}],
        "zeroconf": [{"type": "_acme._tcp.local.", "properties": {"model": "x*"}}],
        "mqtt": ["acme/+/state"],
        "config_flow": True,
        "request_limit": {"burst": 10, "per_day": 300},
    }
    (folder / "manifest.json").write_text(json.dumps({**GOOD, **more}))
    manifest = read_manifest(folder)
    assert manifest == read_manifest(folder / "manifest.json")
    assert manifest.bluetooth[0].manufacturer_id == 12
    assert manifest.request_limit is not None
    assert manifest.request_limit.per_day == 300


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"colour": "red"}, "colour: unknown key"),
        ({"name": ...}, "name: missing"),
        ({"name": "  "}, "name: "),
        ({"domain": "other"}, "domain: must be the folder's name"),
        ({"domain": "Acme-X"}, "domain: must be a-z"),
        ({"version": "latest"}, "version: "),
        ({"version": "1"}, "version: "),
        ({"api": API_VERSION + 1}, "api: "),
        ({"api": "1"}, "api: "),
        ({"links": []}, "links: "),
        ({"links": ["smoke"]}, "links: "),
        ({"iot_class": "magic"}, "iot_class: "),
        ({"requirements": ["a; rm -rf /"]}, "requirements: "),
        ({"extra": "no extra!"}, "extra: "),
        ({"bluetooth": [{"local_name": "Ac*"}]}, "bluetooth: "),
        ({"bluetooth": [{}]}, "bluetooth: "),
        ({"bluetooth": [{"colour": 1}]}, "bluetooth: "),
        ({"zeroconf": [{"type": "_acme._tcp"}]}, "zeroconf: "),
        ({"request_limit": {"burst": 0, "per_day": 1}}, "request_limit: "),
    ],
)
def test_each_mistake_is_named(changes, named):
    assert named in mistakes(**changes)


def test_all_mistakes_are_named_at_once():
    detail = mistakes(colour="red", version="x", links=[], api=99, licence=...)
    assert all(word in detail for word in ("colour", "version", "links", "api", "licence"))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"acme"', "\xff", "[" * 100_000, "x" * (MANIFEST_BYTES + 1)])
def test_files_that_are_no_manifest(tmp_path: Path, text: str):
    (tmp_path / "manifest.json").write_text(text, encoding="latin-1")
    with pytest.raises(ManifestError):
        read_manifest(tmp_path)


def test_a_missing_file(tmp_path: Path):
    with pytest.raises(ManifestError):
        read_manifest(tmp_path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=150)
@given(tree=JSON | st.fixed_dictionaries({}, optional=dict.fromkeys([*GOOD, "bluetooth", "zeroconf", "mqtt"], JSON)))
def test_nothing_but_a_manifest_error_comes_out(tree):
    with pytest.raises(ManifestError):
        check_manifest(tree, folder="acme", where="here")
