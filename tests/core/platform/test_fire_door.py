"""The fire door by itself, and what hides behind it."""

from __future__ import annotations

import asyncio
import logging

import pytest

from core.domain.errors import AuthFailedError, IntegrationError, LinkLostError, LinkTimeoutError, MowdeckError
from core.domain.limits import PLUGIN_TASKS
from core.platform.containment import containing_tasks, current_scope
from core.platform.fire_door import abandoned, as_mowdeck_error, call, call_now, text_of
from core.platform.plugin_log import MAX_LINE, PluginLog, Redactor
from core.platform.plugin_tasks import MAX_INNER_TASKS, PluginTasks
from tests.fakes.misbehaving import faults


def tasks_of(found: list[MowdeckError] | None = None) -> PluginTasks:
    return PluginTasks(
        "plugin", on_fault=(found if found is not None else []).append, redact=lambda text: text, deadline_s=0.1
    )


@pytest.mark.parametrize("how", sorted(faults.RAISES))
async def test_only_errors_of_our_tree_come_out(how: str):
    with pytest.raises(MowdeckError) as caught:
        await call(lambda: faults.apply(how, 0.1), where="here", deadline_s=1)
    assert "hunter2" not in caught.value.detail
    with pytest.raises(MowdeckError):
        call_now(lambda: faults.raise_fault(how), where="here")
    current = asyncio.current_task()
    assert current is not None
    assert current.cancelling() == 0


async def test_results_and_named_exceptions_pass():
    async def seven() -> int:
        return 7

    async def wrong() -> None:
        raise LookupError("mine")

    assert await call(seven, where="here", deadline_s=1) == 7
    with pytest.raises(LookupError):
        await call(wrong, where="here", deadline_s=1, passing=(LookupError,))
    with pytest.raises(IntegrationError):
        await call(lambda: 7, where="no awaitable", deadline_s=1)  # type: ignore[arg-type,return-value]


async def test_deadlines_hold_against_the_stubborn():
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(LinkTimeoutError):
        await call(lambda: faults.swallow_cancellation(0.6), where="deaf", deadline_s=0.05, close_deadline_s=0.05)
    assert loop.time() - began < 0.5
    assert "deaf" in abandoned()
    (deaf,) = (task for task in asyncio.all_tasks() if task.get_name() == "deaf")
    await asyncio.wait({deaf})
    await asyncio.sleep(0)
    assert "deaf" not in abandoned()


async def test_a_cancelled_caller_takes_the_plugin_along():
    began, ended = asyncio.Event(), asyncio.Event()

    async def plugin() -> None:
        try:
            began.set()
            await asyncio.Event().wait()
        finally:
            ended.set()

    caller = asyncio.create_task(call(plugin, where="here", deadline_s=None))
    await began.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert ended.is_set()


async def test_a_caller_is_cancelled_even_if_the_plugin_raises_instead():
    async def plugin() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ValueError("instead") from None

    caller = asyncio.create_task(call(plugin, where="here", deadline_s=None))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller


def test_groups_show_what_matters_most():
    group = ExceptionGroup("g", [LinkLostError("a"), ExceptionGroup("h", [AuthFailedError("b")]), ValueError("c")])
    assert isinstance(as_mowdeck_error(group, "here"), AuthFailedError)
    assert type(as_mowdeck_error(ExceptionGroup("g", [ValueError()]), "here")) is IntegrationError
    assert text_of(faults.UnprintableError()) == "UnprintableError: (no text)"


async def test_tasks_of_a_scope_are_found_and_ended():
    async def busy() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.Event().wait(), name="inner")
            asyncio.get_running_loop().call_soon(lambda: loose.append(asyncio.create_task(asyncio.Event().wait())))

    loose: list[asyncio.Task[bool]] = []
    before = asyncio.all_tasks()
    tasks = tasks_of()
    with containing_tasks(asyncio.get_running_loop()):
        tasks.spawn(busy(), "busy")
        while not loose:
            await asyncio.sleep(0)
        ours = asyncio.create_task(asyncio.sleep(0))
        assert len(asyncio.all_tasks()) == len(before) + 4
        assert await tasks.close() == ()
        await ours  # the box's own tasks are not the plugin's
    assert asyncio.all_tasks() == before
    assert asyncio.get_running_loop().get_task_factory() is None


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
async def test_a_raw_task_cannot_end_the_process(error):
    async def die() -> None:
        await asyncio.sleep(0)
        raise error

    seen: list[object] = []

    async def plugin() -> None:
        assert current_scope() is tasks
        try:
            await asyncio.create_task(die())
        except MowdeckError as err:
            seen.append(err.__cause__)

    tasks = tasks_of()
    with containing_tasks(asyncio.get_running_loop()):
        await call(plugin, where="here", deadline_s=1, context=tasks.context())
    assert [type(cause) for cause in seen] == [error]
    assert current_scope() is None


async def test_plugins_own_exceptions_pass_between_their_own_tasks():
    async def plugin() -> str:
        async def fail() -> None:
            raise LookupError("own")

        never = asyncio.create_task(fail())
        never.cancel()  # before it began: no warning about a coroutine that was never awaited
        await asyncio.wait({never})
        try:
            await asyncio.create_task(fail())
        except LookupError as err:
            return str(err)
        return "lost"

    tasks = tasks_of()
    with containing_tasks(asyncio.get_running_loop()):
        assert await call(plugin, where="here", deadline_s=1, context=tasks.context()) == "own"


async def test_tasks_are_bounded():
    tasks = tasks_of()
    for number in range(PLUGIN_TASKS):
        tasks.spawn(asyncio.sleep(60), str(number))
    with pytest.raises(IntegrationError):
        tasks.spawn(asyncio.sleep(60), "one more")
    with pytest.raises(IntegrationError):
        tasks.spawn(asyncio.sleep, "no coroutine")  # type: ignore[arg-type]
    await tasks.close()
    with pytest.raises(IntegrationError):
        tasks.spawn(asyncio.sleep(60), "too late")


async def test_raw_tasks_are_bounded():
    async def plugin() -> None:
        for _ in range(MAX_INNER_TASKS + 10):
            asyncio.create_task(asyncio.Event().wait())  # noqa: RUF006  (what a careless plugin does)

    tasks = tasks_of()
    with containing_tasks(asyncio.get_running_loop()):
        with pytest.raises(IntegrationError):
            await call(plugin, where="here", deadline_s=5, context=tasks.context())
        await tasks.close()


async def test_faults_of_spawned_tasks_are_told_from_outside_the_scope():
    scopes: list[object] = []

    async def fail() -> None:
        raise ConnectionResetError

    tasks = PluginTasks(
        "plugin", on_fault=lambda err: scopes.append((type(err), current_scope())), redact=str, deadline_s=0.1
    )
    tasks.spawn(fail(), "fail")
    while not scopes:
        await asyncio.sleep(0)
    assert scopes == [(LinkLostError, None)]


def test_plugin_log_hides_secrets_and_never_raises(caplog: pytest.LogCaptureFixture):
    log = PluginLog("acme", "entry", Redactor(lambda: ["hunter2", "hunter2-long", "1"]))
    with caplog.at_level(logging.DEBUG, logger="integrations.acme"):
        log.info("signing in with %s at %d", "hunter2-long", 1)
        log.warning("%s %s", *["too few"])
        log.error(faults.UnprintableError())
        log.info("x" * 100_000)
        try:
            raise ValueError("token hunter2")
        except ValueError:
            log.exception("failed")
    lines = [entry.getMessage() for entry in caplog.records]
    assert lines[0] == "signing in with **REDACTED** at 1"
    assert "hunter2" not in "".join(lines)
    assert "ValueError: token **REDACTED**" in lines[4]
    assert max(len(line) for line in lines) <= MAX_LINE
