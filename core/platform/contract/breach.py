"""How a check ends when it does not pass: the contract is broken, or it does not apply to this mower."""

from __future__ import annotations


class BreachError(AssertionError):
    """The integration breaks the contract; the message says where, for its author."""


class NotApplicableError(Exception):
    """The mower has nothing that this check could look at; the message says what is missing."""


def require(condition: object, breach: str) -> None:
    """Raises BreachError with the text `breach` unless the condition holds. (An `assert` would go with `python -O`.)"""
    if not condition:
        raise BreachError(breach)
