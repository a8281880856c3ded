"""The firmware of an emulated Sunray mower: request lines in, reply lines out, with faults on demand. Pure; a host
gives it the time.

`SunrayBrain` is written from its own description and independent of
`protocol.Session`, so that a mistake in one does not hide in the other.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from integrations.ardumower.emulated_robot import Robot
from integrations.ardumower.wire import Op

DEFAULT_PASSWORD = 123456
_COMMAND_BYTES = 500


@dataclass(slots=True, kw_only=True)
class Faults:
    """What goes wrong; counters are used up request by request."""

    is_silent: bool = False
    """Hears nothing at all."""
    lose_requests: int = 0
    """So many of the next requests are not heard (drive requests and questions too)."""
    lose_replies: int = 0
    """So many of the next requests are obeyed, and their answer is lost."""
    lose_reply_to: set[str] = field(default_factory=set)
    """Reply names whose answer is always lost, such as `C`."""
    spoil_checksums: int = 0
    """So many of the next replies carry a wrong checksum."""
    spoil_reply_to: set[str] = field(default_factory=set)
    """Reply names whose checksum is always wrong."""
    reply_delay_s: float = 0.0
    says_odd_words: bool = False
    """Operation and sensor are numbers that nobody knows."""
    answers: dict[str, str] = field(default_factory=dict)
    """Reply name -> what is said instead, such as `S` -> `S,nan`."""
    has_old_firmware: bool = False
    """16 fields in a status, 4 in a version, no obstacles."""


class SunrayBrain:
    """One mower. `hear` gets each line without its end, at a monotonic time of the host."""

    def __init__(
        self,
        *,
        password: int | None = DEFAULT_PASSWORD,
        seed: int = 1,
        robot: Robot | None = None,
        robot_id: str = "0a:1b:2c:3d:4e:5f",
        version: str = "1.0.332",
        time_scale: float = 1.0,
    ) -> None:
        self.password = password
        self.robot = robot if robot is not None else Robot()
        self.faults = Faults()
        self.robot_id = robot_id
        self.version = version
        self.time_scale = time_scale
        self.heard: list[str] = []
        """Every sound request body since the start, deciphered: what a test counts."""
        self.unheard = 0
        self._rng = random.Random(seed)
        self._challenge = 0
        self._key: int | None = None
        self._now: float | None = None

    def advance_to(self, now: float) -> None:
        """Lets the machine live up to the host's time."""
        if self._now is not None and now > self._now:
            self.robot.advance((now - self._now) * self.time_scale)
        self._now = now

    def reboot(self) -> None:
        """Power was lost: another challenge at the next greeting, plain requests until then."""
        self._key = None
        self.robot.reboot()

    def hear(self, line: bytes, now: float) -> bytes | None:
        """The reply with its end, or None for silence."""
        self.advance_to(now)
        if self.faults.is_silent:
            return None
        if self.faults.lose_requests > 0:
            self.faults.lose_requests -= 1
            return None
        body = self._understand(line)
        if body is None:
            self.unheard += 1
            return None
        self.heard.append(body)
        reply = self._obey(body)
        if reply is None:
            return None
        reply = self.faults.answers.get(reply.partition(",")[0], reply)
        if self.faults.lose_replies > 0:
            self.faults.lose_replies -= 1
            return None
        return None if reply.partition(",")[0] in self.faults.lose_reply_to else self._finish(reply)

    def _understand(self, line: bytes) -> str | None:
        """The body of a request with a sound checksum; anything else is not for us."""
        text = line.decode("latin-1")[:_COMMAND_BYTES]
        if self._key is not None and not text.startswith("AT+V"):
            text = "".join(self._unshift(char) for char in text)
        body, comma, claimed = text.rpartition(",")
        if not comma or len(body) < 4 or not body.startswith("AT+"):
            return None
        try:
            return body if int(claimed[:4], 16) == sum(body.encode("latin-1")) % 256 else None
        except ValueError:
            return None

    def _unshift(self, char: str) -> str:
        code = ord(char)
        if not 32 <= code <= 126 or self._key is None:
            return char
        code -= self._key
        return chr(code + 95 if code <= 31 else code)

    def _finish(self, reply: str) -> bytes:
        total = sum(reply.encode("latin-1")) % 256
        if reply.partition(",")[0] in self.faults.spoil_reply_to:
            total = (total + 1) % 256
        elif self.faults.spoil_checksums > 0:
            self.faults.spoil_checksums -= 1
            total = (total + 7) % 256
        return f"{reply},0x{total:02x}\r\n".encode("latin-1")

    def _obey(self, body: str) -> str | None:
        name, *values = body.removeprefix("AT+").split(",")
        match name:
            case "V":
                return self._greet()
            case "S":
                return self._status()
            case "S2":
                return None if self.faults.has_old_firmware else self._obstacles()
            case "T":
                return self._statistics()
            case "C":
                self._control([_float(value) for value in values])
                return "C"
            case "M":
                numbers = [_float(value) for value in values] + [0.0, 0.0]
                self.robot.steer(numbers[0], numbers[1])
                return "M"
            case _:
                return None

    def _greet(self) -> str:
        if self.password is not None and self._key is None:
            while self._key is None:
                self._challenge = self._rng.randrange(1, 200)
                key = self.password % self._challenge
                self._key = key if 1 <= key <= 94 else None
        words = ["V", "Ardumower Sunray", self.version, str(int(self._key is not None)), str(self._challenge)]
        if not self.faults.has_old_firmware:
            words += ["1", "AM", "RM18", "1.1.16", self.robot_id]
        return ",".join(words)

    def _control(self, values: list[float]) -> None:
        """mow motor, operation, speed, ...; what is below 0 stays."""
        robot = self.robot
        if len(values) > 0 and values[0] >= 0:
            robot.blade_on = values[0] == 1
        if len(values) > 2 and values[2] >= 0:
            robot.speed_mps = values[2]
        if len(values) > 1 and values[1] >= 0:
            robot.switch(Op(int(values[1])))

    def _status(self) -> str:
        robot = self.robot
        current = f"-{robot.amps:.2f}" if robot.op is Op.CHARGE else f"{robot.amps:.2f}"
        op, sensor = (77, 78) if self.faults.says_odd_words else (robot.op.value, robot.sensor.value)
        target = robot.lanes[min(robot.mow_point, len(robot.lanes) - 1)]
        words = [
            f"S,{robot.volts:.2f},{robot.x_m:.2f},{robot.y_m:.2f},{robot.heading_rad:.2f},{robot.solution.value}",
            f"{op},{robot.mow_point},0.25,{sensor},{target[0]:.2f},{target[1]:.2f}",
            f"0.02,{28 if robot.solution.value else 3},{current},24,-971195",
        ]
        if not self.faults.has_old_firmware:
            words.append(f"0.03,{robot.plan_weekday},{robot.plan_hour}")
        return ",".join(words)

    def _statistics(self) -> str:
        robot = self.robot
        sums = f"{robot.idle_s:.0f},{robot.charge_s:.0f},{robot.mow_s:.0f},34,208,1,{robot.distance_m:.2f}"
        return f"T,{sums},0.28,0,998.00,998.00,55,0,0.02,1024,0,1,{len(robot.obstacles)},81751,0,5,0,0,1"

    def _obstacles(self) -> str:
        words = ["S2", str(len(self.robot.obstacles))]
        for ring in self.robot.obstacles:
            words += ["0.5", "0.5", "1", str(len(ring))]
            words += [f"{value:.2f}" for corner in ring for value in corner]
        return ",".join(words)


def _float(text: str) -> float:
    """As the firmware's own reading: what is no number is 0."""
    try:
        return float(text)
    except ValueError:
        return 0.0
