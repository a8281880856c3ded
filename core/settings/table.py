"""A table of settings and the one reader for it: environment over TOML file over default.

A setting `listen_port` of the section `relay` is `MOWDECK_RELAY_LISTEN_PORT` in the environment and `listen_port`
under `[relay]` in the TOML file that `MOWDECK_CONFIG` names. A secret may also come from a file:
`MOWDECK_RELAY_..._FILE` holds its path (systemd credentials, container secrets).
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import voluptuous as vol

from core.domain.errors import Mistake, SettingsError

CONFIG_VARIABLE = "MOWDECK_CONFIG"
"""Names the TOML file, for every section."""
SECTIONS = ("edge", "relay", "client")
_MISSING = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting. `validator` is a voluptuous schema that also converts text from the environment."""

    name: str
    help: str
    default: Any
    validator: Callable[[Any], Any]
    is_secret: bool = False

    def variable(self, section: str) -> str:
        """Its name in the environment."""
        return f"MOWDECK_{section.upper()}_{self.name.upper()}"


def read_settings(section: str, table: Sequence[Setting], environ: Mapping[str, str]) -> dict[str, Any]:
    """Every setting of `table`, validated together. SettingsError lists all mistakes at once, with where each
    value came from; secrets are never repeated in it."""
    mistakes: list[Mistake] = []
    given, origins = _from_file(section, table, environ, mistakes)
    for name, (origin, value) in _from_environment(section, table, environ, mistakes).items():
        given[name], origins[name] = value, origin
    schema = vol.Schema({vol.Optional(s.name, default=_default(s)): s.validator for s in table})
    values: dict[str, Any] = {}
    try:
        values = schema(given)
    except vol.MultipleInvalid as err:
        for one in err.errors:
            name = str(one.path[0]) if one.path else section
            mistakes.append(Mistake(field=origins.get(name, name), reason=one.msg))
    if mistakes:
        raise SettingsError(mistakes=tuple(mistakes))
    return values


def _default(setting: Setting) -> Any:
    return setting.default if setting.default is not None else vol.UNDEFINED


def _from_file(
    section: str, table: Sequence[Setting], environ: Mapping[str, str], mistakes: list[Mistake]
) -> tuple[dict[str, Any], dict[str, str]]:
    path = environ.get(CONFIG_VARIABLE)
    if not path:
        return {}, {}
    try:
        document = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as err:
        mistakes.append(Mistake(field=f"{CONFIG_VARIABLE}={path}", reason=f"cannot be read: {err}"))
        return {}, {}
    for stray in document.keys() - set(SECTIONS):
        mistakes.append(Mistake(field=f"{path} [{stray}]", reason=f"unknown section{_nearest(stray, SECTIONS)}"))
    values = document.get(section, {})
    if not isinstance(values, dict):
        mistakes.append(Mistake(field=f"{path} {section}", reason=f"must be a section: [{section}]"))
        return {}, {}
    names = [s.name for s in table]
    for stray in values.keys() - set(names):
        mistakes.append(Mistake(field=f"{path} [{section}] {stray}", reason=f"unknown setting{_nearest(stray, names)}"))
    known = {name: value for name, value in values.items() if name in names}
    return known, {name: f"{path} [{section}] {name}" for name in known}


def _from_environment(
    section: str, table: Sequence[Setting], environ: Mapping[str, str], mistakes: list[Mistake]
) -> dict[str, tuple[str, Any]]:
    found: dict[str, tuple[str, Any]] = {}
    known = set()
    for setting in table:
        variable = setting.variable(section)
        known.add(variable)
        if variable in environ:
            found[setting.name] = (variable, environ[variable])
        if not setting.is_secret:
            continue
        known.add(f"{variable}_FILE")
        path = environ.get(f"{variable}_FILE")
        if path is not None:
            try:
                found[setting.name] = (f"{variable}_FILE", Path(path).read_text(encoding="utf-8").strip())
            except (OSError, UnicodeDecodeError) as err:
                mistakes.append(Mistake(field=f"{variable}_FILE", reason=f"cannot be read: {err}"))
    prefix = f"MOWDECK_{section.upper()}_"
    for stray in sorted(v for v in environ if v.startswith(prefix) and v not in known):
        mistakes.append(Mistake(field=stray, reason=f"unknown setting{_nearest(stray, sorted(known))}"))
    return found


def _nearest(word: str, words: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, words, n=1)
    return f"; did you mean {near[0]}?" if near else ""
