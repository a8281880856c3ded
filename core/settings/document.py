"""The document of all settings, made from their tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from core.settings.table import CONFIG_VARIABLE, Setting

_INTRODUCTION = f"""# Settings

Made by `script/write-docs` from the tables in the code; a test keeps it true.

Each setting is read from the environment (`MOWDECK_...`), else from the TOML file that `{CONFIG_VARIABLE}` names
(a section per program, names as in the first column), else the default holds. All mistakes are reported at once.
A secret can also be read from a file: append `_FILE` to its variable and give the path.

```toml
# mowdeck.toml
[edge]
name = "Shed"
listen_host = "0.0.0.0"
```
"""


def settings_document(tables: Mapping[str, Sequence[Setting]]) -> str:
    """Markdown of `tables`, by section."""
    parts = [_INTRODUCTION]
    for section, table in tables.items():
        parts.append(f"\n## `[{section}]`\n\n| setting | environment | default | meaning |\n|---|---|---|---|\n")
        for setting in table:
            name = f"`{setting.name}`" + (" (secret)" if setting.is_secret else "")
            default = _show(setting.default)
            parts.append(f"| {name} | `{setting.variable(section)}` | {default} | {setting.help} |\n")
    return "".join(parts)


def _show(value: Any) -> str:
    if value is None or value == "" or value == ():
        return "(not set)"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"
