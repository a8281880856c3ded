"""Tells which integration may want a peer that is new here, by the matchers of the manifests. Once per peer."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import structlog

from core.platform.bluetooth import Advertisement
from core.platform.manifest import BluetoothMatcher

log = structlog.get_logger(__name__)

PEERS_MAX = 2_048
"""Peers that are remembered as told; a street of phones with changing addresses pushes the oldest out."""

OnFound = Callable[[str, Advertisement], None]
"""Domain of the integration, and what was heard. What is ignored or set up already is the flow director's to know."""


@dataclass(slots=True)
class _Seen:
    fingerprint: int = 0
    told: set[str] = field(default_factory=set)


class Discovery:
    """Feed it with `BluetoothService.listen(discovery.heard)`."""

    def __init__(self, matchers: Mapping[str, Sequence[BluetoothMatcher]], on_found: OnFound) -> None:
        self._matchers = {domain: tuple(wanted) for domain, wanted in matchers.items() if wanted}
        self._on_found = on_found
        self._seen: OrderedDict[str, _Seen] = OrderedDict()

    def heard(self, advertisement: Advertisement) -> None:
        """One advertisement; cheap when nothing but the strength has changed."""
        seen = self._seen.get(advertisement.address)
        if seen is None:
            seen = self._seen[advertisement.address] = _Seen()
            if len(self._seen) > PEERS_MAX:
                self._seen.popitem(last=False)
        else:
            self._seen.move_to_end(advertisement.address)
        fingerprint = _fingerprint(advertisement)
        if fingerprint == seen.fingerprint:
            return
        seen.fingerprint = fingerprint
        for domain, wanted in self._matchers.items():
            if domain not in seen.told and any(matches(one, advertisement) for one in wanted):
                seen.told.add(domain)
                log.info("bluetooth peer found", domain=domain, address=advertisement.address, name=advertisement.name)
                self._on_found(domain, advertisement)

    def forget_all(self) -> None:
        """What may be offered has changed: everybody who is heard from now on is new again."""
        self._seen.clear()

    def domains_of(self, advertisement: Advertisement) -> tuple[str, ...]:
        """The integrations that a peer may belong to."""
        return tuple(
            domain for domain, wanted in self._matchers.items() if any(matches(one, advertisement) for one in wanted)
        )

    def forget(self, address: str) -> None:
        """Its entry was removed: it is new again when it is heard next."""
        self._seen.pop(address.upper(), None)


def matches(matcher: BluetoothMatcher, advertisement: Advertisement) -> bool:
    """Whether every given part of the matcher fits."""
    if matcher.connectable and not advertisement.is_connectable:
        return False
    if matcher.local_name is not None and not fnmatchcase(advertisement.name or "", matcher.local_name):
        return False
    if matcher.service_uuid is not None and matcher.service_uuid.lower() not in advertisement.service_uuids:
        return False
    if matcher.service_data_uuid is not None and matcher.service_data_uuid.lower() not in advertisement.service_data:
        return False
    start = bytes(matcher.manufacturer_data_start)
    if matcher.manufacturer_id is not None:
        data = advertisement.manufacturer_data.get(matcher.manufacturer_id)
        return data is not None and data.startswith(start)
    return not start or any(data.startswith(start) for data in advertisement.manufacturer_data.values())


def _fingerprint(advertisement: Advertisement) -> int:
    return hash(
        (
            advertisement.name,
            advertisement.is_connectable,
            advertisement.service_uuids,
            tuple(advertisement.manufacturer_data.items()),
            tuple(advertisement.service_data),
        )
    )
