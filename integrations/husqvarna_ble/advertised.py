"""What a mower says of itself on the air: the manufacturer's data, a list of (length, key, value). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.platform.bluetooth import Advertisement
from integrations.husqvarna_ble.wire import Model, read_text, write_u32

COMPANY = 0x0426
MOWER_GROUP = 10
"""Other groups are pumps and water valves, with the same service."""
_SERIAL_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Advertised:
    """What the manufacturer's data say; None is what was not said. Groups other than 10 are no mowers."""

    serial: int | None = None
    is_pairable: bool | None = None
    group: int | None = None
    model: Model | None = None
    name: str | None = None

    @property
    def may_be_mower(self) -> bool:
        return self.group in (None, MOWER_GROUP)


def read_advertised(data: bytes) -> Advertised:
    """What can be understood of the manufacturer's data (without the company's number)."""
    values: dict[int, bytes] = {}
    at = 0
    while at < len(data) and (length := data[at]) > 0:
        item = data[at + 1 : at + 1 + length]
        if len(item) < length:
            break
        values.setdefault(item[0], item[1:])
        at += 1 + length
    product = values.get(6, b"")
    return Advertised(
        serial=int.from_bytes(values[4], "little") if 0 < len(values.get(4, b"")) <= _SERIAL_BYTES else None,
        is_pairable=values[5][0] != 0 if values.get(5) else None,
        group=product[0] if product else None,
        model=Model(device_type=product[1], variant=product[2]) if len(product) >= 3 else None,
        name=read_text(values[8]) if values.get(8) else None,
    )


def advertised_of(heard: Advertisement | None) -> Advertised:
    """What the mower says of itself on the air; nothing when it is not heard."""
    data = heard.manufacturer_data.get(COMPANY, b"") if heard is not None else b""
    return read_advertised(bytes(data))


def write_advertised(advertised: Advertised) -> bytes:
    """The same the other way round."""
    items: Sequence[tuple[int, bytes | None]] = (
        (4, None if advertised.serial is None else write_u32(advertised.serial)),
        (5, None if advertised.is_pairable is None else bytes([advertised.is_pairable])),
        (6, _product(advertised)),
        (8, None if advertised.name is None else advertised.name.encode()),
    )
    return b"".join(bytes([1 + len(value), key]) + value for key, value in items if value is not None)


def _product(advertised: Advertised) -> bytes | None:
    if advertised.group is None:
        return None
    model = advertised.model
    return bytes([advertised.group] if model is None else [advertised.group, model.device_type, model.variant])
