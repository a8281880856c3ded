"""How a host's process ends: an exit status and a line each, never a traceback for what was to be expected."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import pytest
import structlog

from core.command_line.host_daemon import run_host
from core.domain.errors import Mistake, SettingsError, StorageError, UnavailableError


@dataclass(frozen=True)
class Settings:
    log_level: str = "error"
    log_format: str = "json"


@pytest.fixture(autouse=True)
def _logging_as_it_was():
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)
    structlog.reset_defaults()


def run(error: BaseException | None = None, load_error: Exception | None = None) -> int:
    def load(_environ):
        if load_error is not None:
            raise load_error
        return Settings()

    async def main(_settings):
        if error is not None:
            raise error

    return run_host("edge", load, main)


def test_a_host_that_has_ended_in_peace(capsys):
    assert run() == 0
    assert capsys.readouterr().err == ""


def test_every_wrong_setting_has_its_line(capsys):
    wrong = SettingsError(mistakes=(Mistake(field="A", reason="one"), Mistake(field="B", reason="two")))
    assert run(load_error=wrong) == 2
    assert capsys.readouterr().err.splitlines() == ["mowdeck edge: A: one", "mowdeck edge: B: two"]


def test_what_keeps_it_from_starting_says_what_to_do(capsys):
    assert run(StorageError("no disk", hint="Buy one.")) == 2
    assert capsys.readouterr().err == "mowdeck edge: no disk (Buy one.)\n"


def test_errors_of_several_parts_have_a_line_each(capsys):
    inner = ExceptionGroup("inner", [UnavailableError("the broker is gone")])
    assert run(ExceptionGroup("outer", [StorageError("no disk"), inner])) == 1
    assert capsys.readouterr().err.splitlines() == ["mowdeck edge: no disk", "mowdeck edge: the broker is gone"]


def test_a_defect_is_not_hidden():
    with pytest.raises(ExceptionGroup):
        run(ExceptionGroup("outer", [StorageError("no disk"), ZeroDivisionError()]))
    with pytest.raises(ZeroDivisionError):
        run(ZeroDivisionError())
