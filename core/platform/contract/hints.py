"""What the author of an integration can do about a finding."""

from __future__ import annotations

from collections.abc import Mapping

from core.platform.contract.finding import Area, Finding

_GUIDE = "docs/integrations.md"
_AREAS: Mapping[Area, str] = {
    "manifest": f"Correct manifest.json; {_GUIDE} names its keys.",
    "import": "Import it by hand (python -c) to see the whole error. A missing library belongs into `requirements`.",
    "flow": "Schemas are voluptuous, flat, and of plain types; each step is a method `step_<name>` that returns a result.",
    "texts": "Both languages hold the same keys: config.step.<step>.title and .data.<field>, config.error, config.abort.",
    "contract": "`run_check(check, World(make=contract_world))` in a test of your own shows where it fails.",
    "fault": "Translate foreign errors where the bytes come in, give every wait a deadline, send an order once.",
    "quality": "Do it, or say `todo` or `exempt` in quality.json, and why.",
}
_NAMES: Mapping[str, str] = {
    "emulator.py": "Run `python -c 'import <folder>.emulator'` in the folder above it to see the whole error.",
    "contract": f"Write `contract_world(context)` in emulator.py; {_GUIDE} shows how.",
    "faults": f"Write `contract_fault(context, fault)` and NO_SUCH_FAULT in emulator.py; {_GUIDE} shows how.",
    "quality.json": "`mowdeck integration new` makes one that is whole; copy it from there.",
    "step_user": "The first step has to work on a box without Bluetooth and without network: show a form, or abort.",
    "mowers_have_a_lasting_identity": "Take vendor and serial from the mower or the entry, never from a counter or a random number.",
    "open_refuses_an_unknown_mower": "Compare the key with `key_of` of your mowers, and raise EntryError.",
    "nothing_moves_unless_told": "A new link only reads. Nothing is repeated or resumed when it opens.",
    "states_are_plausible_and_in_order": "What was not read is None; times are the context's clock, aware UTC.",
    "commands_have_a_visible_effect": "Poll sooner after a command, or give its capability a longer confirm timeout.",
    "stops_at_once_wherever_it_is": "An emergency stop overtakes what waits, and nothing that moves follows it by itself.",
    "what_it_cannot_do_is_refused": "Ask `find_mistakes` and the capabilities first, and refuse with a reason.",
    "driving_by_hand_has_a_dead_man": "A frame holds for its `ttl_ms`; then the mower is told to stand, blades off.",
    "a_link_is_never_reopened": "Note that `run` was called, and raise LinkLostError from then on.",
    "leaves_no_task_behind": "Make tasks in a TaskGroup within `run`, or with `context.spawn`.",
}


def hint_for(finding: Finding) -> str:
    """Empty for what is good."""
    match finding.status:
        case "failed":
            return _NAMES.get(finding.name.partition(" ")[0], _AREAS[finding.area])
        case "skipped":
            return _NAMES[finding.name] if finding.name in ("contract", "faults") else ""
        case "claimed":
            return "Only people can see it: look at it yourself before somebody else does."
        case "todo":
            return "Still to do; the reason says what."
        case _:
            return ""
