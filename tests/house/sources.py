"""The files that the rules of the house apply to."""

from __future__ import annotations

import ast
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("core", "edge_agent", "cloud_relay", "integrations")


@cache
def modules() -> tuple[Path, ...]:
    """Every Python module that ships."""
    return tuple(sorted(p for name in PACKAGES for p in (ROOT / name).rglob("*.py")))


@cache
def tree(path: Path) -> ast.Module:
    """The parsed module."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@cache
def committed() -> tuple[Path, ...]:
    """Every file that git tracks or would track."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    ).stdout.decode()
    return tuple(ROOT / name for name in listing.split("\0") if name and (ROOT / name).is_file())


def name_of(path: Path) -> str:
    """The path as the repository shows it."""
    return str(path.relative_to(ROOT))
