"""What the network offers, on a real network interface (loopback)."""

from __future__ import annotations

import asyncio
import socket

import pytest
from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

from edge_agent.proxies.offers import SERVICE_TYPE, Offer, ProxyOffers, offer_of
from tests.edge_agent.proxies.conftest import until


def open_loopback() -> AsyncZeroconf:
    return AsyncZeroconf(interfaces=["127.0.0.1"])


def announced(name: str, **properties: str) -> AsyncServiceInfo:
    return AsyncServiceInfo(
        SERVICE_TYPE,
        f"{name}.{SERVICE_TYPE}",
        addresses=[socket.inet_aton("127.0.0.1")],
        port=6053,
        properties={key: value.encode() for key, value in properties.items()},
        server=f"{name}.local.",
    )


async def test_what_announces_itself_is_offered_until_it_goes() -> None:
    offers = ProxyOffers(open_zeroconf=open_loopback)
    shed = announced("shed", project_name="esphome.bluetooth-proxy", api_encryption="Noise", friendly_name="Shed proxy")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(offers.run())
        device = open_loopback()
        try:
            await (await device.async_register_service(shed))
            await until(offers.offers)
            (offer,) = offers.offers()
            assert offer == Offer(
                name="Shed proxy",
                host="shed.local",
                port=6053,
                is_encrypted=True,
                is_proxy=True,
                addresses=("127.0.0.1",),
            )
            await (await device.async_unregister_service(shed))
            await until(lambda: not offers.offers())
        finally:
            await device.async_close()
        task.cancel()


async def test_a_network_that_cannot_be_used_is_tried_again() -> None:
    pauses: asyncio.Queue[float] = asyncio.Queue()

    def refuse() -> AsyncZeroconf:
        raise OSError("no such device")

    async def pause(seconds: float) -> None:
        await pauses.put(seconds)
        await asyncio.sleep(0)

    offers = ProxyOffers(open_zeroconf=refuse, pause=pause)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(offers.run())
        assert [await pauses.get(), await pauses.get()] == [60.0, 60.0]
        task.cancel()


@pytest.mark.parametrize(
    ("properties", "is_proxy"),
    [({}, False), ({"project_name": "esphome.bluetooth-proxy"}, True), ({"bluetooth_proxy": "true"}, True)],
)
def test_only_what_says_so_is_called_a_proxy(properties: dict[str, str], is_proxy: bool) -> None:
    offer = offer_of(announced("lamp", **properties))
    assert offer is not None
    assert (offer.is_proxy, offer.is_encrypted) == (is_proxy, False)


def test_the_words_of_a_stranger_are_short_and_harmless() -> None:
    offer = offer_of(announced("lamp", friendly_name="\x1b[31m" + "x" * 200))
    assert offer is not None
    assert offer.name == ("[31m" + "x" * 200)[:64]


def test_an_offer_is_known_by_name_or_address() -> None:
    offer = Offer(name="a", host="a.local", port=1, is_encrypted=False, is_proxy=True, addresses=("10.0.0.9",))
    assert offer.is_at({("a.local", 1)})
    assert offer.is_at({("10.0.0.9", 1)})
    assert not offer.is_at({("10.0.0.9", 2), ("b.local", 1)})
