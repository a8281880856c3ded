"""The loader: finding, importing, and surviving what does not import."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from pathlib import Path

import pytest

from core.domain.errors import IntegrationLoadError, ManifestError, NotFoundError, RequirementMissingError
from core.platform.loader import Loader
from tests.core.platform.test_manifest import GOOD
from tests.fakes.misbehaving_folder import install_misbehaving

CREATE = "def create(context, entry):\n    return WHO\n"


def write(parent: Path, domain: str = "acme", code: str = CREATE, **manifest: object) -> Path:
    folder = parent / domain
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps({**GOOD, "domain": domain, **manifest}))
    (folder / "__init__.py").write_text(code)
    return folder


def loader_of(tmp_path: Path, **options: float) -> Loader:
    (tmp_path / "builtin").mkdir(exist_ok=True)
    return Loader(builtin=tmp_path / "builtin", custom=tmp_path / "custom", **options)


async def test_manifests_are_read_without_importing(tmp_path: Path):
    write(tmp_path / "custom", "unread", code="raise SystemExit('imported!')")
    loader = loader_of(tmp_path)
    assert set(loader.manifests()) == {"unread"}
    assert "mowdeck_custom.unread" not in sys.modules
    with pytest.raises(IntegrationLoadError):
        await loader.load("unread")


async def test_the_operators_folder_wins(tmp_path: Path):
    write(tmp_path / "builtin", code="WHO = 'built in'\n" + CREATE, version="1.0.0")
    write(tmp_path / "custom", code="WHO = 'custom'\n" + CREATE, version="2.0.0")
    loader = loader_of(tmp_path)
    assert loader.manifests()["acme"].version == "2.0.0"
    loaded = await loader.load("acme")
    assert loaded.create(None, None) == "custom"
    assert loaded.create.__module__ == "mowdeck_custom.acme"


async def test_a_broken_custom_folder_leaves_the_builtin_one(tmp_path: Path):
    write(tmp_path / "builtin", code="WHO = 'built in'\n" + CREATE)
    write(tmp_path / "custom", api=99)
    loader = loader_of(tmp_path)
    assert set(loader.problems()) == {"acme"}
    assert (await loader.load("acme")).create(None, None) == "built in"


async def test_a_broken_manifest_disturbs_no_other(tmp_path: Path):
    write(tmp_path / "custom", "good", "WHO = 1\n" + CREATE)
    write(tmp_path / "custom", "bad", colour="red")
    (tmp_path / "custom" / "empty").mkdir()
    (tmp_path / "custom" / "__pycache__").mkdir()
    loader = loader_of(tmp_path)
    assert set(loader.manifests()) == {"good"}
    assert set(loader.problems()) == {"bad", "empty"}
    with pytest.raises(ManifestError):
        await loader.load("bad")
    with pytest.raises(NotFoundError):
        await loader.load("absent")
    assert await loader.load("good")


async def test_relative_imports_and_texts(tmp_path: Path):
    folder = write(tmp_path / "custom", code="from .wire import WHO\n" + CREATE)
    (folder / "wire.py").write_text("WHO = 'wire'\n")
    (folder / "strings.json").write_text('{"config": {"title": "Acme"}}')
    (folder / "translations").mkdir()
    (folder / "translations" / "de.json").write_text('{"config": {"title": "Akme"}}')
    (folder / "translations" / "fr.json").write_text("{broken")
    loader = loader_of(tmp_path)
    loaded = await loader.load("acme")
    assert loaded.create(None, None) == "wire"
    assert set(loaded.translations) == {"en", "de"}
    assert loader.translations()["acme"]["de"]["config"]["title"] == "Akme"


async def test_a_missing_requirement_says_the_command(tmp_path: Path):
    write(tmp_path / "custom", "one", "WHO = 1\n" + CREATE, requirements=["nobody-has-this==1.0"], extra="one")
    write(tmp_path / "custom", "two", "WHO = 1\n" + CREATE, requirements=["nobody-has-this==1.0"])
    write(tmp_path / "custom", "three", "import nobody_has_this\n" + CREATE, extra="three")
    write(tmp_path / "custom", "four", "WHO = 1\n" + CREATE, requirements=["aiohttp>=1.0"])
    loader = loader_of(tmp_path)
    for domain, command in (
        ("one", "pip install 'mowdeck[one]'"),
        ("two", "pip install 'nobody-has-this==1.0'"),
        ("three", "pip install 'mowdeck[three]'"),
    ):
        with pytest.raises(RequirementMissingError) as caught:
            await loader.load(domain)
        assert command in caught.value.detail
    assert await loader.load("four")


@pytest.mark.parametrize(
    "how",
    [
        "raise",
        "unprintable",
        "exit",
        "interrupt",
        "generator_exit",
        "cancelled",
        "odd",
        "memory",
        "recursion",
        "missing",
    ],
)
async def test_an_import_may_do_anything(tmp_path: Path, how: str):
    install_misbehaving(tmp_path / "custom", import_fault=how)
    write(tmp_path / "custom", "good", "WHO = 1\n" + CREATE)
    loader = loader_of(tmp_path)
    with pytest.raises(IntegrationLoadError) as caught:
        await loader.load("misbehaving")
    assert caught.value.__cause__ is not None
    assert not any(name.startswith("mowdeck_custom.misbehaving") for name in sys.modules)
    assert await loader.load("good")
    (tmp_path / "custom" / "misbehaving" / "import_fault").unlink()  # corrected: the next load takes it
    assert (await loader.load("misbehaving")).flow_class is not None


async def test_an_import_that_hangs_is_left_behind(tmp_path: Path):
    write(tmp_path / "custom", "slow", "import sys\nsys.gate.wait()\nWHO = 1\n" + CREATE)
    write(tmp_path / "custom", "good", "WHO = 1\n" + CREATE)
    loader = loader_of(tmp_path, deadline_s=0.1)
    gate = threading.Event()
    sys.gate = gate  # type: ignore[attr-defined]
    try:
        for _ in range(3):
            with pytest.raises(IntegrationLoadError):
                await loader.load("slow")
        hanging = [thread for thread in threading.enumerate() if thread.name == "import slow"]
        assert len(hanging) == 1  # not one per try
        assert all(thread.daemon for thread in hanging)
        assert await loader.load("good")
    finally:
        gate.set()
        del sys.gate  # type: ignore[attr-defined]
        await asyncio.to_thread(hanging[0].join, 5)
    assert await loader.load("slow")


@pytest.mark.parametrize("code", ["", "create = 7\n", "def create(:\n"])
async def test_a_folder_without_create(tmp_path: Path, code: str):
    write(tmp_path / "custom", code=code)
    with pytest.raises(IntegrationLoadError):
        await loader_of(tmp_path).load("acme")


@pytest.mark.parametrize(
    "code", ["", "CONNECTION_SCHEMA = {}\nfrom core.platform.flow import ConfigFlow\nclass F(ConfigFlow): pass\n"]
)
async def test_a_config_flow_that_is_none(tmp_path: Path, code: str):
    folder = write(tmp_path / "custom", code="WHO = 1\n" + CREATE, config_flow=True)
    (folder / "config_flow.py").write_text(code)
    with pytest.raises(IntegrationLoadError):
        await loader_of(tmp_path).load("acme")


async def test_two_at_once_import_once(tmp_path: Path):
    write(tmp_path / "custom", code="import sys\nsys.imports.append(1)\nWHO = 1\n" + CREATE)
    loader = loader_of(tmp_path)
    sys.imports = []  # type: ignore[attr-defined]
    try:
        first, second = await asyncio.gather(loader.load("acme"), loader.load("acme"))
        assert first is second
        assert sys.imports == [1]  # type: ignore[attr-defined]
    finally:
        del sys.imports  # type: ignore[attr-defined]


def test_the_built_in_package_is_found():
    loader = Loader()
    assert not any(name.startswith("mowdeck") for name in loader.problems())
