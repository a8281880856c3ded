"""SIGKILL of the box, the relay and the broker in the middle of a mow: afterwards both databases agree row for row."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.flow.databases import difference, quarantined, rows
from tests.flow.person import until
from tests.flow.stage import Stage, link, register_mower

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def mow(tmp_path):
    """A linked box with a mower that is mowing, and everybody who matters."""
    with Stage(tmp_path) as stage:
        stage.keep_ports()
        owner = stage.person("owner").register("Garden")
        box = stage.box("Shed")
        box.change_settings(listen_port=box.url.rsplit(":", 1)[1])
        household = stage.person("anna", box.url).register("Home")
        edge_id = link(box, household, owner)
        mower_id = register_mower(owner, edge_id, "Shaun", report_interval_s=0.2)
        yield Mow(stage, box, owner, household, edge_id, mower_id)


class Mow:
    """The people and processes of one mow."""

    def __init__(self, stage, box, owner, household, edge_id, mower_id) -> None:
        self.stage, self.box, self.owner, self.household = stage, box, owner, household
        self.edge_id, self.mower_id = edge_id, mower_id
        self.box_database = box.data_dir / "telemetry.sqlite3"
        self.relay_database = stage.relay.data_dir / "telemetry.sqlite3"

    def begin(self) -> str:
        command = self.owner.command(self.mower_id, "start_mow").json()
        self.owner.await_command(command["command_id"], "executed")
        self.owner.await_state(self.mower_id, "mowing")
        self.grow(20)
        return command["command_id"]

    def grow(self, more: int) -> None:
        """Waits until the box has recorded that many more steps of the track."""
        now = len(rows(self.box_database, "mower_positions"))
        until(lambda: len(rows(self.box_database, "mower_positions")), lambda n: n >= now + more)

    def end(self) -> None:
        """Docks the mower, stops the box in peace, lets the relay take the rest: both must agree."""
        command = self.household.command(self.mower_id, "return_to_dock").json()
        self.household.await_command(command["command_id"], "executed", "rejected", "failed")
        until(self.is_drained, timeout_s=60)
        self.box.stop()
        self.box.start()  # what the stop itself recorded goes up as well
        self.household.sign_in()
        until(self.is_drained, timeout_s=60)

        def agree() -> bool:
            return difference(self.box_database, self.relay_database) == {}

        deadline = time.monotonic() + 30
        while not agree() and time.monotonic() < deadline:
            time.sleep(0.2)
        assert difference(self.box_database, self.relay_database) == {}
        assert quarantined(self.relay_database) == 0
        assert len(rows(self.relay_database, "mower_positions")) > 20

    def is_drained(self) -> bool:
        uplink = self.household.get("/box/status")["uplink"]
        return uplink is not None and uplink["is_online"] and uplink["backlog_rows"] == 0


def test_the_box_is_killed(mow):
    mow.begin()
    running = mow.owner.command(mow.mower_id, "set_blade_height", height_mm=33)
    mow.box.kill()
    before = len(rows(mow.box_database, "mower_positions"))
    mow.box.start()
    mow.household.sign_in()
    state = mow.household.await_state(mow.mower_id, "docked", "charging", "paused", "idle")
    assert state["state"]["activity"] != "mowing"
    mow.owner.await_command(running.json()["command_id"], "executed", "failed", "expired", timeout_s=60)
    until(lambda: mow.owner.get("/fleet/edges")["items"][0]["is_online"])
    assert len(rows(mow.box_database, "mower_positions")) >= before
    timeline = mow.household.get(f"/telemetry/mowers/{mow.mower_id}/timeline")["transitions"]
    starts = [r for r in timeline if r["status"] == "executed"]
    assert len(starts) <= 2  # nothing was executed again
    states = mow.household.get(f"/telemetry/mowers/{mow.mower_id}/state")["state"]["activity"]
    assert states not in {"mowing", "leaving"}  # nothing moves because software restarted
    mow.end()


def test_the_relay_is_killed(mow):
    mow.begin()
    mow.stage.relay.kill()
    mow.grow(30)
    mow.stage.relay.start()
    mow.owner.sign_in()
    mow.grow(10)
    mow.owner.await_state(mow.mower_id, "mowing")
    mow.end()


def test_the_broker_is_killed(mow):
    mow.begin()
    pid = mow.stage.broker_pid()
    os.kill(pid, signal.SIGKILL)
    mow.grow(30)
    until(mow.stage.broker_pid, lambda now: now not in {0, pid}, timeout_s=30)
    until(lambda: mow.owner.get("/fleet/edges")["items"][0]["is_online"], timeout_s=60)
    stopped = until(
        lambda: mow.owner.command(mow.mower_id, "emergency_stop"), lambda a: a.status_code == 202, timeout_s=30
    )
    mow.owner.await_command(stopped.json()["command_id"], "executed")
    mow.end()


def test_all_three_are_killed_at_once(mow):
    mow.begin()
    os.kill(mow.stage.broker_pid(), signal.SIGKILL)
    mow.stage.relay.kill()
    mow.box.kill()
    mow.stage.relay.start()
    mow.box.start()
    mow.household.sign_in()
    mow.owner.sign_in()
    until(lambda: mow.owner.get("/fleet/edges")["items"][0]["is_online"], timeout_s=60)
    mow.end()
