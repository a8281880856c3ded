"""What the command's exit status means; scripts rely on it (docs/cli.md)."""

from __future__ import annotations

from core.domain.errors import (
    ForbiddenError,
    InvalidInputError,
    MowdeckError,
    NotFoundError,
    UnauthenticatedError,
    UnavailableError,
)

DONE = 0
FAILED = 1
"""Understood, but it did not come to pass (a command refused, failed or expired)."""
USAGE = 2
"""Wrong arguments or settings."""
NOT_ALLOWED = 3
"""Not signed in, or not permitted."""
UNREACHABLE = 4
"""The host does not answer."""
UNKNOWN = 5
"""Sent, but what became of it is not known."""
INTERRUPTED = 130
"""Ctrl-C, or a question that nobody answered."""


def exit_code_of(error: MowdeckError) -> int:
    """The exit status for an error."""
    match error:
        case UnauthenticatedError() | ForbiddenError():
            return NOT_ALLOWED
        case InvalidInputError() | NotFoundError():
            return USAGE
        case UnavailableError():
            return UNREACHABLE
        case _:
            return FAILED
