"""The `mowdeck` command in this process, against a host that plays along."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import ConsoleDimensions
from typer.testing import CliRunner, Result

from core.command_line.main import build
from core.command_line.terminal import console, errors
from tests.core.command_line.fake_host import FakeHost, fake_host


class Terminal:
    """Somebody at a terminal: runs commands with a home of their own."""

    def __init__(self, home: Path, host: FakeHost | None = None) -> None:
        self.home = home
        self.host = host
        self.env = {
            "MOWDECK_CLIENT_CONFIG_DIR": str(home),
            "MOWDECK_CLIENT_PASSWORD": "a lawn is a slow pond",
            "COLUMNS": "200",
            "NO_COLOR": "1",
        }

    def run(self, *words: str, stdin: str | None = None, **env: str | None) -> Result:
        arguments, environ = list(words), {**self.env, **env}
        for one in (console, errors):  # made at import, with the size of whatever terminal the tests run in
            one.size = ConsoleDimensions(int(environ["COLUMNS"] or 80), 50)
        return CliRunner().invoke(build(arguments), arguments, input=stdin, env=environ)

    def ask(self, *words: str, status: int = 0) -> Any:
        """The JSON answer of a command that ends with this status."""
        result = self.run(*words, "--json")
        assert result.exit_code == status, (result.exit_code, result.output, result.exception)
        return json.loads(result.stdout)


@pytest.fixture
def host() -> Iterator[FakeHost]:
    with fake_host() as running:
        yield running


@pytest.fixture
def terminal(tmp_path: Path, host: FakeHost) -> Terminal:
    """Signed in at `host`."""
    host.sign_in(tmp_path)
    return Terminal(tmp_path, host)
