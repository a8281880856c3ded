"""Gardens and machines for tests; the ways of a garden are worked out once."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from integrations.simulator.lawn import make_garden
from integrations.simulator.machine import Machine, Traits
from integrations.simulator.routes import Router


@lru_cache(maxsize=16)
def router(seed: int) -> Router:
    return Router(make_garden(seed))


def machine(seed: int = 1, **traits: Any) -> Machine:
    ways = router(seed)
    return Machine(ways.garden, Traits(seed=seed, **traits), ways)
