"""Real processes for a test: a relay (with its own broker or an external one) and boxes linked to it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from core.command_line.host_process import HostProcess
from tests.flow.person import Person, until


class Stage:
    """Starts hosts, ends all of them."""

    def __init__(self, home: Path, broker: dict[str, str] | None = None) -> None:
        self.home = home
        self._stack = ExitStack()
        self.broker = broker or {"broker_port": "0"}
        self.relay = HostProcess("relay", home / "relay", {"listen_port": "0", **self.broker})

    def __enter__(self) -> Stage:
        self._stack.callback(self.relay.kill)
        self.relay.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def person(self, username: str, url: str | None = None) -> Person:
        person = Person(url or self.relay.url, username)
        self._stack.callback(person.close)
        return person

    def box(self, name: str, **settings: str) -> HostProcess:
        """A running box, not yet linked."""
        options = {"listen_port": "0", "name": name, "announce": "false", "trust_clock": "true", **settings}
        box = HostProcess("edge", self.home / name, options)
        self._stack.callback(box.kill)
        box.start()
        return box

    def broker_pid(self) -> int:
        """The process id of the relay's own Mosquitto (0: none is running now)."""
        try:
            return int((self.relay.data_dir / "broker" / "mosquitto.pid").read_text().split()[0])
        except (OSError, IndexError, ValueError):
            return 0

    def keep_ports(self) -> None:
        """After a restart the hosts listen where they did (boxes and people remember)."""
        address = self.relay.address
        port = str(address["url"]).rsplit(":", 1)[1]
        self.relay.change_settings(listen_port=port, broker_port=str(address["broker"]["port"]))


def link(box: HostProcess, household: Person, owner: Person) -> str:
    """Links a box to the owner's account on the relay; returns the edge id."""
    view = household.post("/box/link", {"relay_url": owner.url})
    shown = owner.get(f"/edges/link/{view['user_code']}")
    assert shown["name"] == box.data_dir.name
    owner.post(f"/edges/link/{view['user_code']}/confirm", {})
    linked = until(lambda: household.get("/box/link"), lambda v: v["status"] == "linked")
    until(
        lambda: owner.get("/fleet/edges")["items"],
        lambda edges: any(e["edge_id"] == linked["edge_id"] and e["is_online"] for e in edges),
    )
    return str(linked["edge_id"])


def register_mower(owner: Person, edge_id: str, name: str, **connection: object) -> str:
    """Registers a simulated mower through the fleet API; returns its id once it has reported."""
    body = {
        "name": name,
        "edge_id": edge_id,
        "domain": "simulator",
        "connection": {"time_scale": 30, "seed": 7, **connection},
    }
    mower = owner.post("/fleet/mowers", body)
    owner.await_state(mower["mower_id"], "docked", "charging", timeout_s=30)
    return str(mower["mower_id"])
