"""The quality list: which rules there are, what makes a list wrong, and what makes it untrue."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.domain.errors import InvalidInputError
from core.platform.contract.fault import Fault
from core.platform.contract.finding import Finding
from core.platform.contract.folder_check import check_folder
from core.platform.contract.honesty import VERIFIED, Facts, judge
from core.platform.contract.suite import CONTRACT, Verdict
from core.platform.flow import ConfigFlow
from core.platform.manifest import check_manifest
from core.platform.quality import RULES, Answer, find_mistakes, read_quality
from core.platform.template.new_folder import make_folder
from tests.contract.integration_contract import IntegrationContract

GOOD = {rule.name: Answer(status="done") for rule in RULES if rule.is_required}


def test_rules_are_distinct_and_say_how_they_are_verified():
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names)
    assert {rule.name for rule in RULES if rule.proof is not None} == VERIFIED


def test_a_whole_list_is_right():
    assert find_mistakes(GOOD) == ()


@pytest.mark.parametrize(
    ("rules", "field"),
    [
        ({"emergency-stop": None}, "emergency-stop"),
        ({"emergency-stop": Answer(status="todo")}, "emergency-stop"),
        ({"dead-man": Answer(status="exempt", reason="  ")}, "dead-man"),
        ({"my-own": Answer(status="done")}, "my-own"),
        ({"manifest": Answer(status="done", reason="x" * 500)}, "manifest"),
    ],
)
def test_a_list_that_is_wrong(rules: dict[str, Answer | None], field: str):
    answers = {name: answer for name, answer in {**GOOD, **rules}.items() if answer is not None}
    assert [mistake.field for mistake in find_mistakes(answers)] == [field]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"rules": {"manifest": {"status": "perfect"}}}', '{"rules": {"a": 1}}']
)
def test_a_file_that_is_none(tmp_path: Path, text: str):
    (tmp_path / "quality.json").write_text(text)
    with pytest.raises(InvalidInputError) as caught:
        read_quality(tmp_path)
    assert caught.value.mistakes[0].field == "quality.json"


def test_no_file(tmp_path: Path):
    with pytest.raises(InvalidInputError):
        read_quality(tmp_path)


class Bare(ConfigFlow):
    """A flow without any further step."""


def facts(tmp_path: Path, *, contract: str | None = "passed", **fields) -> Facts:
    tree = {
        "domain": "acme", "name": "Acme", "version": "1.0.0", "api": 1, "iot_class": "local_polling",
        "links": ["lan"], "codeowners": [], "licence": "MIT", **fields,
    }  # fmt: skip
    verdicts = faults = None
    if contract is not None:
        faults = {fault: Verdict(name=fault.value, status=contract, detail="cannot") for fault in Fault}
        verdicts = {check.name: Verdict(name=check.name, status=contract, detail="cannot") for check in CONTRACT}
    return Facts(
        folder=tmp_path,
        manifest=check_manifest(tree, folder="acme", where="test"),
        flow_class=Bare,
        is_flow_good=False,
        are_texts_good=False,
        has_login_form=True,
        verdicts=verdicts,
        faults=faults,
    )


def only(rule: str, status: str, known: Facts) -> Finding:
    (found,) = judge({rule: Answer(status=status, reason="because")}, known)
    return found


@pytest.mark.parametrize("rule", sorted(VERIFIED - {"manifest"}))
def test_nothing_is_done_in_an_empty_folder(tmp_path: Path, rule: str):
    assert only(rule, "done", facts(tmp_path, contract="failed")).status == "failed"
    assert only(rule, "todo", facts(tmp_path, contract="failed")).status == "todo"


def test_what_the_mower_cannot_do_is_not_done(tmp_path: Path):
    assert "say exempt" in only("dead-man", "done", facts(tmp_path, contract="skipped")).detail


def test_without_the_contract_it_is_only_claimed(tmp_path: Path):
    known = facts(tmp_path, contract=None)
    for rule in ("contract-suite", "emergency-stop", "dead-man", "faults-on-demand", "motion-once", "secrets-apart"):
        assert only(rule, "done", known).status == "claimed"


@pytest.mark.parametrize(
    ("rule", "fields"), [("dead-man", {}), ("reauth-flow", {}), ("request-budget", {"iot_class": "cloud_push"})]
)
def test_an_excuse_that_does_not_hold(tmp_path: Path, rule: str, fields: dict[str, str]):
    assert only(rule, "exempt", facts(tmp_path, **fields)).detail.startswith("cannot be exempt")


def edit(file: Path, before: str, after: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert before in text
    file.write_text(text.replace(before, after), encoding="utf-8")


async def failures(folder: Path) -> set[str]:
    """What fails; the contract is left out, for these mistakes have nothing to do with it."""
    edit(folder / "emulator.py", "async def contract_world", "async def another_world")
    report = await check_folder(folder, scope="contract")
    return {finding.name for finding in report.findings if finding.status == "failed"}


@pytest.mark.parametrize(
    ("file", "before", "after", "found"),
    [
        ("manifest.json", '"licence"', '"license"', {"manifest.json"}),
        ("integration.py", "from .link", "from .lnik", set()),  # imported by create() only: the contract finds it
        ("__init__.py", '"""\n', '"""\nimport nobody_has_this\n', {"import"}),
        ("config_flow.py", 'vol.Required("url"): str', 'vol.Required("url"): {"a": str}',
         {"USER_SCHEMA", "RECONFIGURE_SCHEMA", "step_user", "config-flow"}),
        ("config_flow.py", "step_user(", "step_usr(", {"steps", "step_user", "config-flow"}),
        ("config_flow.py", "step_reauth(", "step_re(", {"reauth-flow"}),
        ("config_flow.py", '"invalid_url"', '"not_in_texts"', {"used by the flow", "translations"}),
        ("strings.json", '"url": "Address"', '"address": "Address"', {"languages", "used by the flow", "translations"}),
        ("translations/de.json", '"wrong_pin"', '"falsche_pin"', {"languages", "translations"}),
        ("translations/de.json", "Mäher hinzufügen", "", {"translations/de.json", "translations"}),
        ("translations/de.json", "Mäher hinzufügen", "{name} hinzufügen", {"languages", "translations"}),
        ("mapping.py", "from datetime", "import asyncio\nfrom datetime", {"pure-mapping"}),
        ("wire.py", "import msgspec", "import msgspec\nasync def wait() -> None: ...", {"pure-protocol"}),
        ("quality.json", '"status": "todo", "reason": "README.md', '"status": "todo", "why": "README.md',
         {"quality.json"}),
        ("quality.json", '"manifest": {"status": "done"},', "", {"manifest"}),
        ("quality.json", '"request-budget": {"status": "exempt"', '"request-budget": {"status": "done"',
         {"request-budget"}),
    ],
)  # fmt: skip
async def test_one_mistake_in_a_folder_is_found(tmp_path: Path, file: str, before: str, after: str, found: set[str]):
    folder = make_folder(tmp_path, "acme_quality")
    edit(folder / file, before, after)
    assert await failures(folder) == found


async def test_a_breach_is_found_by_the_contract(tmp_path: Path):
    folder = make_folder(tmp_path, "acme_breach")
    edit(folder / "emulator.py", 'else "paused"', 'else "mowing"')  # deaf to the emergency stop
    edit(
        folder / "models.py",
        "emergency_stop=Simple(confirm_timeout_s=20.0)",
        "emergency_stop=Simple(confirm_timeout_s=0.3)",
    )
    report = await check_folder(folder, scope="contract")
    failed = {finding.name: finding.detail for finding in report.findings if finding.status == "failed"}
    assert "emergency_stop" in failed.pop("stops_at_once_wherever_it_is")
    assert failed.keys() == {"commands_have_a_visible_effect", "contract-suite", "emergency-stop"}
    assert not report.is_good


async def test_a_bug_is_named_by_its_line(tmp_path: Path):
    folder = make_folder(tmp_path, "acme_bug")
    edit(folder / "mapping.py", "    battery = status.battery\n", "    battery = status.batery\n")
    report = await check_folder(folder, scope="contract")
    details = [finding.detail for finding in report.findings if finding.name == "nothing_moves_unless_told"]
    assert "batery" in details[0]
    assert "mapping.py:" in details[0]


async def test_a_spawned_task_that_fails_is_a_breach(tmp_path: Path):
    folder = make_folder(tmp_path, "acme_task")
    edit(
        folder / "integration.py",
        ", self._rhythm.answer_s)\n",
        ", self._rhythm.answer_s)\n        context.spawn(self._fail(), 'fails')\n\n"
        "    async def _fail(self) -> None:\n        raise KeyError('lost')\n",
    )
    report = await check_folder(folder, scope="contract")
    details = [finding.detail for finding in report.findings if finding.name == "open_refuses_an_unknown_mower"]
    assert details[0].startswith("a spawned task failed")
    assert "'lost'" in details[0]


def test_the_pytest_class_holds_the_whole_contract():
    tests = {name.removeprefix("test_") for name in vars(IntegrationContract) if name.startswith("test_")}
    assert tests == {check.name for check in CONTRACT}


async def test_an_emulator_that_does_not_import(tmp_path: Path):
    folder = make_folder(tmp_path, "acme_exit")
    edit(folder / "emulator.py", "SERIAL =", "raise SystemExit(3)\nSERIAL =")
    report = await check_folder(folder, scope="contract")
    assert [f.name for f in report.findings if f.status == "failed"] == ["emulator.py"]


def test_the_template_is_json(tmp_path: Path):
    folder = make_folder(tmp_path, "acme_named", "Mäher & Söhne")
    for file in (folder / "manifest.json", folder / "quality.json", folder / "strings.json"):
        assert json.loads(file.read_text(encoding="utf-8"))
