"""Makes the folder of a new integration from the template.

The files lie below `files/` with `.tmpl` appended; `@DOMAIN@`, `@NAME@` and `@NAME_JSON@` in their text (and
`@DOMAIN@` in their names) are replaced.
"""

from __future__ import annotations

import json
import keyword
import sys
from pathlib import Path

from core.domain.errors import ConflictError, InvalidInputError, StorageError
from core.platform.manifest import DOMAIN

FILES = Path(__file__).parent / "files"
SUFFIX = ".tmpl"
MAX_NAME = 60
_PACKAGES = frozenset({"cloud_relay", "core", "edge_agent", "integrations", "tests"})


def make_folder(parent: Path, domain: str, name: str | None = None) -> Path:
    """The new folder `<parent>/<domain>`, which passes the check as it is. InvalidInputError: no such domain or name
    can be; ConflictError: it is there already, nothing was written; StorageError: the disk."""
    shown = (name or domain.replace("_", " ").title()).strip()
    if DOMAIN.fullmatch(domain) is None:
        raise InvalidInputError.of("domain", "must be a-z, 0-9 and _, at most 40, beginning with a letter")
    if keyword.iskeyword(domain) or domain in sys.stdlib_module_names or domain in _PACKAGES:
        raise InvalidInputError.of("domain", f"{domain} is a name that Python or Mowdeck needs for itself")
    if not 0 < len(shown) <= MAX_NAME or not shown.isprintable() or '"' in shown or "\\" in shown:
        raise InvalidInputError.of("name", f"must have 1 to {MAX_NAME} characters, without quotes and backslashes")
    folder = parent / domain
    try:
        parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir()
        for relative, text in render(domain, shown).items():
            file = folder / relative
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
    except FileExistsError as err:
        raise ConflictError(f"{folder} is there already", hint="Choose another domain, or remove it first.") from err
    except OSError as err:
        raise StorageError(f"{folder} cannot be written ({err.strerror})") from err
    return folder


def render(domain: str, name: str) -> dict[str, str]:
    """Relative path -> text of every file."""
    words = {"@DOMAIN@": domain, "@NAME_JSON@": json.dumps(name, ensure_ascii=False), "@NAME@": name}
    return {
        _fill(str(file.relative_to(FILES)).removesuffix(SUFFIX), words): _fill(file.read_text(encoding="utf-8"), words)
        for file in sorted(FILES.rglob(f"*{SUFFIX}"))
    }


def _fill(text: str, words: dict[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(word, value)
    return text
