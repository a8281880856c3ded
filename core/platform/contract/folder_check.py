"""Checks a folder as a box would meet it: manifest, import, flow, texts, quality list, and the contract.

A folder that wants the contract to be run offers it in its `emulator.py`:

    @asynccontextmanager
    async def contract_world(context: IntegrationContext) -> AsyncIterator[Integration]:
        ...start an emulated mower, yield create(context, entry)...

    MAY_REFUSE = frozenset({"start_mow"})       # optional: commands that a healthy mower may refuse
    OTHER_WORLDS = {"ble": contract_world_ble}  # optional: the same mower over its other links

and its faults as `core.platform.contract.fault` says.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Literal

from core.domain.errors import IntegrationLoadError, InvalidInputError, MowdeckError
from core.domain.limits import IMPORT_DEADLINE_S
from core.platform.contract import flow_check, text_check
from core.platform.contract.emulator_check import EmulatorCheck
from core.platform.contract.finding import Area, Finding, FolderReport
from core.platform.contract.hints import hint_for
from core.platform.contract.honesty import Facts, judge
from core.platform.contract.suite import explain
from core.platform.fields import Field
from core.platform.fire_door import text_of
from core.platform.flow import FlowResult
from core.platform.import_thread import ImportThreads
from core.platform.loader import CUSTOM_PACKAGE, LoadedIntegration, Loader
from core.platform.manifest import Manifest, read_manifest
from core.platform.quality import read_quality

BUILTIN_PACKAGE = "integrations"

Tell = Callable[[Finding], None]
Begin = Callable[[str], None]
Scope = Literal["folder", "contract", "all"]
"""What is looked at: the files, the contract too (some ten seconds), the faults too (a minute or two)."""


async def check_folder(
    folder: Path, tell: Tell = lambda _: None, begin: Begin = lambda _: None, *, scope: Scope = "all"
) -> FolderReport:
    """Everything that can be said of the integration in `folder`; `tell` hears each finding as it comes, `begin` the
    name of what is run next. InvalidInputError when there is no such folder."""
    check = _FolderCheck(_existing(folder), tell, begin)
    await check.run(scope)
    return FolderReport(domain=check.domain, findings=tuple(check.findings))


def _existing(folder: Path) -> Path:
    found = folder.expanduser().resolve()
    if not found.is_dir():
        raise InvalidInputError.of("folder", f"{found} is no folder")
    return found


def _is_builtin(folder: Path) -> bool:
    """Whether it is one of the package's own integrations."""
    spec = importlib.util.find_spec(BUILTIN_PACKAGE)
    places = spec.submodule_search_locations if spec is not None else None
    return folder.parent in [Path(place).resolve() for place in places or ()]


class _FolderCheck:
    def __init__(self, folder: Path, tell: Tell, begin: Begin) -> None:
        self.findings: list[Finding] = []
        self.domain = folder.name
        self._folder = folder
        self._tell = tell
        self._begin = begin
        self._package = f"{CUSTOM_PACKAGE}.{folder.name}"

    def _note(self, plain: Finding) -> None:
        finding = replace(plain, hint=hint_for(plain))
        self.findings.append(finding)
        self._tell(finding)

    def _is_good(self, area: Area) -> bool:
        return all(finding.status != "failed" for finding in self.findings if finding.area == area)

    async def run(self, scope: Scope) -> None:
        """What cannot be imported has nothing more to show."""
        manifest = self._read_manifest()
        loaded = None if manifest is None else await self._load(manifest)
        if manifest is None or loaded is None:
            return
        shown, first = await self._check_flow(loaded)
        self._check_texts(loaded, shown, first)
        emulator, is_sound = await self._emulator()
        check = EmulatorCheck(emulator, self._folder, self._note, self._begin)
        verdicts = await check.contract() if is_sound and scope != "folder" else None
        faults = await check.faults(manifest.links) if is_sound and scope == "all" else None
        self._check_quality(
            Facts(
                folder=self._folder,
                manifest=manifest,
                flow_class=loaded.flow_class,
                is_flow_good=loaded.flow_class is not None and self._is_good("flow"),
                are_texts_good=self._is_good("texts"),
                has_login_form=flow_check.has_login_form(shown),
                verdicts=verdicts,
                faults=faults,
            )
        )

    def _read_manifest(self) -> Manifest | None:
        try:
            manifest = read_manifest(self._folder)
        except MowdeckError as err:
            self._note(Finding(area="manifest", name="manifest.json", status="failed", detail=err.detail))
            return None
        detail = f"{manifest.name} {manifest.version}"
        self._note(Finding(area="manifest", name="manifest.json", status="passed", detail=detail))
        return manifest

    async def _load(self, manifest: Manifest) -> LoadedIntegration | None:
        """Through the box's own loader: a folder of the package as built in, any other as the operator's."""
        is_builtin = _is_builtin(self._folder)
        if is_builtin:
            self._package = f"{BUILTIN_PACKAGE}.{manifest.domain}"
        try:
            loader = Loader(BUILTIN_PACKAGE, None if is_builtin else self._folder.parent)
            loaded = await loader.load(manifest.domain)
        except MowdeckError as err:
            self._note(Finding(area="import", name="import", status="failed", detail=explain(err, self._folder)))
            return None
        self._note(Finding(area="import", name="import", status="passed", detail=f"as {self._package}"))
        return loaded

    async def _check_flow(self, loaded: LoadedIntegration) -> tuple[dict[str, tuple[Field, ...]], FlowResult | None]:
        if loaded.flow_class is None:
            detail = "the manifest has no config_flow"
            self._note(Finding(area="flow", name="config_flow.py", status="skipped", detail=detail))
            return {}, None
        self._note(flow_check.steps_fit(loaded.manifest, loaded.flow_class))
        shown, findings = flow_check.form_fields(loaded.flow_class)
        for finding in findings:
            self._note(finding)
        first, finding = await flow_check.first_step(loaded, self._folder)
        self._note(finding)
        return shown, first

    def _check_texts(
        self, loaded: LoadedIntegration, shown: dict[str, tuple[Field, ...]], first: FlowResult | None
    ) -> None:
        texts, findings = text_check.read_texts(self._folder)
        for finding in findings:
            self._note(finding)
        self._note(text_check.compare(texts))
        if loaded.flow_class is not None:
            self._note(text_check.cover(texts.get("en", {}), self._folder, loaded.flow_class, shown, first))

    async def _emulator(self) -> tuple[ModuleType | None, bool]:
        """The module, and whether nothing is wrong with it; a folder may have none."""
        try:
            return await self._import_emulator(), True
        except MowdeckError as err:
            self._note(Finding(area="contract", name="emulator.py", status="failed", detail=err.detail))
            return None, False

    async def _import_emulator(self) -> ModuleType | None:
        if not (self._folder / "emulator.py").is_file():
            return None
        name = f"{self._package}.emulator"

        def work() -> ModuleType:
            try:
                return importlib.import_module(name)
            except BaseException as err:  # fire door: an import may raise anything, SystemExit included
                raise IntegrationLoadError(f"does not import: {text_of(err)}") from err

        threads: ImportThreads[ModuleType] = ImportThreads(IMPORT_DEADLINE_S)
        return await threads.call(name, work)

    def _check_quality(self, facts: Facts) -> None:
        try:
            answers = read_quality(self._folder)
        except InvalidInputError as err:
            for mistake in err.mistakes:
                self._note(Finding(area="quality", name=mistake.field, status="failed", detail=mistake.reason))
            return
        for finding in judge(answers, facts):
            self._note(finding)
