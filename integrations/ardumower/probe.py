"""Asks a mower who it is, for the forms in which a person adds or changes it."""

from __future__ import annotations

from integrations.ardumower.exchange import Exchange, Patience
from integrations.ardumower.line import Line
from integrations.ardumower.protocol import Session
from integrations.ardumower.wire import Version

PATIENCE = Patience(greeting_s=2.5, question_s=2.0)
"""So that three tries fit into one step of a flow."""


async def ask_version(line: Line, password: int | None, patience: Patience = PATIENCE) -> Version:
    """The mower's version, with the password proven right if one is given. Sets nothing in motion."""
    exchange = Exchange(line, Session(password or 0), patience)
    if password is None:
        return await exchange.greet()
    version, _ = await exchange.open()
    return version
