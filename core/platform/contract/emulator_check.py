"""Runs what a folder's `emulator.py` offers: the contract in its worlds, and its faults."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import cast

from core.domain.mower import LinkKind
from core.platform.contract.checks import Make, World
from core.platform.contract.fault import MEANINGS, Fault, MakeBench, faults_of
from core.platform.contract.finding import Area, Finding
from core.platform.contract.suite import CONTRACT, Verdict, run_check, run_fault

Note = Callable[[Finding], None]
Begin = Callable[[str], None]
_WORST = ("failed", "skipped", "passed")
_MIN_REASON = 5


class EmulatorCheck:
    """`note` hears each finding, `begin` the name of what is being run."""

    def __init__(self, emulator: ModuleType | None, folder: Path, note: Note, begin: Begin) -> None:
        self._emulator = emulator
        self._folder = folder
        self._note = note
        self._begin = begin

    def _offer(self, name: str) -> object:
        return getattr(self._emulator, name, None)

    def _skip(self, area: Area, name: str, offer: str) -> None:
        detail = f"emulator.py offers no {offer}" if self._emulator else "there is no emulator.py"
        self._note(Finding(area=area, name=name, status="skipped", detail=detail))

    async def contract(self) -> dict[str, Verdict] | None:
        """The verdicts by check, of several worlds the worst; None when the folder offers no world to run it in."""
        make = self._offer("contract_world")
        if not callable(make):
            self._skip("contract", "contract", "contract_world(context)")
            return None
        verdicts: dict[str, Verdict] = {}
        others = self._mapping("OTHER_WORLDS", "contract")
        for suffix, one in {"": make, **{f" ({name})": other for name, other in others.items()}}.items():
            world = World(make=cast("Make", one), may_refuse=self._may_refuse())
            for check in CONTRACT:
                self._begin(f"{check.name}{suffix}")
                verdict = await run_check(check, world, folder=self._folder)
                self._tell("contract", f"{check.name}{suffix}", verdict, check.meaning)
                known = verdicts.get(check.name, verdict)
                verdicts[check.name] = min(known, verdict, key=lambda each: _WORST.index(each.status))
        return verdicts

    async def faults(self, links: Iterable[LinkKind]) -> dict[Fault, Verdict] | None:
        """The verdicts of those that this mower can have; None when the folder offers none."""
        make = self._offer("contract_fault")
        if not callable(make):
            self._skip("fault", "faults", "contract_fault(context, fault)")
            return None
        reasons = self._mapping("NO_SUCH_FAULT", "fault")
        verdicts: dict[Fault, Verdict] = {}
        for fault in faults_of(links):
            reason = reasons.get(fault)
            if reason is not None:
                self._note(self._excuse(fault, reason))
                continue
            self._begin(f"fault {fault.value}")
            verdict = await run_fault(cast("MakeBench", make), fault, folder=self._folder)
            self._tell("fault", fault.value, verdict, MEANINGS[fault])
            verdicts[fault] = verdict
        return verdicts

    def _excuse(self, fault: Fault, reason: object) -> Finding:
        if isinstance(reason, str) and len(reason.strip()) >= _MIN_REASON:
            return Finding(area="fault", name=fault.value, status="exempt", detail=reason)
        return Finding(area="fault", name=fault.value, status="failed", detail="NO_SUCH_FAULT says no reason")

    def _tell(self, area: Area, name: str, verdict: Verdict, meaning: str) -> None:
        detail = verdict.detail or meaning
        self._note(Finding(area=area, name=name, status=verdict.status, detail=detail, seconds=verdict.seconds))

    def _mapping(self, name: str, area: Area) -> Mapping[str, object]:
        value = self._offer(name)
        if value is None or isinstance(value, Mapping):
            return value or {}
        self._note(Finding(area=area, name=name, status="failed", detail=f"{name} is no mapping"))
        return {}

    def _may_refuse(self) -> frozenset[str]:
        value = self._offer("MAY_REFUSE")
        if value is None or isinstance(value, set | frozenset | tuple | list):
            return frozenset(str(kind) for kind in value or ())
        self._note(Finding(area="contract", name="MAY_REFUSE", status="failed", detail="MAY_REFUSE is no set of kinds"))
        return frozenset()
