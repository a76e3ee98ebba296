"""
What parts of the world log, caught for the length of a life.

Errors are what a rule wants to know; where a story is to be told, decisions are wanted too. Everything else
is not even put together. What was configured before is put back.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from structlog.typing import EventDict, WrappedLogger

    Logged = Callable[[str, str, str], None]
    """Told the level, the event, and the facts as text."""


@contextmanager
def caught(logged: Logged, *, level: int = logging.ERROR) -> Iterator[None]:
    """Hand everything at or above a level to `logged`, and print nothing."""

    def take(_logger: WrappedLogger, method: str, event: EventDict) -> NoReturn:
        name = str(event.pop("event", ""))
        trouble = event.pop("exc_info", None)
        facts = " ".join(f"{key}={value}" for key, value in event.items())
        if trouble:
            facts += f" {_traceback()}"
        logged(method, name, facts)
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[take], wrapper_class=structlog.make_filtering_bound_logger(level))
    try:
        yield
    finally:
        structlog.configure(**before)


def _traceback() -> str:
    import sys  # noqa: PLC0415  only a crash needs it
    import traceback  # noqa: PLC0415  likewise

    kind, error, trace = sys.exc_info()
    frames = traceback.extract_tb(trace)
    where = f" at {frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else ""
    return f"({kind.__name__ if kind else ''}: {error}{where})"
