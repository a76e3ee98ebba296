"""Tests run in virtual time, except modules that say ``REAL_TIME = True`` because they use sockets."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs
from structlog.typing import EventDict

from karpenter.kube.client import Client
from karpenter_local.apiserver.inprocess import InProcess
from karpenter_local.virtual import VirtualLoop
from tests.unit.kube.toy import Toy


def pytest_asyncio_loop_factories(
    config: pytest.Config,  # noqa: ARG001  the hook's signature
    item: pytest.Item,
) -> Mapping[str, Callable[[], Any]]:
    """Choose the loop of a test by its module."""
    module = getattr(item, "module", None)
    if getattr(module, "REAL_TIME", False):
        return {"system": asyncio.SelectorEventLoop}
    return {"virtual": VirtualLoop}


@pytest.fixture
def chance() -> Random:
    """Chance that repeats itself."""
    return Random(1)  # noqa: S311  jitter is no secret


@pytest.fixture
def toy() -> Toy:
    """A small API server, with faults on request."""
    return Toy()


@pytest.fixture
def client(toy: Toy, chance: Random) -> Client:
    """A client of the toy server."""
    return Client(InProcess(toy), chance=chance)


@pytest.fixture
def logs() -> Iterator[list[EventDict]]:
    """What was logged."""
    structlog.reset_defaults()
    with capture_logs() as captured:
        yield captured
