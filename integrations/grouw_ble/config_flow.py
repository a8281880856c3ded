"""What is different about adding one of these mowers: no pairing, a warning that they protect themselves badly, and a
PIN that only shows whose the mower is. The steps themselves are those of all Bluetooth mowers."""

from __future__ import annotations

from typing import ClassVar

import voluptuous as vol

from core.domain.errors import NotReadyError
from core.platform.bluetooth import GattConnection
from core.platform.bluetooth_mower_flow import BluetoothMowerFlow, Identity
from core.platform.pairing_words import Failures
from integrations.grouw_ble.probe import ANSWER_S, check_pin

OPTIONS_SCHEMA = vol.Schema(
    {
        vol.Required("releases", default=True): bool,
        vol.Required("verifies_sign_in", default=False): bool,
        vol.Required("poll_moving_s", default=30.0): vol.All(vol.Coerce(float), vol.Range(min=10, max=300)),
        vol.Required("poll_standing_s", default=300.0): vol.All(vol.Coerce(float), vol.Range(min=30, max=3600)),
        vol.Required("poll_low_s", default=1200.0): vol.All(vol.Coerce(float), vol.Range(min=60, max=3600)),
    }
)


class GrouwFlow(BluetoothMowerFlow):
    """user | discovery -> confirm -> pin; reauth -> pin; reconfigure. The address is the mower's identity."""

    answer_s: ClassVar[float] = ANSWER_S
    needs_bond: ClassVar[bool] = False
    confirms_typed: ClassVar[bool] = True
    tells_serial: ClassVar[bool] = False
    failures: ClassVar[Failures] = ((NotReadyError, "pin_not_told"),)
    options_schema: ClassVar[vol.Schema] = OPTIONS_SCHEMA

    async def identify(self, connection: GattConnection) -> Identity:
        """The mower tells its own PIN and locks nobody out; the box compares."""
        await check_pin(connection, self.pin or "", clock=self.context.clock, answer_s=self.answer_s)
        return Identity()

    def placeholders(self) -> dict[str, str]:
        """`time` is what the mower may set its clock by: a person sees whether the box's zone is theirs."""
        local = self.context.clock.now().astimezone()
        return super().placeholders() | {"time": f"{local:%Y-%m-%d %H:%M}"}
