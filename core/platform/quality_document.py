"""The tables of `docs/integrations.md` that are made from the code: the rules, and what each integration says to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from core.platform.quality import KNOWN, RULES, Answer, read_quality

_WORDS = {"done": "yes", "todo": "to do", "exempt": "-"}
MARKS = ("quality rules", "quality of the integrations")
"""What stands between `<!-- <mark>: ... -->` and `<!-- end of <mark> -->` is written here."""


def rules_table() -> str:
    """The rules as a Markdown table."""
    lines = ["| rule | means | `done` is verified by |", "|---|---|---|"]
    for rule in RULES:
        name = f"`{rule.name}`" + ("" if rule.is_required else " (where it applies)")
        lines.append(f"| {name} | {rule.meaning} | {rule.proof or 'people'} |")
    return "\n".join(lines) + "\n"


def overview_table(folders: Sequence[Path]) -> str:
    """Every rule, and every integration's answer to it; then what is not done, with its reason."""
    lists = {folder.name: read_quality(folder) for folder in folders}
    names = sorted(lists)
    lines = [f"| rule | {' | '.join(f'`{name}`' for name in names)} |", f"|---|{'---|' * len(names)}"]
    for rule in RULES:
        said = [_word(lists[name].get(rule.name)) for name in names]
        lines.append(f"| `{rule.name}` | {' | '.join(said)} |")
    open_ends = [line for name in names for line in _open_ends(name, lists[name])]
    return "\n".join([*lines, "", "| integration | still to do | why |", "|---|---|---|", *open_ends]) + "\n"


def _word(answer: Answer | None) -> str:
    return "" if answer is None else _WORDS[answer.status]


def _open_ends(name: str, answers: Mapping[str, Answer]) -> list[str]:
    return [
        f"| `{name}` | `{rule}`{'' if rule in KNOWN else ' (its own)'} | {answer.reason} |"
        for rule, answer in answers.items()
        if answer.status == "todo"
    ]


def write_tables(text: str, folders: Sequence[Path]) -> str:
    """The document with its tables made anew; ValueError when a mark is missing."""
    for mark, table in zip(MARKS, (rules_table(), overview_table(folders)), strict=True):
        begin, end = f"<!-- {mark}:", f"<!-- end of {mark} -->"
        head, found, rest = text.partition(begin)
        comment, closed, rest = rest.partition("-->\n")
        _, ended, tail = rest.partition(end)
        if not (found and closed and ended):
            raise ValueError(f"the document has no {mark}")
        text = f"{head}{found}{comment}{closed}\n{table}{ended}{tail}"
    return text
