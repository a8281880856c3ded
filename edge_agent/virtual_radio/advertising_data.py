"""The two packets of 31 bytes in which a mower says who it is."""

from __future__ import annotations

from uuid import UUID

from bumble.core import AdvertisingData

from core.platform.emulation import EmulatedAdvertising

PACKET_BYTES = 31
BLUETOOTH_BASE = "-0000-1000-8000-00805f9b34fb"
FLAGS = bytes((2, AdvertisingData.Type.FLAGS, 0x06))


def advertising_packets(described: EmulatedAdvertising) -> tuple[bytes, bytes]:
    """Advertisement and scan response. What does not fit in the first moves to the second; ValueError when
    neither has room, because then no real mower could say it."""
    first, second = FLAGS, b""
    for part, is_second in _parts(described):
        if not is_second and len(first) + len(part) <= PACKET_BYTES:
            first += part
        else:
            second += part
    if len(second) > PACKET_BYTES:
        raise ValueError(f"advertising does not fit: {len(first)} and {len(second)} of {PACKET_BYTES} bytes")
    return first, second


def _parts(described: EmulatedAdvertising) -> list[tuple[bytes, bool]]:
    kind = AdvertisingData.Type
    parts: list[tuple[bytes, bool]] = []
    short = [uuid for uuid in described.service_uuids if _is_short(uuid)]
    long = [uuid for uuid in described.service_uuids if not _is_short(uuid)]
    if short:
        parts.append((_part(kind.COMPLETE_LIST_OF_16_BIT_SERVICE_CLASS_UUIDS, b"".join(map(_uuid, short))), False))
    if long:
        parts.append((_part(kind.COMPLETE_LIST_OF_128_BIT_SERVICE_CLASS_UUIDS, b"".join(map(_uuid, long))), False))
    for company, data in described.manufacturer_data.items():
        part = _part(kind.MANUFACTURER_SPECIFIC_DATA, company.to_bytes(2, "little") + data)
        parts.append((part, described.is_manufacturer_data_in_scan_response))
    for uuid, data in described.service_data.items():
        width = kind.SERVICE_DATA_16_BIT_UUID if _is_short(uuid) else kind.SERVICE_DATA_128_BIT_UUID
        parts.append((_part(width, _uuid(uuid) + data), False))
    if described.name is not None:
        name = described.name.encode()
        parts.append((_part(kind.COMPLETE_LOCAL_NAME, name), described.is_name_in_scan_response))
    return parts


def _part(kind: int, data: bytes) -> bytes:
    return bytes((len(data) + 1, kind)) + data


def _is_short(uuid: str) -> bool:
    return uuid.lower().startswith("0000") and uuid.lower().endswith(BLUETOOTH_BASE)


def _uuid(uuid: str) -> bytes:
    data = UUID(uuid).bytes
    return (data[2:4] if _is_short(uuid) else data)[::-1]
