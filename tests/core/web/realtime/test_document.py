"""The document of the protocol says what the types say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import msgspec

from core.web.realtime.messages import ClientMessage, CloseCode, ServerMessage

TEXT = (Path(__file__).parents[4] / "docs" / "realtime.md").read_text()


def rows(heading: str) -> dict[str, str]:
    """First cell to second cell of the table below a heading."""
    section = TEXT.split(f"## {heading}\n")[1].split("\n## ")[0]
    return dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", section, re.MULTILINE))


def fields_of(cell: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", re.sub(r"\{.*\}", "", cell)))


def expected(union: object) -> dict[str, set[str]]:
    return {
        str(kind.__struct_config__.tag): {field.encode_name for field in msgspec.structs.fields(kind)}
        for kind in get_args(union)
    }


def test_every_message_is_described_with_its_fields() -> None:
    for heading, union in (("What a client says", ClientMessage), ("What the server says", ServerMessage)):
        assert {name: fields_of(cell) for name, cell in rows(heading).items()} == expected(union)


def test_every_close_code_is_described() -> None:
    found = re.findall(r"^\| (\d{4}) \| `(\w+)` \|", TEXT, re.MULTILINE)
    assert {(int(code), name) for code, name in found} == {(code.value, code.name) for code in CloseCode}
