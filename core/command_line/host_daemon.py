"""A host as the program of its process: settings, logs, errors in one line each, exit statuses.

`mowdeck edge run` and `mowdeck relay run` replace themselves by `python -m edge_agent` or `python -m cloud_relay`, so
that a box does not carry the command line (20 MiB of terminal and HTTP client) for the years that it runs.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NoReturn, Protocol, TypeVar

from core.command_line.exit_codes import DONE, FAILED, USAGE
from core.domain.errors import MowdeckError, SettingsError
from core.settings.log import configure_logging
from core.settings.memory import return_freed_memory


class HostSettings(Protocol):
    """What every host's settings say of its log."""

    @property
    def log_level(self) -> str: ...

    @property
    def log_format(self) -> str: ...


S = TypeVar("S", bound=HostSettings)


def become(module: str) -> NoReturn:
    """Replaces this process by `python -m module`: same process id, same environment."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-P", "-m", module])  # noqa: S606  (our own module, no shell)


def run_host(
    program: str,
    load: Callable[[Mapping[str, str]], S],
    main: Callable[[S], Coroutine[Any, Any, None]],
) -> int:
    """Runs the host until it has ended; the exit status. What is wrong with settings is listed, one line each."""
    return_freed_memory()
    try:
        settings = load(os.environ)
        configure_logging(settings.log_level, settings.log_format)
        asyncio.run(main(settings))
    except SettingsError as err:
        for mistake in err.mistakes:
            _complain(program, f"{mistake.field}: {mistake.reason}")
        return USAGE
    except MowdeckError as err:
        _complain(program, f"{err.detail} ({err.advice})")
        return USAGE
    except ExceptionGroup as group:
        _, unexpected = group.split(MowdeckError)
        if unexpected is not None:
            raise
        for one in _leaves(group):
            _complain(program, str(one))
        return FAILED
    return DONE


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for one in group.exceptions:
        found.extend(_leaves(one) if isinstance(one, BaseExceptionGroup) else [one])
    return found


def _complain(program: str, text: str) -> None:
    sys.stderr.write(f"mowdeck {program}: {text}\n")
