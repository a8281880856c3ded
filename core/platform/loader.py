"""Finds integrations, reads their manifests without importing them, and imports one when it is needed.

Built-in integrations are the sub-packages of `integrations`; those of the operator lie in
`<config>/integrations/<domain>/`, are imported under the private name `mowdeck_custom.<domain>`, and win over a
built-in one of the same domain.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import re
import sys
import types
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgspec
import structlog
import voluptuous as vol

from core.domain.errors import IntegrationLoadError, ManifestError, NotFoundError, RequirementMissingError
from core.domain.limits import IMPORT_DEADLINE_S
from core.platform.fire_door import text_of
from core.platform.flow import ConfigFlow
from core.platform.import_thread import ImportThreads
from core.platform.integration import Create, Entry
from core.platform.manifest import Manifest, read_manifest

log = structlog.get_logger(__name__)

CUSTOM_PACKAGE = "mowdeck_custom"
TRANSLATION_BYTES = 256 * 1024

Migrate = Callable[[Entry], Awaitable[Entry]]
"""A plugin's optional `migrate(entry)`: the same entry with data, options and version brought up to date."""
Translations = Mapping[str, Mapping[str, Any]]
"""Language -> tree of texts; `en` is `strings.json`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedIntegration:
    """An imported integration."""

    manifest: Manifest
    create: Create
    flow_class: type[ConfigFlow] | None = None
    connection_schema: vol.Schema | None = None
    """`CONNECTION_SCHEMA` of its config_flow.py: what a relay may send as `connection` to add an entry."""
    entry_version: int = 1
    migrate: Migrate | None = None
    translations: Translations = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A folder with a valid manifest, not yet imported."""

    manifest: Manifest
    folder: Path
    module: str
    is_custom: bool
    translations: Translations


class Loader:
    """`builtin` is a package (`integrations`) or a folder; `custom` the operator's folder, which may be missing."""

    def __init__(
        self, builtin: str | Path = "integrations", custom: Path | None = None, *, deadline_s: float = IMPORT_DEADLINE_S
    ) -> None:
        self._builtin = builtin
        self._custom = custom
        self._threads: ImportThreads[LoadedIntegration] = ImportThreads(deadline_s)
        self._found: dict[str, Found] = {}
        self._problems: dict[str, ManifestError] = {}
        self._loaded: dict[str, LoadedIntegration] = {}
        self.scan()

    def scan(self) -> None:
        """Reads all manifests anew; what has been imported stays."""
        self._found.clear()
        self._problems.clear()
        if isinstance(self._builtin, str):
            self._scan_folder(_folder_of(self._builtin), self._builtin, is_custom=False)
        else:
            self._scan_folder(self._builtin, "mowdeck_builtin", is_custom=False)
        if self._custom is not None and self._custom.is_dir():
            self._scan_folder(self._custom, CUSTOM_PACKAGE, is_custom=True)

    def _scan_folder(self, parent: Path, package: str, *, is_custom: bool) -> None:
        for folder in sorted(parent.iterdir()):
            if not folder.is_dir() or folder.name.startswith(("_", ".")):
                continue
            try:
                manifest = read_manifest(folder)
            except ManifestError as err:
                self._problems[folder.name] = err
                log.warning("integration left out", folder=str(folder), detail=err.detail)
                continue
            module = f"{package}.{manifest.domain}"
            found = Found(
                manifest=manifest,
                folder=folder,
                module=module,
                is_custom=is_custom,
                translations=_read_translations(manifest.domain, folder),
            )
            if is_custom and manifest.domain in self._found:
                log.info("integration of the operator replaces the built-in one", domain=manifest.domain)
            self._found[manifest.domain] = found

    def manifests(self) -> Mapping[str, Manifest]:
        """Domain -> manifest of all integrations that can be loaded."""
        return {domain: found.manifest for domain, found in self._found.items()}

    def problems(self) -> Mapping[str, ManifestError]:
        """Folder name -> what is wrong with its manifest."""
        return dict(self._problems)

    def translations(self) -> Mapping[str, Translations]:
        """Domain -> texts of all integrations that can be loaded."""
        return {domain: found.translations for domain, found in self._found.items()}

    def loaded(self, domain: str) -> LoadedIntegration | None:
        """The integration if it has been imported."""
        return self._loaded.get(domain)

    async def load(self, domain: str) -> LoadedIntegration:
        """The integration, imported on first use in a thread. NotFoundError, ManifestError, RequirementMissingError
        (says the command to run), IntegrationLoadError (does not import, or not within the deadline)."""
        if domain in self._loaded:
            return self._loaded[domain]
        found = self._found.get(domain)
        if found is None:
            if domain in self._problems:
                raise self._problems[domain]
            raise NotFoundError(f"there is no integration {domain!r}")
        check_requirements(found.manifest)
        loaded = await self._threads.call(domain, lambda: _import(found))
        self._loaded[domain] = loaded
        return loaded


def _folder_of(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise IntegrationLoadError(f"there is no package {package!r}")
    return Path(next(iter(spec.submodule_search_locations)))


def check_requirements(manifest: Manifest) -> None:
    """RequirementMissingError, with the command to run, if a distribution that the manifest names is not installed."""
    missing = []
    for requirement in manifest.requirements:
        name, pinned = _split_requirement(requirement)
        try:
            installed = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            missing.append(requirement)
            continue
        if pinned is not None and installed != pinned:
            log.warning("another version is installed", domain=manifest.domain, wanted=requirement, installed=installed)
    if missing:
        raise _missing(manifest, ", ".join(missing))


def _split_requirement(requirement: str) -> tuple[str, str | None]:
    name = re.split(r"[\[=<>~]", requirement, maxsplit=1)[0]
    return name, requirement.partition("==")[2] or None


def _missing(manifest: Manifest, what: str) -> RequirementMissingError:
    if manifest.extra is not None:
        command = f"pip install 'mowdeck[{manifest.extra}]'"
    else:
        command = "pip install " + " ".join(f"'{requirement}'" for requirement in manifest.requirements)
    return RequirementMissingError(f"{manifest.domain} needs {what}; run: {command}")


def _import(found: Found) -> LoadedIntegration:
    """Runs in a thread of its own, for plugin code may block or die here."""
    manifest = found.manifest
    try:
        module = _import_package(found)
        steps = importlib.import_module(f"{found.module}.config_flow") if manifest.config_flow else None
        return _assemble(found, module, steps)
    except ModuleNotFoundError as err:
        _drop_modules(found.module)
        is_foreign = err.name is not None and not err.name.startswith(found.module)
        if is_foreign and (manifest.requirements or manifest.extra):
            raise _missing(manifest, f"the module {err.name}") from err
        raise IntegrationLoadError(f"{manifest.domain} does not import: {err}") from err
    except IntegrationLoadError:
        _drop_modules(found.module)
        raise
    except BaseException as err:  # fire door: an import may raise anything, SystemExit included
        _drop_modules(found.module)
        raise IntegrationLoadError(f"{manifest.domain} does not import: {text_of(err)}") from err


def _import_package(found: Found) -> types.ModuleType:
    """A package within an importable one by name; any other folder by its path under its private name."""
    known = sys.modules.get(found.module)
    if known is not None and Path(str(known.__file__)).parent == found.folder:
        return known
    parent = found.module.partition(".")[0]
    if parent in (CUSTOM_PACKAGE, "mowdeck_builtin"):
        _drop_modules(found.module)
        sys.modules.setdefault(parent, types.ModuleType(parent, "Integrations that are no part of Mowdeck's package."))
        sys.modules[parent].__path__ = []  # a package without a folder: nothing else is importable from it
        init = found.folder / "__init__.py"
        spec = importlib.util.spec_from_file_location(
            found.module, init, submodule_search_locations=[str(found.folder)]
        )
        if spec is None or spec.loader is None or not init.is_file():
            raise IntegrationLoadError(f"{found.folder} has no __init__.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[found.module] = module
        spec.loader.exec_module(module)
        return module
    return importlib.import_module(found.module)


def _drop_modules(name: str) -> None:
    """Forgets a package and all below it, so that the next load starts clean."""
    for known in [known for known in sys.modules if known == name or known.startswith(f"{name}.")]:
        del sys.modules[known]


def _assemble(found: Found, module: types.ModuleType, steps: types.ModuleType | None) -> LoadedIntegration:
    domain = found.manifest.domain
    create = getattr(module, "create", None)
    if not callable(create):
        raise IntegrationLoadError(f"{domain} has no create(context, entry)")
    flow_class = _flow_class(domain, steps) if steps is not None else None
    schema = getattr(steps, "CONNECTION_SCHEMA", None)
    if schema is not None and not isinstance(schema, vol.Schema):
        raise IntegrationLoadError(f"{domain}: CONNECTION_SCHEMA is no voluptuous schema")
    migrate = getattr(module, "migrate", None)
    version = flow_class.version if flow_class is not None else getattr(module, "ENTRY_VERSION", 1)
    return LoadedIntegration(
        manifest=found.manifest,
        create=cast("Create", create),
        flow_class=flow_class,
        connection_schema=schema,
        entry_version=version,
        migrate=cast("Migrate", migrate) if callable(migrate) else None,
        translations=found.translations,
    )


def _flow_class(domain: str, steps: types.ModuleType) -> type[ConfigFlow]:
    own = [
        value
        for value in vars(steps).values()
        if isinstance(value, type) and issubclass(value, ConfigFlow) and value.__module__ == steps.__name__
    ]
    if len(own) != 1:
        raise IntegrationLoadError(f"{domain}: config_flow.py must hold one ConfigFlow, not {len(own)}")
    return own[0]


def _read_translations(domain: str, folder: Path) -> Translations:
    """Texts are never a reason not to load; a broken file is named in the log."""
    files = {"en": folder / "strings.json"}
    files.update({file.stem: file for file in sorted((folder / "translations").glob("*.json"))})
    texts: dict[str, Mapping[str, Any]] = {}
    for language, file in files.items():
        if not file.is_file():
            continue
        try:
            with file.open("rb") as stream:
                texts[language] = msgspec.json.decode(stream.read(TRANSLATION_BYTES), type=dict[str, Any])
        except (OSError, msgspec.DecodeError, RecursionError) as err:
            log.warning("texts left out", domain=domain, file=file.name, error=str(err))
    return texts
