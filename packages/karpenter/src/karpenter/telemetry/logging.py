"""
Logging: the format of log lines, their outputs, sampling, and the redaction of secrets.

A line is an event (``noun.past_tense``) with facts; ``summary`` is the phrase that upstream logs for the
same thing, such as "disrupting node(s)". Elsewhere than on a terminal a line is one JSON object with
``message``, ``level``, ``time`` and ``logger`` before the facts. Lines of libraries are formatted the same
way. The stack of an error is logged at level ``debug`` only. The time is that of the clock that is passed
in, so that the log of a simulation has the simulation's time.

Sampling: of the lines with the same event and level, the first hundred of each second and every hundredth
after them are written, so that an error in a loop does not fill the disk.

Redaction: a fact is hidden when its key names a secret, or when its text looks like one: a bearer token, a
JSON web token, a private key, an AWS access key, a password in a URL. This is a safeguard; secrets should
not be logged at all.
"""

import json
import logging
import os
import re
import sys
import traceback
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Final, Literal, Self, TextIO

import msgspec
import structlog

from karpenter.base.clock import Clock

HIDDEN: Final = "[hidden]"
"""What is written in place of a secret."""

_SECRET_KEY: Final = re.compile(
    r"passw(or)?d|secret|token|authorization|credential|cookie|api[-_]?key|private[-_]?key|access[-_]?key",
    re.IGNORECASE,
)
_SECRET_TEXT: Final = re.compile(
    r"(?P<scheme>\b(?:bearer|basic)\s+)[\w.~+/-]{8,}=*"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"
    r"|\bk8s-aws-v1\.[\w-]+"
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|(?P<before>://[^\s/:@]*:)[^\s/@]+(?=@)",
    re.IGNORECASE | re.DOTALL,
)
_MAX_DEPTH: Final = 8

# The same numbers as zap's production configuration:
# https://pkg.go.dev/go.uber.org/zap#SamplingConfig
FIRST: Final = 100
THEREAFTER: Final = 100
Form = Literal["auto", "json", "text"]
"""What lines look like; auto means readable on a terminal, JSON elsewhere."""

LEVELS: Final[Mapping[str, int]] = MappingProxyType(
    {"": logging.INFO, "debug": logging.DEBUG, "info": logging.INFO, "error": logging.ERROR}
)
"""Settings of the level, and what each lets through."""

_STREAMS: Final = ("stdout", "stderr")
_QUIET_LIBRARIES: Final = ("asyncio", "aiohttp.access", "botocore", "urllib3")
_RESERVED: Final = ("message", "level", "time", "logger")
_OF_EXCEPTIONS: Final = ("exc_info", "stack_info")


def hide(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a log line with every secret replaced."""
    return _hidden_members(facts, _MAX_DEPTH)


def hide_text(text: str) -> str:
    """Return a text with everything that looks like a secret replaced."""
    return _SECRET_TEXT.sub(lambda found: f"{found['scheme'] or found['before'] or ''}{HIDDEN}", text)


def _hidden_members(facts: Mapping[Any, Any], depth: int) -> dict[Any, Any]:
    return {
        key: HIDDEN if _SECRET_KEY.search(str(key)) else _hidden(value, depth) for key, value in facts.items()
    }


def _hidden(value: object, depth: int) -> object:
    match value:
        case None | bool() | int() | float():
            return value
        case bytes() | bytearray() | memoryview():
            return f"[{len(value)} bytes]"
        case Mapping() | list() | tuple() | set() | frozenset() if depth == 0:
            return HIDDEN
        case Mapping():
            return _hidden_members(value, depth - 1)
        case list() | tuple() | set() | frozenset():
            members = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
            return [_hidden(each, depth - 1) for each in members]
        case _:
            return hide_text(str(value))


class Sampler(logging.Filter):
    """Passes the first lines of each second, and every n-th of the rest, per event and level."""

    def __init__(self, clock: Clock, *, first: int = FIRST, thereafter: int = THEREAFTER) -> None:
        super().__init__()
        self._clock = clock
        self._first = first
        self._thereafter = thereafter
        self._second = -1
        self._seen: dict[tuple[int, str], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        second = int(self._clock.monotonic())
        if second != self._second:
            self._second = second
            self._seen.clear()
        key = (record.levelno, event_of(record))
        number = self._seen[key] = self._seen.get(key, 0) + 1
        return number <= self._first or (number - self._first) % self._thereafter == 0


def event_of(record: logging.LogRecord) -> str:
    """Return the event of a line, or its text before the arguments were filled in."""
    if isinstance(record.msg, dict):
        return str(record.msg.get("event", ""))
    return str(record.msg)


class BadOutput(ValueError):  # noqa: N818  says what is wrong
    """Logs cannot be written to where the settings say."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"cannot write logs to {path}: {reason}; allowed are stdout, stderr and files")
        self.path = path


class Logs:
    """The logging configuration of this process, until it is closed."""

    def __init__(
        self,
        *,
        clock: Clock,
        level: str = "info",
        form: Form = "auto",
        outputs: Iterable[str] = ("stdout",),
        error_outputs: Iterable[str] = ("stderr",),
    ) -> None:
        """
        Send every line from now on to `outputs`.

        Raises:
            BadOutput: an output is no stream and cannot be opened as a file.
        """
        streams = [_open(each) for each in outputs]
        self._opened = [stream for stream in streams if stream not in {sys.stdout, sys.stderr}]
        faults = [_open(each) for each in error_outputs]
        self._opened += [stream for stream in faults if stream not in {sys.stdout, sys.stderr}]
        self._handlers = [
            _Handler(each, faults, _Line(clock, each.isatty() if form == "auto" else form == "text", each))
            for each in streams
        ]
        for handler in self._handlers:
            handler.addFilter(Sampler(clock))
        self._root = logging.getLogger()
        self._before = (self._root.level, self._root.handlers[:], structlog.get_config())
        self._root.handlers = [*self._handlers]
        self._root.setLevel(LEVELS[level])
        self._quieted = {name: logging.getLogger(name).level for name in _QUIET_LIBRARIES}
        for name in _QUIET_LIBRARIES:
            logging.getLogger(name).setLevel(logging.WARNING)
        structlog.configure(
            processors=[
                structlog.stdlib.filter_by_level,
                structlog.contextvars.merge_contextvars,
                structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
            ],
            logger_factory=structlog.stdlib.LoggerFactory(),
            wrapper_class=structlog.stdlib.BoundLogger,
            cache_logger_on_first_use=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Restore the configuration that was found, and close the files."""
        level, handlers, configured = self._before
        self._root.handlers = handlers
        self._root.setLevel(level)
        for name, was in self._quieted.items():
            logging.getLogger(name).setLevel(was)
        structlog.configure(**configured)
        for stream in self._opened:
            stream.close()


class _Handler(logging.StreamHandler[TextIO]):
    """Writes to one output; an error of that is written to the error outputs in one line."""

    def __init__(self, stream: TextIO, faults: list[TextIO], formatter: logging.Formatter) -> None:
        super().__init__(stream)
        self._faults = faults
        self.setFormatter(formatter)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  the name that logging calls
        error = sys.exc_info()[1]
        for stream in self._faults:
            try:
                stream.write(f"log line lost: {record.name}: {type(error).__name__}: {error}\n")
                stream.flush()
            except (OSError, ValueError):
                continue  # no output is left


class _Line(logging.Formatter):
    """Formats a log record as one line."""

    def __init__(self, clock: Clock, text: bool, stream: TextIO) -> None:
        super().__init__()
        self._clock = clock
        self._console = (
            structlog.dev.ConsoleRenderer(colors=stream.isatty() and not os.environ.get("NO_COLOR"))
            if text
            else None
        )

    def format(self, record: logging.LogRecord) -> str:
        event, facts = _event(record)
        head = {"level": _level(record), "time": render_time(self._clock.now()), "logger": record.name}
        shown = hide(facts) | _failure(record)
        if self._console is not None:
            line = {"event": event, "timestamp": head["time"], "level": head["level"].lower(), **shown}
            return str(self._console(None, "", line))
        named = {f"{key}_" if key in _RESERVED else key: value for key, value in shown.items()}
        return _to_json({"message": event, **head, **named})


def render_time(when: datetime) -> str:
    """Return a moment as log lines spell it: ISO 8601, in UTC, with milliseconds."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{when.microsecond // 1000:03}Z"


def _event(record: logging.LogRecord) -> tuple[str, dict[str, Any]]:
    """Return the event of a line, and its facts; lines of libraries have none."""
    facts = dict(record.msg) if isinstance(record.msg, dict) else {"event": record.getMessage()}
    event = hide_text(str(facts.pop("event", "")))
    for key in _OF_EXCEPTIONS:
        facts.pop(key, None)
    if _is_debug():
        facts["caller"] = f"{Path(record.pathname).name}:{record.lineno}"
    return event, facts


def _failure(record: logging.LogRecord) -> dict[str, str]:
    """Return the exception of a line as one sentence, and its stack at level debug."""
    error = _exception(record)
    if error is None:
        return {}
    told = {"error": hide_text(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)}
    if _is_debug():
        told["stack"] = hide_text("".join(traceback.format_exception(error)))
    return told


def _exception(record: logging.LogRecord) -> BaseException | None:
    given: object = record.msg.get("exc_info") if isinstance(record.msg, dict) else record.exc_info
    if isinstance(given, BaseException):
        return given
    if isinstance(given, tuple):
        return next((each for each in given if isinstance(each, BaseException)), None)
    return sys.exc_info()[1] if given else None


def _is_debug() -> bool:
    return logging.getLogger().level <= logging.DEBUG


def _level(record: logging.LogRecord) -> str:
    return "WARN" if record.levelno == logging.WARNING else record.levelname


def _to_json(line: dict[str, Any]) -> str:
    try:
        return msgspec.json.encode(line, enc_hook=str).decode()
    except (TypeError, ValueError, msgspec.MsgspecError):  # keys or texts that JSON cannot express
        return json.dumps({str(key): repr(value) for key, value in line.items()})


def _open(output: str) -> TextIO:
    if output in _STREAMS:
        stream: TextIO = getattr(sys, output)
        return stream
    try:
        return Path(output).open("a", encoding="utf-8")
    except OSError as error:
        raise BadOutput(output, error.strerror or str(error)) from None
