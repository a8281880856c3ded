"""Values that hold a secret and must not show it: a repr ends up in logs, tracebacks and bug reports."""

from __future__ import annotations


def hidden_repr(value: object) -> str:
    """Only what kind of value it is. For a class: `__repr__ = hidden_repr`."""
    return f"{type(value).__name__}(...)"
