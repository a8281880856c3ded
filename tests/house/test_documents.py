"""Documents that code can contradict are held true."""

from __future__ import annotations

import re

from cloud_relay.settings import TABLE as RELAY
from core.command_line.main import build
from core.command_line.settings import TABLE as CLIENT
from core.settings.document import settings_document
from edge_agent.settings import TABLE as EDGE
from tests.house.sources import ROOT, modules

DOCS = ROOT / "docs"


def test_every_setting_is_listed():
    stale = "docs/settings.md is stale: run script/write-docs"
    wanted = settings_document({"edge": EDGE, "relay": RELAY, "client": CLIENT})
    assert (DOCS / "settings.md").read_text(encoding="utf-8") == wanted, stale


def test_every_variable_that_code_reads_is_a_setting():
    known = {s.variable(n) for n, t in (("edge", EDGE), ("relay", RELAY), ("client", CLIENT)) for s in t}
    known |= {"MOWDECK_CONFIG"}
    for path in modules():
        for word in re.findall(r"MOWDECK_[A-Z][A-Z_]*[A-Z]", path.read_text(encoding="utf-8")):
            is_prefix = any(k.startswith(word) for k in known) or word.removesuffix("_FILE") in known
            assert word in known or is_prefix, f"{path.name}: {word}"


def test_every_command_is_in_the_document():
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    app = build([])
    names = [(c.name or c.callback.__name__.replace("_", "-")) for c in app.registered_commands]
    for group in app.registered_groups:
        names += [f"{group.name} {c.name or c.callback.__name__}" for c in group.typer_instance.registered_commands]
    assert [n for n in names if f"mowdeck {n}" not in text and f"`{n}`" not in text] == []


def test_every_adr_is_in_the_list():
    listed = (DOCS / "adr" / "README.md").read_text(encoding="utf-8")
    for page in (DOCS / "adr").glob("0*.md"):
        assert page.name in listed
        text = page.read_text(encoding="utf-8")
        for part in ("**Context.**", "**Decision.**", "**Consequences.**", "**Rejected.**"):
            assert part in text, f"{page.name} lacks {part}"


def test_every_message_and_close_code_of_the_socket_is_documented():
    from core.web.realtime.messages import ClientMessage, CloseCode, ServerMessage

    text = (DOCS / "realtime.md").read_text(encoding="utf-8")
    for kind in (*ClientMessage.__args__, *ServerMessage.__args__):
        tag = kind.__struct_config__.tag
        assert f"`{tag}" in text, tag
    for code in CloseCode:
        assert f"| {code.value} |" in text


def test_every_error_code_is_documented():
    from core.domain.errors import MowdeckError

    def tree(root):
        return [root, *(c for sub in root.__subclasses__() for c in tree(sub))]

    text = (DOCS / "problems.md").read_text(encoding="utf-8")
    assert [
        c.code for c in tree(MowdeckError) if c.__module__ == "core.domain.errors" and f"`{c.code}`" not in text
    ] == []
