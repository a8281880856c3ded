"""No value that has a field for a secret shows it in its repr."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import msgspec

import cloud_relay
import core
import edge_agent
import integrations
from core.settings.log import is_secret_name

SECRET = "s3cret-value"
OURS = frozenset(root.__name__ for root in (core, cloud_relay, edge_agent, integrations))
HARMLESS = frozenset(
    {"must_change_password", "token_id", "token_type", "token_expires_at", "is_secret", "tokens", "secrets"}
)
"""About secrets, or a store with a repr of its own."""


def values() -> Iterator[type[Any]]:
    """Every Struct and dataclass of the product."""
    seen: set[type[Any]] = set()
    for root in (core, cloud_relay, edge_agent, integrations):
        for found in pkgutil.walk_packages(root.__path__, f"{root.__name__}."):
            if found.name.endswith("__main__"):
                continue
            for kind in vars(importlib.import_module(found.name)).values():
                if isinstance(kind, type) and kind not in seen and kind.__module__.split(".")[0] in OURS:
                    seen.add(kind)
                    if issubclass(kind, msgspec.Struct) or dataclasses.is_dataclass(kind):
                        yield kind


def fields_of(kind: type[Any]) -> list[str]:
    if issubclass(kind, msgspec.Struct):
        return [field.name for field in msgspec.structs.fields(kind)]
    return [field.name for field in dataclasses.fields(kind) if field.init]


def test_no_repr_shows_a_secret() -> None:
    looked_at = []
    for kind in values():
        names = fields_of(kind)
        secret = [name for name in names if is_secret_name(name) and name not in HARMLESS]
        if secret:
            looked_at.append(kind.__name__)
            made = kind(**{name: SECRET if name in secret else None for name in names})
            assert SECRET not in repr(made), f"{kind.__module__}.{kind.__name__} shows {secret}"
    assert {"SignInBody", "TokenPair", "LinkGrant", "Credential", "RelaySettings"} <= set(looked_at)
