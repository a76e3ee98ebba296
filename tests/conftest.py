"""
What every test run needs: whether the real control plane and helm are there, and logs set up by no test.

Tests marked ``controlplane`` run when its binaries are found, tests marked ``helm`` when helm is; otherwise
they are left out, and the run says so. Tests marked ``tour``, ``long``, ``browser``, ``cdk``, ``prometheus``,
``terminal``, ``terraform`` or ``readme`` run only when asked for, as by ``-m tour``.

Laws are tried with the same examples in every run, so that a change is judged by what it changes; CI tries
more of them (``--hypothesis-profile=steady``) than ``make test`` does.
``pytest tests/property --hypothesis-profile=thorough`` looks for new ones, thousands for each law.
"""

import sys
from collections import deque
from collections.abc import Generator, Iterator
from typing import TextIO, cast

import pytest
import structlog
from hypothesis import settings

from karpenter.cli import errors
from karpenter_local.controlplane.binaries import BinariesMissing, find_binaries
from tests.helm import find_helm

settings.register_profile("quick", max_examples=40, derandomize=True, deadline=None)
settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("thorough", max_examples=2500, deadline=None, print_blob=True)


_WHEN_ASKED = ("tour", "long", "browser", "cdk", "prometheus", "terminal", "terraform", "readme")


class _RecentLines:
    """The last log lines of a test, which its report shows when it fails."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque(maxlen=400)

    def write(self, text: str) -> None:
        self.lines.append(text)

    def flush(self) -> None:
        """Nothing waits."""


_LOGS = _RecentLines()


def _keep_logs() -> None:
    """
    Log into memory: servers that run beside tests would write into what a command prints.

    They also log between two tests, when pytest captures nothing, and would write into its own output.
    """
    structlog.reset_defaults()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(cast("TextIO", _LOGS)))


_keep_logs()


@pytest.fixture(autouse=True)
def _logs_of_one_test() -> Iterator[None]:
    """Forget what was logged before, and how a command that a test ran has set up logging for the process."""
    _LOGS.lines.clear()
    yield
    _keep_logs()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the last log lines of a test that fails."""
    report = yield
    if report.failed and _LOGS.lines:
        report.sections.append((f"Last log lines of {item.name}", "".join(_LOGS.lines)))
    return report


@pytest.fixture(autouse=True, scope="session")
def _patience() -> None:
    """Let no command say that it takes long, which on a busy machine would be in what tests read."""
    errors.PATIENCE = 3600.0


@pytest.fixture
def untraced() -> Iterator[None]:
    """Measure no coverage during a test, where that would take longer than the test itself."""
    tracer = sys.gettrace()
    sys.settrace(None)
    yield
    sys.settrace(tracer)


def _missing() -> str:
    try:
        find_binaries()
    except BinariesMissing as error:
        return str(error)
    return ""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what needs the real control plane, or helm, where there is none, and what was not asked."""
    asked = str(config.getoption("markexpr"))
    for marker, is_missing in (
        ("controlplane", _missing()),
        ("helm", find_helm() is None),
        *((marker, marker not in asked) for marker in _WHEN_ASKED),
    ):
        needing = [item for item in items if item.get_closest_marker(marker)]
        if needing and is_missing:
            config.hook.pytest_deselected(items=needing)
            items[:] = [item for item in items if not item.get_closest_marker(marker)]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say that, and why, the real control plane or helm was not asked."""
    if reason := _missing():
        terminalreporter.write_line(f"The tests on the real control plane were left out: {reason}.")
    if find_helm() is None:
        terminalreporter.write_line("The tests with helm were left out: no helm; hint: make controlplane.")
