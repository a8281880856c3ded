"""The quality list of an integration: a fixed set of rules, each done, still to do, or exempt for a reason.

`quality.json` holds {"rules": {"<rule>": {"status": "done" | "todo" | "exempt", "reason": "..."}}}. What is not done says
why. An integration may add rules of its own, with a reason that says what they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from core.domain.errors import InvalidInputError, Mistake

QUALITY_BYTES = 64 * 1024
MAX_REASON = 400

Status = Literal["done", "todo", "exempt"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. `proof`: how `mowdeck integration check` verifies a `done`; None means that only people can see it."""

    name: str
    meaning: str
    proof: str | None = None
    is_required: bool = True
    """Has to stand in every list; the others only where they say something."""


class Answer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an integration says to one rule."""

    status: Status
    reason: str | None = None


class _Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    rules: dict[str, Answer]


RULES: tuple[Rule, ...] = (
    Rule(
        name="manifest",
        meaning="`manifest.json` is complete and true: links, requirements, licence, codeowners.",
        proof="it is read as the box reads it",
    ),
    Rule(
        name="config-flow",
        meaning="A person adds the mower by forms; no file has to be edited.",
        proof="the first step is taken, and every form can be shown",
    ),
    Rule(
        name="reconfigure-flow",
        meaning="What may change later (address, rhythm) is changed without removing the entry.",
        proof="the flow has `step_reconfigure`",
    ),
    Rule(
        name="reauth-flow",
        meaning="When credentials are refused a person is asked for new ones, and the entry stays.",
        proof="the flow has `step_reauth`",
    ),
    Rule(
        name="unique-identity",
        meaning="A mower is known by vendor and serial number, the same after a restart and over every link.",
        proof="contract: `mowers_have_a_lasting_identity`",
    ),
    Rule(
        name="secrets-apart",
        meaning="Passwords, PINs and tokens are secrets of the entry: never in its data, a log line or an error.",
    ),
    Rule(
        name="request-budget",
        meaning="A vendor's service is asked no more often than it allows; every request is taken from the budget.",
        proof="the manifest has a `request_limit`, and the code calls `spend`",
    ),
    Rule(
        name="contract-suite",
        meaning="The contract of all integrations holds against an emulated mower.",
        proof="every check of the contract is run on `contract_world` of `emulator.py`",
    ),
    Rule(
        name="pure-protocol",
        meaning="The vendor's words and frames are handled without I/O, and tested as bytes.",
        proof="`wire.py` and `protocol.py` import no network, and await nothing",
    ),
    Rule(
        name="pure-mapping",
        meaning="Vendor message to state, command to vendor message: functions without I/O.",
        proof="`mapping.py` imports no network, and awaits nothing",
    ),
    Rule(
        name="unknown-values",
        meaning="A word that is not known becomes `unknown`, stays in `raw`, and is logged once; it never raises.",
        proof="fault: `unknown_word`; that it is logged once, people see",
    ),
    Rule(
        name="stable-areas",
        meaning="An area keeps its id when the vendor renumbers or a person renames it.",
    ),
    Rule(
        name="emergency-stop",
        meaning="An emergency stop overtakes whatever else waits for the mower, and holds.",
        proof="contract: `stops_at_once_wherever_it_is`",
    ),
    Rule(
        name="no-motion-on-restart",
        meaning="Neither a new link nor a restart of the box sets a mower in motion.",
        proof="contract: `nothing_moves_unless_told`",
    ),
    Rule(
        name="motion-once",
        meaning="A command is sent once; when its answer is lost the outcome is `unknown`, never a second try.",
        proof="fault: `lost_answers`, `drop_on_write`, `reset_mid_answer`",
        is_required=False,
    ),
    Rule(
        name="dead-man",
        meaning="Driven by hand, the mower stands still when no frame follows, and when the link ends.",
        proof="contract: `driving_by_hand_has_a_dead_man`",
    ),
    Rule(
        name="translations",
        meaning="Every step, field, error and ending has its text, in English and in German.",
        proof="both files hold the same keys, and what the flow uses is there",
    ),
    Rule(
        name="documentation",
        meaning="A page says which mowers, how to set them up, what works and what does not.",
        proof="the folder has a `README.md`",
    ),
    Rule(
        name="emulator",
        meaning="There is a mower to test against that needs no mower.",
        proof="the folder has an `emulator.py`",
    ),
    Rule(
        name="faults-on-demand",
        meaning="The emulated mower can be silent, talk nonsense, lose an answer, drop the link; tests use it.",
        proof="every fault of its links is run on `contract_fault` of `emulator.py`, or has a reason why there is none",
    ),
    Rule(
        name="discovery",
        meaning="Mowers nearby are found by themselves, and a person confirms.",
        proof="the manifest has a matcher, and the flow `step_discovery`",
        is_required=False,
    ),
    Rule(
        name="mower-may-sleep",
        meaning="A standing mower is asked so seldom that its battery does not notice.",
        is_required=False,
    ),
    Rule(
        name="totals-survive-restart",
        meaning="Counters of the mower's life never begin anew.",
        is_required=False,
    ),
    Rule(
        name="independent-client",
        meaning="Somebody else's library works against the emulator, so that it is no mirror of our own mistakes.",
        is_required=False,
    ),
    Rule(
        name="real-mower",
        meaning="It has been used with a real machine; the reason says which.",
        is_required=False,
    ),
)

KNOWN: frozenset[str] = frozenset(rule.name for rule in RULES)


def read_quality(folder: Path) -> dict[str, Answer]:
    """The quality list in `folder`; InvalidInputError names every mistake: missing rules, missing reasons."""
    file = folder / "quality.json"
    try:
        with file.open("rb") as stream:
            data = stream.read(QUALITY_BYTES + 1)
        if len(data) > QUALITY_BYTES:
            raise InvalidInputError.of("quality.json", f"is larger than {QUALITY_BYTES} bytes")
        answers = msgspec.json.decode(data, type=_Body).rules
    except OSError as err:
        raise InvalidInputError.of("quality.json", f"cannot be read ({err.strerror})") from err
    except (msgspec.DecodeError, RecursionError) as err:
        raise InvalidInputError.of("quality.json", str(err)) from err
    mistakes = find_mistakes(answers)
    if mistakes:
        raise InvalidInputError(mistakes=mistakes)
    return answers


def find_mistakes(answers: dict[str, Answer]) -> tuple[Mistake, ...]:
    """What is wrong with a list as such; whether it is true is another question."""
    found = [
        Mistake(field=rule.name, reason="is missing: say done, todo or exempt")
        for rule in RULES
        if rule.is_required and rule.name not in answers
    ]
    for name, answer in answers.items():
        reason = (answer.reason or "").strip()
        if answer.status != "done" and not reason:
            found.append(Mistake(field=name, reason=f"is {answer.status}: say why"))
        elif name not in KNOWN and not reason:
            found.append(Mistake(field=name, reason="is a rule of your own: say what it is"))
        elif len(reason) > MAX_REASON:
            found.append(Mistake(field=name, reason=f"has a reason of more than {MAX_REASON} characters"))
    return tuple(found)
