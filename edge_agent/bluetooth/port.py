"""The Bluetooth service as one config entry sees it: what it started ends with it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Literal

from core.domain.errors import ConflictError
from core.platform.bluetooth import Advertisement, BluetoothPort, GattConnection, Undo, never

LISTENERS_MAX = 64


class EntryBluetooth:
    """Implements `core.platform.bluetooth.BluetoothPort`; `close` undoes its listeners."""

    def __init__(self, service: BluetoothPort) -> None:
        self._service = service
        self._undo: dict[object, Undo] = {}
        self._is_closed = False

    def latest(self, address: str) -> Advertisement | None:
        return self._service.latest(address)

    def listen(self, on_advertisement: Callable[[Advertisement], None], *, address: str | None = None) -> Undo:
        if self._is_closed:
            raise ConflictError("the entry is closed")
        if len(self._undo) >= LISTENERS_MAX:
            raise ConflictError(f"an entry may listen {LISTENERS_MAX} times")
        token = object()
        self._undo[token] = self._service.listen(on_advertisement, address=address)

        def undo() -> None:
            inner = self._undo.pop(token, None)
            if inner is not None:
                inner()

        return undo

    def connect(
        self,
        address: str,
        *,
        bond: Literal["none", "existing", "pair"] = "none",
        passkey: int | None = None,
        deadline_s: float = 60.0,
        on_wanted: Callable[[], None] | None = None,
        is_urgent: Callable[[], bool] = never,
    ) -> AbstractAsyncContextManager[GattConnection]:
        if self._is_closed:
            raise ConflictError("the entry is closed")
        return self._service.connect(
            address, bond=bond, passkey=passkey, deadline_s=deadline_s, on_wanted=on_wanted, is_urgent=is_urgent
        )

    async def forget(self, address: str) -> None:
        await self._service.forget(address)

    def close(self) -> None:
        """The entry is unloaded: nothing calls it any more. Connections end with the tasks that hold them."""
        self._is_closed = True
        for undo in self._undo.values():
            undo()
        self._undo.clear()
