"""What scripts may rely on."""

from __future__ import annotations

import pytest

from core.command_line import exit_codes
from core.command_line.exit_codes import FAILED, NOT_ALLOWED, UNREACHABLE, USAGE, exit_code_of
from core.domain import errors
from core.domain.errors import MowdeckError
from tests.house.sources import ROOT

EXPECTED: dict[type[MowdeckError], int] = {
    errors.UnauthenticatedError: NOT_ALLOWED,
    errors.ForbiddenError: NOT_ALLOWED,
    errors.InvalidInputError: USAGE,
    errors.SettingsError: USAGE,
    errors.TooManyBinsError: USAGE,
    errors.NotFoundError: USAGE,
    errors.NoTelemetryYetError: USAGE,
    errors.UnavailableError: UNREACHABLE,
    errors.NotPublishedError: UNREACHABLE,
}
"""All others: FAILED."""
ALL = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, MowdeckError)]


@pytest.mark.parametrize("kind", ALL)
def test_every_error_class_has_its_status(kind: type[MowdeckError]):
    error = kind.__new__(kind)
    assert exit_code_of(error) == EXPECTED.get(kind, FAILED)


def test_every_status_is_in_the_document():
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for number in {value for name, value in vars(exit_codes).items() if name.isupper()}:
        assert f"| {number} |" in text
