"""The plugin platform of the box: loader, entries, flows and registry, opened and closed together."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import aiohttp

from core.domain.clock import Clock
from core.domain.errors import MowdeckError
from core.domain.ids import EntryId
from core.platform import fire_door
from core.platform.bluetooth import Advertisement
from core.platform.budget import BudgetStore
from core.platform.entries import ConfigEntries
from core.platform.entry import EntryRecord
from core.platform.entry_store import EntryStore
from core.platform.flow import ConfigFlow
from core.platform.flows import FlowDirector
from core.platform.loader import Loader
from core.platform.registry import MowerRegistry
from core.platform.secret_store import SecretStore
from edge_agent.bluetooth.opening import open_bluetooth
from edge_agent.proxies.book import ProxyBook
from edge_agent.proxies.desk import ProxyDesk
from edge_agent.proxies.offers import ProxyOffers
from edge_agent.settings import EdgeSettings

if TYPE_CHECKING:  # the library is loaded only where there is an adapter
    from edge_agent.bluetooth.finder import Finder
    from edge_agent.bluetooth.service import BluetoothService

BUILTIN = "integrations"
ADDRESS = re.compile(r"([0-9A-F]{2}:){5}[0-9A-F]{2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugins:
    """The parts. No entry is set up before `entries.start()`."""

    bluetooth: BluetoothService | None
    finder: Finder | None
    """Offers what Bluetooth hears."""
    proxies: ProxyDesk
    offers: ProxyOffers
    """Proxies that the network knows."""
    loader: Loader
    registry: MowerRegistry
    entries: ConfigEntries
    flows: FlowDirector

    def lives(self, *, uses_zeroconf: bool) -> dict[str, Coroutine[Any, Any, None]]:
        """What the box has to run for them, by name."""
        lives = {"bluetooth proxies": self.proxies.run()}
        if self.finder is not None:
            lives["bluetooth discovery"] = self.finder.run()
        if uses_zeroconf and self.bluetooth is not None:
            lives["bluetooth proxy offers"] = self.offers.run()
        return lives

    def is_released(self, entry_ids: Iterable[EntryId]) -> bool:
        """Whether a person asked the box to leave the Bluetooth peers of all these entries alone; False for none."""
        if self.bluetooth is None:
            return False
        wanted = set(entry_ids)
        records = [record for record in self.entries.records() if record.entry_id in wanted]
        return are_released(records, self.bluetooth.released_for_s)

    def domains_of(self, advertisement: Advertisement) -> tuple[str, ...]:
        """The integrations that a Bluetooth peer may belong to."""
        return () if self.finder is None else self.finder.discovery.domains_of(advertisement)

    def says_pairable(self, advertisement: Advertisement) -> bool | None:
        """Whether a Bluetooth peer says that it pairs now, as far as the integrations that it may belong to understand
        it. None: nobody knows."""
        for domain in self.domains_of(advertisement):
            loaded = self.loader.loaded(domain)
            if loaded is not None and loaded.flow_class is not None:
                said = ask_pairable(loaded.flow_class, advertisement, domain)
                if said is not None:
                    return said
        return None


def ask_pairable(flow_class: type[ConfigFlow], advertisement: Advertisement, domain: str) -> bool | None:
    """What a plugin makes of it; None when it raises or answers something else."""
    try:
        said: object = fire_door.call_now(
            lambda: flow_class.says_pairable(advertisement), where=f"{domain} says_pairable"
        )
    except MowdeckError:
        return None
    return said if isinstance(said, bool) else None


def _addresses_of(entries: ConfigEntries) -> set[str]:
    """The Bluetooth addresses that entries own, whatever they call them."""
    return {address for record in entries.records() for address in _addresses_in(record)}


def are_released(records: Iterable[EntryRecord], released_for_s: Callable[[str | None], float]) -> bool:
    """Whether every peer of these entries is; an entry that names no address is when all peers are."""
    addresses: list[str | None] = []
    for record in records:
        addresses += _addresses_in(record) or [None]
    return bool(addresses) and all(released_for_s(address) > 0 for address in addresses)


def _addresses_in(record: EntryRecord) -> set[str]:
    """The Bluetooth addresses in an entry's data."""
    values = record.data.values()
    return {value.upper() for value in values if isinstance(value, str) and ADDRESS.fullmatch(value.upper())}


def _offer_again(finder: Finder, _: EntryRecord) -> None:
    finder.discovery.forget_all()


@asynccontextmanager
async def open_plugins(settings: EdgeSettings, clock: Clock) -> AsyncIterator[Plugins]:
    """Reads the files of the data folder. DatabaseNewerError; a corrupt file is moved aside and named."""
    folder = settings.data_dir
    loader = Loader(builtin=BUILTIN, custom=settings.custom_integrations)
    registry = MowerRegistry(folder / "mowers.json", clock)
    await asyncio.to_thread(registry.load)
    async with (
        aiohttp.ClientSession() as session,
        open_bluetooth(settings.bluetooth, folder, clock) as bluetooth,
    ):

        async def http() -> aiohttp.ClientSession:
            return session

        secrets = SecretStore(folder, clock)
        entries = ConfigEntries(
            store=EntryStore(folder / "entries.json", clock),
            secrets=secrets,
            budgets=BudgetStore(folder / "budgets.json", clock),
            loader=loader,
            clock=clock,
            http=http,
            make_bluetooth=None if bluetooth is None else bluetooth.port,
        )
        director = FlowDirector(
            entries=entries,
            loader=loader,
            clock=clock,
            http=http,
            bluetooth=None if bluetooth is None else bluetooth.port(),
        )
        async with entries, director as flows:
            book = ProxyBook(folder, secrets, clock)
            await asyncio.to_thread(book.load)
            finder = None
            if bluetooth is not None:
                from edge_agent.bluetooth.finder import Finder

                finder = Finder(bluetooth, loader.manifests(), flows)
                entries.ignored.on_removed(finder.discovery.forget_all)
                entries.on_removed(partial(_offer_again, finder))
                await bluetooth.close_stale(_addresses_of(entries))
            yield Plugins(
                bluetooth=bluetooth,
                finder=finder,
                proxies=ProxyDesk(book, bluetooth, clock=clock),
                offers=ProxyOffers(),
                loader=loader,
                registry=registry,
                entries=entries,
                flows=flows,
            )
