"""What a test run prints is its results."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    import pytest


def test_servers_beside_tests_log_into_no_output(capfd: pytest.CaptureFixture[str]) -> None:
    """A thread that logs writes neither to standard output nor to standard error of the test run."""
    thread = threading.Thread(target=lambda: structlog.get_logger().info("namespace.removed", namespace="x"))
    thread.start()
    thread.join()

    assert capfd.readouterr() == ("", "")
