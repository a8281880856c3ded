"""Connection options of a mower: what the relay may store for an integration, and what it may not (secrets)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec

from core.domain import limits
from core.domain.errors import InvalidInputError, Mistake

_SECRET_WORDS = frozenset(
    {
        *("password", "passwd", "passphrase", "pwd", "pin", "puk", "secret", "token", "credential", "auth"),
        *("authorization", "cookie", "otp", "apikey", "privatekey", "accesskey", "clientsecret"),
        *("accesstoken", "refreshtoken"),
    }
)
_SECRET_PAIRS = frozenset({("api", "key"), ("private", "key"), ("access", "key"), ("signing", "key")})
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def looks_secret(key: str) -> bool:
    """Whether a key's name says that its value is a secret (`apiKey`, `wifi_password`, `PIN`)."""
    words = [word.lower() for word in _WORD.findall(key)]
    singular = [word.removesuffix("s") for word in words]
    return not (_SECRET_WORDS.isdisjoint(words + singular) and _SECRET_PAIRS.isdisjoint(pairwise(singular)))


def encode_connection(connection: dict[str, Any]) -> str:
    """The options as JSON. InvalidInputError when they are too big or a key looks like a secret: secrets
    stay on the box, which asks for them itself."""
    mistakes = [
        Mistake(field=f"connection.{path}", reason="looks like a secret; enter it on the box")
        for path in _secret_paths(connection, "")
    ]
    text = msgspec.json.encode(connection)
    if len(text) > limits.CONNECTION_OPTIONS_BYTES:
        mistakes.append(Mistake(field="connection", reason=f"at most {limits.CONNECTION_OPTIONS_BYTES} bytes"))
    if mistakes:
        raise InvalidInputError(mistakes=tuple(mistakes))
    return text.decode()


def _secret_paths(value: Any, prefix: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            path = f"{prefix}.{key}" if prefix else str(key)
            if looks_secret(str(key)):
                yield path
            else:
                yield from _secret_paths(inner, path)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _secret_paths(inner, f"{prefix}.{index}")
