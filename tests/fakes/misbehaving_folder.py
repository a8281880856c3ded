"""Puts the misbehaving integration into a folder of its own, as an operator would install it."""

from __future__ import annotations

import shutil
from pathlib import Path

SOURCE = Path(__file__).with_name("misbehaving")


def install_misbehaving(custom: Path, *, import_fault: str | None = None) -> Path:
    """Copies it to `<custom>/misbehaving`; `import_fault` (a how of `faults.RAISES`, `missing` or `hang`) makes its
    import fail. Returns `custom`, which is what `Loader(custom=...)` takes."""
    target = custom / "misbehaving"
    shutil.copytree(SOURCE, target, ignore=shutil.ignore_patterns("__pycache__"))
    if import_fault is not None:
        (target / "import_fault").write_text(import_fault)
    return custom
