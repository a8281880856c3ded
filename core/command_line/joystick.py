"""The keyboard as a joystick, pure: bytes of a terminal in, frames out. A terminal tells presses and repeats, never a
release, so a key counts as held for a moment after each of its bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from core.domain.drive import DriveFrame

HOLD_S = 0.4
"""A key whose repeat has not come by then was let go."""
FRAME_S = 0.1
"""Between two frames while the mower drives."""
STANDING_FRAME_S = 1.0
"""Between two frames while it stands: they say that somebody is there."""


class Key(Enum):
    """What a key means."""

    FORWARD = "forward"
    BACK = "back"
    LEFT = "left"
    RIGHT = "right"
    STOP = "stop"
    QUIT = "quit"


_LETTERS = {
    "w": Key.FORWARD,
    "s": Key.BACK,
    "a": Key.LEFT,
    "d": Key.RIGHT,
    " ": Key.STOP,
    "q": Key.QUIT,
    "\x03": Key.QUIT,
    "\x04": Key.QUIT,
}
_ARROWS = {"A": Key.FORWARD, "B": Key.BACK, "D": Key.LEFT, "C": Key.RIGHT}
_OPPOSITE = {Key.FORWARD: Key.BACK, Key.BACK: Key.FORWARD, Key.LEFT: Key.RIGHT, Key.RIGHT: Key.LEFT}


class KeyReader:
    """Keys out of what a terminal sends: letters, and arrows as `ESC [ A` or `ESC O A`, however they are cut."""

    def __init__(self) -> None:
        self._escape = ""

    def read(self, data: bytes) -> list[Key]:
        """The keys in the next bytes; what is none of ours is left out."""
        found = []
        for character in data.decode("latin-1"):
            key = self._next(character)
            if key is not None:
                found.append(key)
        return found

    def _next(self, character: str) -> Key | None:
        if character == "\x1b":
            self._escape = character
            return None
        if self._escape == "\x1b" and character in "[O":
            self._escape += character
            return None
        if len(self._escape) == 2:
            if character.isdigit() or character == ";":  # an arrow with a modifier, e.g. ESC [ 1 ; 2 A
                return None
            self._escape = ""
            return _ARROWS.get(character)
        self._escape = ""
        return _LETTERS.get(character.lower())


@dataclass(slots=True)
class Stick:
    """Which keys are held, and the next frame. Times are monotonic seconds."""

    speed: float = 1.0
    """Of the mower's own highest, 0 to 1."""
    _held_until: dict[Key, float] = field(default_factory=dict)
    _sequence: int = 0
    _sent_at: float | None = None
    _was_moving: bool = False

    def press(self, key: Key, now: float) -> None:
        """A key was pressed or repeats. The other direction is let go, and the stop key lets go of all."""
        if key in _OPPOSITE:
            self._held_until.pop(_OPPOSITE[key], None)
            self._held_until[key] = now + HOLD_S
        else:
            self._held_until.clear()

    def position(self, now: float) -> tuple[float, float]:
        """Linear and angular."""
        linear = self._axis(Key.FORWARD, Key.BACK, now)
        angular = self._axis(Key.LEFT, Key.RIGHT, now)
        return linear, angular

    def next_frame(self, now: float) -> DriveFrame | None:
        """The frame that is due now, if one is: often while driving, at once when all is let go, then now and then."""
        linear, angular = self.position(now)
        is_moving = linear != 0.0 or angular != 0.0
        is_released = self._was_moving and not is_moving
        pause_s = FRAME_S if is_moving else STANDING_FRAME_S
        is_first = is_moving and not self._was_moving
        if not (is_released or is_first or self._sent_at is None or now - self._sent_at >= pause_s - 1e-9):
            return None
        self._was_moving, self._sent_at = is_moving, now
        self._sequence += 1
        return DriveFrame(sequence=self._sequence, linear=linear, angular=angular, sent_ms=int(now * 1000.0))

    def _axis(self, plus: Key, minus: Key, now: float) -> float:
        if self._held_until.get(plus, 0.0) > now:
            return self.speed
        return -self.speed if self._held_until.get(minus, 0.0) > now else 0.0
