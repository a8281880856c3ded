"""Chores: repeated, bounded, and no business of each other."""

from __future__ import annotations

import asyncio

from cloud_relay.care import Chore, run_chores


async def test_a_failing_or_hanging_chore_disturbs_nobody_and_is_tried_again():
    rounds = {"good": 0, "bad": 0, "hanging": 0}
    enough = asyncio.Event()

    async def good():
        rounds["good"] += 1
        if min(rounds.values()) >= 3:
            enough.set()

    async def bad():
        rounds["bad"] += 1
        raise RuntimeError("no")

    async def hanging():
        rounds["hanging"] += 1
        await asyncio.Event().wait()

    chores = [
        Chore(name="good", every_s=60, work=good),
        Chore(name="bad", every_s=60, work=bad),
        Chore(name="hanging", every_s=60, work=hanging, limit_s=0.001),
    ]
    slept = []

    async def sleep(seconds):
        slept.append(seconds)
        await asyncio.sleep(0)

    task = asyncio.create_task(run_chores(chores, sleep))
    async with asyncio.timeout(10):
        await enough.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    assert set(slept) == {60}
