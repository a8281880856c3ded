"""One open path to a mower, as the exchange sees it: a request goes out, a reply comes back, or silence."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from integrations.ardumower.protocol import Damage, Reply

Answer = Reply | Damage | None
"""A sound reply, something that cannot be believed, or silence."""


class Line(Protocol):
    """Carries one request at a time; whoever cancels a question takes care of what it may have caused."""

    async def ask(self, request: bytes, name: str, deadline_s: float) -> Answer:
        """Writes the request once and waits for the reply called `name`. LinkLostError or a BluetoothError when the
        path itself fails."""
        ...

    async def wait_closed(self) -> None:
        """Returns when the path has ended by itself."""
        ...


class OpenLine(Protocol):
    """Opens a path for as long as its block lasts."""

    def __call__(self) -> AbstractAsyncContextManager[Line]: ...
