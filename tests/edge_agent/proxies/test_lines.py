"""What becomes of a proxy: its states, its faults, its key; and that a sick one disturbs nobody."""

from __future__ import annotations

import base64
import sys

import pytest

from core.domain.clock import SystemClock
from core.domain.errors import (
    AdapterOffError,
    ConflictError,
    InvalidInputError,
    LimitExceededError,
    LinkLostError,
    NotFoundError,
)
from core.platform.secret_store import SecretStore
from edge_agent.proxies.book import PROXIES_MAX, ProxyBook
from edge_agent.proxies.desk import ProxyDesk
from tests.edge_agent.proxies.conftest import KEY, World, until
from tests.edge_agent.virtual_radio.echo_mower import ADDRESS, NAME, EchoMower

SHED, HOUSE, OWN = "shed", "house", "hci0"
SHED_SOURCE = "proxy-a0b765000001"
OTHER_KEY = base64.b64encode(b"another key of thirty-two bytes!").decode()


@pytest.mark.parametrize(
    ("its", "ours", "reason"),
    [
        (KEY, OTHER_KEY, "refuses the encryption key"),
        (KEY, None, "wants an encryption key"),
        (None, KEY, "does not encrypt"),
    ],
    ids=["wrong", "missing", "needless"],
)
async def test_a_wrong_key_is_named(
    world: World, capsys: pytest.CaptureFixture[str], its: str | None, ours: str | None, reason: str
) -> None:
    shed = await world.proxy(SHED, key=its)
    await world.start()
    status = await world.desk.add("127.0.0.1", shed.port, ours)
    refused = await world.see(status.record.proxy_id, lambda now: now.state == "wrong_key")
    assert reason in (refused.reason or "")
    assert refused.hint
    text = repr((refused, world.book, world.desk, world.secrets)) + "".join(capsys.readouterr())
    assert KEY not in text
    assert OTHER_KEY not in text


async def test_a_wrong_key_is_not_hammered(world: World) -> None:
    shed, house = await world.proxy(SHED, key=KEY), await world.proxy(HOUSE)
    world.set_pace(person_s=3600)
    await world.start()
    status = await world.desk.add("127.0.0.1", shed.port, OTHER_KEY)
    await world.see(status.record.proxy_id, lambda now: now.state == "wrong_key")
    came = shed.came_count
    await world.join(house)
    for _ in range(3):  # one that drops comes back meanwhile, again and again
        seen = house.came_count
        house.drop()
        await until(lambda seen=seen: house.came_count > seen)
    assert shed.came_count == came


async def test_nobody_there_then_somebody(world: World) -> None:
    shed = await world.proxy(SHED)
    await shed.power_off()
    await world.start()
    status = await world.desk.add("127.0.0.1", shed.port, None)
    away = await world.see(status.record.proxy_id, lambda now: now.state == "unreachable")
    assert away.reason == "it cannot be reached"
    await shed.power_on()
    await world.see(status.record.proxy_id, lambda now: now.state == "connected")


async def test_a_name_that_nobody_knows(world: World) -> None:
    await world.start()
    status = await world.desk.add("no-such-proxy.invalid", 6053, None)
    away = await world.see(status.record.proxy_id, lambda now: now.state == "unreachable")
    assert "name" in (away.reason or "")


async def test_a_proxy_that_is_silent_from_the_start(world: World) -> None:
    shed = await world.proxy(SHED)
    shed.faults.is_silent = True
    await world.start()
    status = await world.desk.add("127.0.0.1", shed.port, None)
    silent = await world.see(status.record.proxy_id, lambda now: now.state == "unreachable")
    assert silent.reason == "it does not answer"
    shed.faults.is_silent = False
    await world.see(status.record.proxy_id, lambda now: now.state == "connected")


async def test_a_proxy_that_falls_silent_is_noticed_by_its_pings(world: World) -> None:
    shed = await world.proxy(SHED)
    world.set_pace(keepalive_s=0.1)
    await world.start()
    status = await world.join(shed)
    shed.faults.is_silent = True
    await world.see(status.record.proxy_id, lambda now: now.state == "unreachable")
    assert world.service.status() == []
    shed.faults.is_silent = False
    await world.see(status.record.proxy_id, lambda now: now.state == "connected")


async def test_another_program_has_its_advertisements(world: World) -> None:
    shed = await world.proxy(SHED)
    await world.start()
    first = await world.join(shed)
    await world.see(first.record.proxy_id, lambda _: shed.is_listened_to)
    other = await world.second_box()
    status = await other.add("127.0.0.1", shed.port, None)
    taken = await until_state(other, status.record.proxy_id, "taken")
    assert "Home Assistant" in (taken.hint or "")
    await world.desk.remove(first.record.proxy_id)
    await until_state(other, status.record.proxy_id, "connected")


async def test_the_same_proxy_twice(world: World) -> None:
    shed = await world.proxy(SHED)
    await world.start()
    await world.join(shed)
    status = await world.desk.add("localhost", shed.port, None)
    twice = await world.see(status.record.proxy_id, lambda now: now.state == "unfit")
    assert "already" in (twice.reason or "")
    assert len(world.service.status()) == 1


async def test_a_mower_that_was_connected_over_a_dying_proxy_goes_another_way(world: World) -> None:
    shed, house = await world.proxy(SHED), await world.proxy(HOUSE)
    peer = EchoMower()
    await world.air.add_peer(peer)
    world.air.path(SHED, ADDRESS).rssi_dbm = -50
    world.air.path(HOUSE, ADDRESS).rssi_dbm = -75
    await world.start()
    first = await world.join(shed)
    await world.join(house)
    await world.heard_by(ADDRESS, SHED_SOURCE, "proxy-a0b765000002")
    old = device_over(world, SHED_SOURCE)
    async with world.service.connect(ADDRESS) as connection:
        await shed.power_off()
        await connection.wait_closed()
        with pytest.raises(LinkLostError):
            await connection.read(NAME)
    await world.see(first.record.proxy_id, lambda now: now.state == "unreachable")
    assert SHED_SOURCE not in sources(world), "handles and all that it heard go with the proxy"
    async with world.service.connect(ADDRESS) as connection:
        assert await connection.read(NAME) == b"Echo"
        await shed.power_on()
        await world.see(first.record.proxy_id, lambda now: now.state == "connected")
        assert connection.is_open, "the return of one proxy is nothing to the others"
    await world.heard_by(ADDRESS, SHED_SOURCE)
    assert device_over(world, SHED_SOURCE) is not old, "no handle outlives the proxy that made it"
    async with world.service.connect(ADDRESS) as connection:
        assert await connection.read(NAME) == b"Echo"


async def test_the_link_to_the_mower_drops_while_the_proxy_stays(world: World) -> None:
    shed = await world.proxy(SHED)
    await world.air.add_peer(EchoMower())
    await world.start()
    status = await world.join(shed)
    await world.heard_by(ADDRESS, SHED_SOURCE)
    async with world.service.connect(ADDRESS) as connection:
        assert world.air.cut(SHED, ADDRESS)
        await connection.wait_closed()
    await world.see(status.record.proxy_id, lambda now: now.slots_free == 3)
    async with world.service.connect(ADDRESS) as connection:
        assert await connection.read(NAME) == b"Echo"


async def test_a_sick_proxy_disturbs_nobody(world: World) -> None:
    shed = await world.proxy(SHED)
    await world.air.add_peer(EchoMower())
    await world.start(OWN)
    await world.desk.add("127.0.0.1", shed.port, OTHER_KEY)
    await world.desk.add("127.0.0.1", 1, None)
    await world.heard_by(ADDRESS, OWN)
    async with world.service.connect(ADDRESS) as connection:
        for _ in range(5):
            await shed.reboot()
            assert await connection.read(NAME) == b"Echo"


async def test_what_was_added_is_there_after_a_restart_with_its_key(world: World) -> None:
    shed = await world.proxy(SHED, key=KEY)
    await world.start()
    status = await world.join(shed, KEY)
    assert KEY.encode() not in b"".join(path.read_bytes() for path in world.folder.iterdir())
    await world.stop_desk()
    secrets = SecretStore(world.folder, SystemClock())
    secrets.load()
    book = ProxyBook(world.folder, secrets, SystemClock())
    book.load()
    secrets.close()
    assert [record.proxy_id for record in book.records()] == [status.record.proxy_id]
    world.use_book(book)
    await world.see(status.record.proxy_id, lambda now: now.state == "connected")


async def test_removing_lets_go_and_forgets_the_key(world: World) -> None:
    shed = await world.proxy(SHED, key=KEY)
    await world.start()
    status = await world.join(shed, KEY)
    await world.desk.remove(status.record.proxy_id)
    assert world.desk.statuses() == []
    assert world.service.status() == []
    assert world.book.key(status.record.proxy_id) is None
    await until(lambda: not shed.visitors)
    with pytest.raises(NotFoundError):
        await world.desk.remove(status.record.proxy_id)


async def test_what_is_wrong_with_an_input_is_said_without_the_key(world: World) -> None:
    await world.start()
    for key in ("short", "ü" * 44, base64.b64encode(b"x" * 31).decode()):
        with pytest.raises(InvalidInputError) as wrong:
            await world.desk.add("proxy.local", 6053, key)
        assert key not in str(wrong.value)
    for host in ("", "a b", "user@host", "http://host"):
        with pytest.raises(InvalidInputError):
            await world.desk.add(host, 6053, None)
    await world.desk.add("127.0.0.1", 1, None)
    with pytest.raises(ConflictError):
        await world.desk.add("127.0.0.1", 1, None)
    for port in range(2, PROXIES_MAX + 1):
        await world.book.add("127.0.0.1", port, None)
    with pytest.raises(LimitExceededError):
        await world.desk.add("127.0.0.1", 77, None)


async def test_with_bluetooth_switched_off(world: World) -> None:
    await world.start()
    await world.book.add("127.0.0.1", 1, None)
    desk = ProxyDesk(world.book, None, clock=SystemClock())
    with pytest.raises(AdapterOffError):
        await desk.add("127.0.0.1", 2, None)
    (status,) = desk.statuses()
    assert (status.state, status.reason) == ("unreachable", "Bluetooth is switched off on this box")


async def test_nothing_under_the_gpl_is_loaded(world: World) -> None:
    shed = await world.proxy(SHED, key=KEY)
    await world.start()
    await world.join(shed, KEY)
    assert not [name for name in sys.modules if name.split(".")[0] == "pyric"]


async def until_state(desk: ProxyDesk, proxy_id: str, state: str):
    await until(lambda: any(one.state == state for one in desk.statuses() if one.record.proxy_id == proxy_id))
    return next(one for one in desk.statuses() if one.record.proxy_id == proxy_id)


def sources(world: World) -> set[str]:
    return {path.source for path in world.service._sightings.paths(ADDRESS, SystemClock().monotonic())}


def device_over(world: World, source: str) -> object:
    paths = world.service._sightings.paths(ADDRESS, SystemClock().monotonic())
    return next(path.device for path in paths if path.source == source)
