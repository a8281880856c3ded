"""The emulated mower itself: where it is, what it does, and how it obeys. Pure; time is what `advance` is given."""

from __future__ import annotations

from dataclasses import dataclass

from integrations.grouw_ble.wire import Mode

START, RESUME, PAUSE, DOCK = 0x02, 0x00, 0x01, 0x03
"""Numbers of the orders, as the captures have them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What does not change. Durations are the machine's seconds."""

    name: str = "Robot Mower_DYM"
    reacts_s: float = 1.0
    """Between an order and what the status says of it."""
    leaves_s: float = 8.0
    mows_s: float = 3_600.0
    returns_s: float = 40.0
    charges_per_s: float = 100 / 3_600
    uses_per_s: float = 100 / 7_200
    needs_session: bool = False
    """It tells its PIN only after a session was begun."""


class Machine:
    """State and its changes. `next_orders` are those that it has heard and not yet acted upon."""

    def __init__(self, traits: Traits | None = None) -> None:
        self.traits = traits or Traits()
        self.battery = 100.0
        self.station: int = 1
        self.mode: int = Mode.STOPPED
        self._pending: list[tuple[float, int]] = []
        self._left_s = 0.0
        """Until it has left its station, wants to go home, or is home."""

    def order(self, number: int) -> None:
        """Takes effect after its moment; nothing is answered."""
        self._pending.append((self.traits.reacts_s, number))

    def advance(self, seconds: float) -> None:
        """Lives on; in steps, so that what happens on the way happens in its order."""
        while seconds > 0.0:
            step = min(seconds, 0.5)
            seconds -= step
            self._pending = [(left_s - step, number) for left_s, number in self._pending]
            while self._pending and self._pending[0][0] <= 1e-9:
                self._obey(self._pending.pop(0)[1])
            self._live(step)

    def _obey(self, number: int) -> None:
        if number == START and self.station == 1:
            self.mode, self._left_s = Mode.MOWING, self.traits.leaves_s
        elif number == RESUME and self.station != 1:
            self.mode, self._left_s = Mode.MOWING, self.traits.mows_s
        elif number == PAUSE:
            self.mode = Mode.STOPPED
        elif number == DOCK and self.station != 1:
            self.mode, self._left_s = Mode.RETURNING, self.traits.returns_s

    def _live(self, step: float) -> None:
        if self.station == 1 and self.mode not in (Mode.MOWING, Mode.MOWING_ALTERNATE):
            self.battery = min(100.0, self.battery + step * self.traits.charges_per_s)
            return
        if self.mode == Mode.STOPPED:
            return
        self.battery = max(0.0, self.battery - step * self.traits.uses_per_s)
        self._left_s -= step
        if self._left_s > 0.0 and self.battery > 10.0:
            return
        if self.mode == Mode.RETURNING:
            if self._left_s <= 0.0:
                self.station, self.mode = 1, Mode.STOPPED
        elif self.station == 1:
            self.station, self._left_s = 0, self.traits.mows_s
        else:
            self.mode, self._left_s = Mode.RETURNING, self.traits.returns_s

    def stand(self) -> None:
        """Power is back after a loss: it stands where it was."""
        self._pending.clear()
        self.mode = Mode.STOPPED
