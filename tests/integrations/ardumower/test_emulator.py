"""The emulated mower by itself: as lines and time, without a loop."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integrations.ardumower.emulated_robot import CONTACT_S, DRIVE_TIMEOUT_S, Robot
from integrations.ardumower.orders import STATUS, drive_body, switch
from integrations.ardumower.protocol import Reply, Session, read_reply, seal
from integrations.ardumower.responder import SunrayBrain
from integrations.ardumower.wire import Op, Sensor, read_status, read_version


def say(brain: SunrayBrain, line: bytes, now: float = 0.0) -> Reply | None:
    reply = brain.hear(line.strip(b"\r\n"), now)
    if reply is None:
        return None
    assert reply.endswith(b"\r\n")
    found = read_reply(reply.strip())
    assert isinstance(found, Reply)
    return found


def greeted(brain: SunrayBrain, password: int = 123456) -> Session:
    session = Session(password)
    reply = say(brain, session.greeting())
    assert reply is not None
    assert session.take_greeting(reply)
    return session


def test_before_the_first_greeting_plain_requests_are_heard():
    brain = SunrayBrain()
    assert say(brain, b"AT+S,0x13") is not None
    session = greeted(brain)
    assert say(brain, b"AT+S,0x13") is None, "plain no more"
    assert say(brain, session.request(STATUS)) is not None


def test_the_challenge_stays_until_a_reboot():
    brain = SunrayBrain()
    first, second = greeted(brain), greeted(brain)
    assert first.version == second.version
    brain.reboot()
    assert say(brain, first.request(STATUS)) is None or first.version is None
    third = greeted(brain)
    assert third.version is not None
    assert first.version is not None
    assert third.version.challenge != first.version.challenge


@given(st.integers(1, 2**31 - 1), st.integers(0, 1000))
def test_every_password_and_challenge_agree_with_the_session(password: int, seed: int):
    """Two independent writings of the shift understand each other."""
    brain = SunrayBrain(password=password, seed=seed)
    session = greeted(brain, password)
    for body in (STATUS, switch(Op.MOW), drive_body(-0.3, 0.7), "AT+T", "AT+S2"):
        assert say(brain, session.request(body)) is not None
        assert brain.heard[-1] == body


@given(st.binary(max_size=600))
def test_noise_is_silence_and_moves_nothing(line: bytes):
    brain = SunrayBrain()
    session = greeted(brain)
    brain.hear(line, 1.0)
    assert not brain.robot.is_moving
    assert say(brain, session.request(STATUS), 2.0) is not None


def test_a_wrong_checksum_is_silence():
    brain = SunrayBrain(password=None)
    assert say(brain, b"AT+C,-1,1,-1,0x00") is None
    assert brain.robot.op is Op.CHARGE
    assert say(brain, seal("AT+C,-1,1")) == Reply(name="C")
    assert brain.robot.op is Op.MOW


def test_what_it_says_is_what_is_true():
    brain = SunrayBrain(password=None)
    brain.robot.x_m, brain.robot.y_m, brain.robot.heading_rad, brain.robot.volts = 1.5, -2.25, 0.78, 25.2
    brain.robot.plan_weekday, brain.robot.plan_hour = 2, 18
    reply = say(brain, seal(STATUS))
    assert reply is not None
    assert len(reply.fields) == 19
    status = read_status(reply.fields)
    assert (status.volts, status.x_m, status.y_m, status.heading_rad) == (25.2, 1.5, -2.25, 0.78)
    assert (status.op, status.plan_weekday, status.plan_hour) == (Op.CHARGE, 2, 18)
    assert status.amps is not None
    assert status.amps < 0, "charging current has a minus"
    brain.faults.has_old_firmware = True
    reply = say(brain, seal(STATUS))
    assert reply is not None
    assert len(reply.fields) == 16
    version = say(brain, seal("AT+V"))
    assert version is not None
    assert read_version(version.fields) is not None


def test_a_job_takes_it_out_and_home():
    robot = Robot(lanes=[(1.0, 0.0), (1.0, 2.0)])
    robot.switch(Op.MOW)
    robot.advance(5.0)
    assert robot.blade_on
    assert math.dist((robot.x_m, robot.y_m), (1.0, 0.5)) < 0.1
    robot.advance(5.5)
    assert robot.op is Op.DOCK
    assert not robot.blade_on
    robot.advance(10.0)
    assert robot.op is Op.CHARGE
    assert robot.distance_m == pytest.approx(3.0 + math.dist((0, 0), (1, 2)) - 0.0, abs=0.1)


def test_an_empty_battery_takes_it_home_and_it_charges():
    robot = Robot(volts=21.55)
    robot.switch(Op.MOW)
    robot.advance(20.0)
    assert robot.op is Op.DOCK
    robot.advance(60.0)
    before = robot.volts
    robot.advance(10.0)
    assert robot.op is Op.CHARGE
    assert robot.volts > before


def test_the_motors_stop_by_themselves():
    robot = Robot(op=Op.IDLE, x_m=3.0)
    robot.steer(0.3, 0.0)
    robot.advance(DRIVE_TIMEOUT_S - 0.2)
    assert robot.is_moving
    robot.advance(0.3)
    assert not robot.is_moving
    assert robot.x_m == pytest.approx(3.0 + 0.3 * DRIVE_TIMEOUT_S, abs=0.02)


def test_standing_on_the_contacts_it_charges():
    robot = Robot(op=Op.IDLE)
    robot.advance(CONTACT_S - 0.1)
    assert robot.op is Op.IDLE
    robot.advance(0.2)
    assert robot.op is Op.CHARGE


def test_a_fault_stops_everything():
    robot = Robot()
    robot.switch(Op.MOW)
    robot.advance(5.0)
    robot.fail(Sensor.LIFT)
    place = robot.x_m, robot.y_m
    robot.steer(0.3, 0.0)
    robot.advance(5.0)
    assert (robot.x_m, robot.y_m) == place
    assert not robot.blade_on
    assert not robot.is_moving
