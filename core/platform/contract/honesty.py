"""Whether a quality list is true: what it calls done and the check can see, is looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from core.platform.contract.fault import Fault
from core.platform.contract.finding import Finding, FindingStatus
from core.platform.contract.source_text import calls_method, find_io
from core.platform.contract.suite import Verdict
from core.platform.flow import ConfigFlow
from core.platform.manifest import Manifest
from core.platform.quality import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the check knows of a folder. `verdicts` are those of the contract, by name, `faults` those of the faults
    that the mower can have; None when they were not run."""

    folder: Path
    manifest: Manifest
    flow_class: type[ConfigFlow] | None
    is_flow_good: bool
    are_texts_good: bool
    has_login_form: bool
    verdicts: Mapping[str, Verdict] | None
    faults: Mapping[Fault, Verdict] | None


Proof = tuple[FindingStatus, str]
_PROVEN: Proof = ("passed", "")
_UNSEEN: Proof = ("claimed", "")


def judge(answers: Mapping[str, Answer], facts: Facts) -> list[Finding]:
    """One finding for each rule of the list."""
    found = []
    for name, answer in answers.items():
        status, detail = _judge_one(name, answer, facts)
        found.append(Finding(area="quality", name=name, status=status, detail=detail or answer.reason or ""))
    return found


def _judge_one(name: str, answer: Answer, facts: Facts) -> Proof:
    if answer.status == "done":
        return _PROOFS[name](facts) if name in _PROOFS else _UNSEEN
    contradiction = _EXCUSES[name](facts) if answer.status == "exempt" and name in _EXCUSES else None
    return (answer.status, "") if contradiction is None else ("failed", f"cannot be exempt: {contradiction}")


def _when(condition: object, otherwise: str) -> Proof:
    return _PROVEN if condition else ("failed", otherwise)


def _has_step(step: str) -> Callable[[Facts], Proof]:
    def prove(facts: Facts) -> Proof:
        return _when(callable(getattr(facts.flow_class, f"step_{step}", None)), f"the flow has no step_{step}")

    return prove


def _by_contract(check: str) -> Callable[[Facts], Proof]:
    def prove(facts: Facts) -> Proof:
        if facts.verdicts is None:
            return "claimed", "not verified: the contract was not run"
        verdict = facts.verdicts[check]
        if verdict.status == "skipped":
            return "failed", f"the emulated mower {verdict.detail}: say exempt, or emulate one that can"
        return _when(verdict.status == "passed", f"the contract says otherwise ({check})")

    return prove


def _by_whole_contract(facts: Facts) -> Proof:
    if facts.verdicts is None:
        return "claimed", "not verified here: emulator.py offers no contract_world"
    failed = [name for name, verdict in facts.verdicts.items() if verdict.status == "failed"]
    return _when(not failed, f"failed: {', '.join(failed)}")


def _by_faults(*some: Fault) -> Callable[[Facts], Proof]:
    """By those that the mower can have; without any named, by all."""

    def prove(facts: Facts) -> Proof:
        if facts.faults is None:
            return "claimed", "not verified: the faults were not run"
        seen = {fault: verdict for fault, verdict in facts.faults.items() if not some or fault in some}
        if not seen:
            return "claimed", "not verified: the emulated mower has no such fault"
        failed = [fault.value for fault, verdict in seen.items() if verdict.status != "passed"]
        return _when(not failed, f"failed: {', '.join(failed)}")

    return prove


def _is_pure(*names: str) -> Callable[[Facts], Proof]:
    def prove(facts: Facts) -> Proof:
        files = [file for name in names if (file := facts.folder / name).is_file()]
        if not files:
            return "failed", f"there is no {' or '.join(names)}"
        mistakes = [mistake for file in files if (mistake := find_io(file)) is not None]
        return _when(not mistakes, "; ".join(mistakes))

    return prove


def _has_file(name: str) -> Callable[[Facts], Proof]:
    def prove(facts: Facts) -> Proof:
        file = facts.folder / name
        return _when(file.is_file() and file.stat().st_size > 0, f"there is no {name}, or nothing in it")

    return prove


def _has_discovery(facts: Facts) -> Proof:
    manifest = facts.manifest
    if not (manifest.bluetooth or manifest.zeroconf or manifest.mqtt):
        return "failed", "the manifest has no matcher"
    return _has_step("discovery")(facts)


def _keeps_budget(facts: Facts) -> Proof:
    if facts.manifest.request_limit is None:
        return "failed", "the manifest has no request_limit"
    return _when(calls_method(facts.folder, "spend"), "nothing calls budget.spend()")


_PROOFS: dict[str, Callable[[Facts], Proof]] = {
    "manifest": lambda _: _PROVEN,
    "config-flow": lambda facts: _when(facts.is_flow_good, "the flow has mistakes, or there is none"),
    "reconfigure-flow": _has_step("reconfigure"),
    "reauth-flow": _has_step("reauth"),
    "unique-identity": _by_contract("mowers_have_a_lasting_identity"),
    "request-budget": _keeps_budget,
    "contract-suite": _by_whole_contract,
    "pure-protocol": _is_pure("wire.py", "protocol.py"),
    "pure-mapping": _is_pure("mapping.py"),
    "unknown-values": _by_faults(Fault.UNKNOWN_WORD),
    "motion-once": _by_faults(Fault.LOST_ANSWERS, Fault.DROP_ON_WRITE, Fault.RESET_MID_ANSWER),
    "faults-on-demand": _by_faults(),
    "emergency-stop": _by_contract("stops_at_once_wherever_it_is"),
    "no-motion-on-restart": _by_contract("nothing_moves_unless_told"),
    "dead-man": _by_contract("driving_by_hand_has_a_dead_man"),
    "translations": lambda facts: _when(facts.are_texts_good, "the texts have mistakes"),
    "documentation": _has_file("README.md"),
    "emulator": _has_file("emulator.py"),
    "discovery": _has_discovery,
}
"""Rule -> how a `done` is verified."""


def _drives(facts: Facts) -> str | None:
    verdict = None if facts.verdicts is None else facts.verdicts["driving_by_hand_has_a_dead_man"]
    return "the mower can be driven by hand" if verdict is not None and verdict.status != "skipped" else None


def _asks_cloud(facts: Facts) -> str | None:
    return "a vendor's service is asked" if facts.manifest.iot_class.startswith("cloud") else None


_EXCUSES: dict[str, Callable[[Facts], str | None]] = {
    "dead-man": _drives,
    "request-budget": _asks_cloud,
    "reauth-flow": lambda facts: "a form asks for a password" if facts.has_login_form else None,
}
"""Rule -> why `exempt` is not true."""

VERIFIED: frozenset[str] = frozenset(_PROOFS)
