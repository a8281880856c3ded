"""Which mowers a link of this box holds: never two at once, whatever entries they come from.

While a mower is connected over Bluetooth it serves no HTTP, and two askers would get each other's answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from core.domain.errors import NotReadyError

_held: set[str] = set()
"""Of this process: entries know nothing of each other, and the mower is the same for all of them."""


@contextmanager
def hold(*identities: str) -> Iterator[None]:
    """Holds a mower under all its names; NotReadyError when somebody else does."""
    wanted = {identity.lower() for identity in identities}
    if wanted & _held:
        raise NotReadyError("another link of this box is talking to the mower")
    _held.update(wanted)
    try:
        yield
    finally:
        _held.difference_update(wanted)


def is_held(identity: str) -> bool:
    """Whether a link runs for the mower of that name."""
    return identity.lower() in _held
