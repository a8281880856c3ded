"""The key that other boxes seal bundles for: made once, kept among the secrets, never shown."""

from __future__ import annotations

import asyncio
import base64
import os

from core.domain.ids import EntryId
from core.platform.handover.sealed_box import KEY_BYTES
from core.platform.secret_store import SecretStore

_OWNER = EntryId("handover")
"""Among the secrets of the entries; no entry has this id, for theirs are made of time and chance."""
_NAME = "private_key"


class HandoverKey:
    """Opened by this machine only, as all secrets; on another machine a new one is made."""

    def __init__(self, secrets: SecretStore) -> None:
        self._secrets = secrets
        self._lock = asyncio.Lock()

    async def private(self) -> bytes:
        """The private key (32 bytes), on the disk when this returns. StorageError."""
        async with self._lock:
            known = self._secrets.read(_OWNER).get(_NAME)
            if known is None:
                known = base64.b64encode(os.urandom(KEY_BYTES)).decode()
                self._secrets.change(_OWNER, {_NAME: known})
            await self._secrets.flush()
            return base64.b64decode(known)
