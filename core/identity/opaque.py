"""Opaque secrets: 256 random bits with a prefix that says what they are, kept only as a fingerprint."""

from __future__ import annotations

import hashlib
import secrets

REFRESH_PREFIX = "mdr_"
SERVICE_PREFIX = "mdk_"
RESET_PREFIX = "mdp_"


def make_secret(prefix: str) -> str:
    """A new secret; it is shown once and not kept."""
    return prefix + secrets.token_urlsafe(32)


def fingerprint(secret: str) -> str:
    """What is kept of a secret. A fast hash is right here: 256 random bits cannot be guessed."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
