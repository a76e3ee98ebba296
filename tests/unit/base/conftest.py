"""Every test here runs in virtual time."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from karpenter_local.virtual import VirtualLoop


def pytest_asyncio_loop_factories(
    config: pytest.Config,  # noqa: ARG001  the hook's signature
    item: pytest.Item,  # noqa: ARG001  likewise
) -> Mapping[str, Callable[[], Any]]:
    """Let pytest-asyncio run its tests on a virtual loop."""
    return {"virtual": VirtualLoop}
