"""Tests here run in virtual time, except modules that say ``REAL_TIME = True`` because they use sockets."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from karpenter_local.virtual import VirtualLoop
from tests.integration.kubectl import find_kubectl


def pytest_asyncio_loop_factories(
    config: pytest.Config,  # noqa: ARG001  the hook's signature
    item: pytest.Item,
) -> Mapping[str, Callable[[], Any]]:
    """Choose the loop of a test by its module."""
    module = getattr(item, "module", None)
    if getattr(module, "REAL_TIME", False):
        return {"system": asyncio.SelectorEventLoop}
    return {"virtual": VirtualLoop}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what needs kubectl where there is none."""
    needing = [item for item in items if getattr(getattr(item, "module", None), "NEEDS_KUBECTL", False)]
    if needing and find_kubectl() is None:
        config.hook.pytest_deselected(items=needing)
        items[:] = [item for item in items if item not in needing]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say that the tests with kubectl were left out."""
    if find_kubectl() is None:
        terminalreporter.write_line(
            "The tests with kubectl were left out: no kubectl; hint: make controlplane."
        )
