"""`mowdeck integration check` on folders that are wrong in every way: named findings with hints, never a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from core.platform.contract.finding import Finding
from core.platform.contract.folder_check import Scope, check_folder
from core.platform.template.new_folder import make_folder

NO_WORLD = "contract_world = None\n"
RAISES = "raise ValueError('so')\n    yield"
WORLD = "\n@asynccontextmanager\nasync def contract_world(context):\n    "
FAULT = "\n@asynccontextmanager\nasync def contract_fault(context, fault):\n    "


def put(name: str, data: bytes) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        (folder / name).write_bytes(data)

    return spoil


def emulator(more: str) -> Callable[[Path], None]:
    """What is defined again at the end counts."""

    def spoil(folder: Path) -> None:
        file = folder / "emulator.py"
        text = file.read_text(encoding="utf-8").partition("\nasync def _run(")[0]
        file.write_text(f"{text}\n\n{more}\n", encoding="utf-8")

    return spoil


def empty(folder: Path) -> None:
    for file in folder.rglob("*"):
        if file.is_file():
            file.unlink()


def loop(folder: Path) -> None:
    (folder / "quality.json").unlink()
    (folder / "quality.json").symlink_to("quality.json")


BAD: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "empty": (empty, "manifest.json", ""),
    "binary-manifest": (put("manifest.json", b"\xff\x00\xfe"), "manifest.json", ""),
    "list-manifest": (put("manifest.json", b"[]"), "manifest.json", ""),
    "deep-manifest": (put("manifest.json", b"[" * 100_000), "manifest.json", ""),
    "syntax": (put("__init__.py", b"def (:"), "import", "SyntaxError"),
    "exits": (put("__init__.py", b"import sys\nsys.exit(3)"), "import", ""),
    "no-create": (put("__init__.py", b'"""Nothing."""'), "import", ""),
    "binary-source": (put("config_flow.py", b"\x00\xff"), "import", ""),
    "texts": (put("strings.json", b"\xff"), "strings.json", "cannot be read"),
    "quality-loop": (loop, "quality.json", ""),
    "emulator-syntax": (put("emulator.py", b"def (:"), "emulator.py", "SyntaxError"),
    "world-is-no-context": (emulator("def contract_world(context): return 5"), "nothing_moves_unless_told", "TypeError"),
    "world-takes-nothing": (emulator("def contract_world(): ..."), "nothing_moves_unless_told", "TypeError"),
    "world-raises": (emulator(WORLD + RAISES), "nothing_moves_unless_told", "ValueError: so"),
    "world-yields-none": (emulator(WORLD + "yield None"), "nothing_moves_unless_told", "AttributeError"),
    "world-ends-by-exit": (emulator(WORLD + "raise SystemExit(4)\n    yield"), "nothing_moves_unless_told", "SystemExit"),
    "may-refuse": (emulator("MAY_REFUSE = 5" + WORLD + RAISES), "MAY_REFUSE", "no set of kinds"),
    "other-worlds": (emulator("OTHER_WORLDS = 5" + WORLD + RAISES), "OTHER_WORLDS", "no mapping"),
    "fault-yields-none": (emulator(NO_WORLD + FAULT + "yield None"), "stuck", "AttributeError"),
    "fault-raises": (emulator(NO_WORLD + FAULT + "raise KeyError('odd')\n    yield"), "stuck", "KeyError"),
    "reasons": (emulator(NO_WORLD + "NO_SUCH_FAULT = 7" + FAULT + RAISES), "NO_SUCH_FAULT", "no mapping"),
    "no-reason": (emulator(NO_WORLD + "NO_SUCH_FAULT = {fault: '' for fault in Fault}"), "stuck", "says no reason"),
}  # fmt: skip


OF_FILES = {"manifest.json", "import", "strings.json", "quality.json"}
"""Found without running anything."""
OF_FAULTS = {"stuck", "NO_SUCH_FAULT"}


@pytest.mark.parametrize("name", BAD)
async def test_what_is_wrong_is_named_and_has_a_hint(tmp_path: Path, name: str):
    spoil, found, says = BAD[name]
    folder = make_folder(tmp_path, f"bad_{name.replace('-', '_')}")
    spoil(folder)
    scope: Scope = "folder" if found in OF_FILES else "all" if found in OF_FAULTS else "contract"
    told: list[Finding] = []
    report = await check_folder(folder, told.append, scope=scope)
    assert not report.is_good
    assert tuple(told) == report.findings
    failed = [finding for finding in report.findings if finding.status == "failed"]
    named = [finding for finding in failed if finding.name == found]
    assert named, failed
    assert says in named[0].detail
    assert all(finding.detail and finding.hint for finding in failed)
    assert all("Traceback" not in finding.detail for finding in report.findings)


@pytest.mark.parametrize("as_json", [False, True])
def test_on_the_command_line(tmp_path: Path, as_json: bool):
    folder = make_folder(tmp_path, "bad_shown")
    put("quality.json", b'{"rules": {"manifest": {"status": "perfect"}}}')(folder)
    (folder / "emulator.py").unlink()
    done = subprocess.run(
        [sys.executable, "-m", "core.command_line", "integration", "check", str(folder), *(["--json"] if as_json else [])],
        env={**os.environ, "COLUMNS": "200"}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr
    if as_json:
        failed = {finding["name"]: finding for finding in json.loads(done.stdout)["findings"] if finding["hint"]}
        assert set(failed) == {"quality.json", "contract", "faults"}
    else:
        assert "-> `mowdeck integration new` makes one that is whole" in done.stdout
        assert "-> Write `contract_world(context)` in emulator.py" in done.stdout
