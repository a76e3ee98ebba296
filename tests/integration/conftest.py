"""Tests here run in virtual time, except modules that say ``REAL_TIME = True`` because they use sockets."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from karpenter.base.aio.virtual import VirtualLoop


def pytest_asyncio_loop_factories(
    config: pytest.Config,  # noqa: ARG001  the hook's signature
    item: pytest.Item,
) -> Mapping[str, Callable[[], Any]]:
    """Choose the loop of a test by its module."""
    module = getattr(item, "module", None)
    if getattr(module, "REAL_TIME", False):
        return {"system": asyncio.SelectorEventLoop}
    return {"virtual": VirtualLoop}
