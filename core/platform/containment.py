"""Which plugin's code is running, so that every task it makes can be found again and ended.

A context variable names the scope; it follows plugin code through awaits, callbacks and the tasks that it (or a
library it uses) creates. The event loop's task factory hands each such task to its scope, and keeps a SystemExit
in it from ending the agent, which asyncio would let through.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Generator, Iterator
from contextvars import Context, ContextVar, copy_context
from types import TracebackType
from typing import Any, Protocol, TypeVar

from core.domain.errors import IntegrationError

T = TypeVar("T")


class Scope(Protocol):
    """Whose code it is."""

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """A task was born in this scope. IntegrationError when there are too many."""
        ...

    def redact(self, text: str) -> str:
        """The text without this scope's secrets."""
        ...


_scope: ContextVar[Scope | None] = ContextVar("mowdeck_plugin_scope", default=None)


def current_scope() -> Scope | None:
    """The scope of the code that runs now; None for the box's own."""
    return _scope.get()


def context_of(scope: Scope) -> Context:
    """A copy of the current context in which code belongs to the scope."""
    context = copy_context()
    context.run(_scope.set, scope)
    return context


@contextlib.contextmanager
def entered(scope: Scope) -> Iterator[None]:
    """Within the block, code of this task belongs to the scope."""
    token = _scope.set(scope)
    try:
        yield
    finally:
        _scope.reset(token)


class _Contained(Coroutine[Any, Any, T]):
    """A plugin's coroutine that cannot end the process. No coroutine function around it: a task that is cancelled
    before it began has to reach the plugin's own coroutine, or Python warns that it was never awaited."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine
        self.__qualname__ = getattr(coroutine, "__qualname__", type(coroutine).__name__)
        self.__name__ = self.__qualname__

    def send(self, value: Any) -> Any:
        try:
            return self._coroutine.send(value)
        except (SystemExit, KeyboardInterrupt) as err:
            raise IntegrationError(f"{self.__qualname__}: unexpected {type(err).__name__}") from err

    def throw(self, kind: Any, value: Any = None, trace: TracebackType | None = None) -> Any:
        err = value if value is not None else kind
        try:
            return self._coroutine.throw(err if trace is None else err.with_traceback(trace))
        except (SystemExit, KeyboardInterrupt) as odd:
            raise IntegrationError(f"{self.__qualname__}: unexpected {type(odd).__name__}") from odd

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine.__await__()


@contextlib.contextmanager
def containing_tasks(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Within the block, the loop's tasks are handed to the scope they are born in."""
    outer: Any = loop.get_task_factory()

    def make(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> Any:
        context: Context | None = options.get("context")
        scope = _scope.get() if context is None else context.get(_scope)
        if scope is not None and asyncio.iscoroutine(coroutine):
            coroutine = _Contained(coroutine)
        task = outer(loop, coroutine, **options) if outer is not None else asyncio.Task(coroutine, loop=loop, **options)
        if scope is not None:
            scope.adopt(task)
        return task

    loop.set_task_factory(make)
    try:
        yield
    finally:
        if loop.get_task_factory() is make:
            loop.set_task_factory(outer)
