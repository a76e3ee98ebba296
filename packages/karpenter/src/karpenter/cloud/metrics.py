"""
Measures a cloud provider: the duration of its calls, and their errors.

It changes nothing about a call, but refuses launches and terminations of a replica that does not lead. The
calling controller is read from the context that log lines carry, too.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import structlog

from karpenter.base.ratelimiting import OPEN, Fence
from karpenter.cloud.errors import CloudError
from karpenter.telemetry.metrics import Metrics
from karpenter.telemetry.metrics import runtime as declared

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.api.nodepool import NodePool
    from karpenter.base.clock import Clock
    from karpenter.cloud.cloudprovider import CloudProvider, Machine, NodeClassKind, RepairPolicy
    from karpenter.core.model.catalog import Catalog

METHODS: Final = {
    "launch": "Create",
    "terminate": "Delete",
    "get": "Get",
    "list": "List",
    "catalog": "GetInstanceTypes",
    "drift": "IsDrifted",
}
"""Our methods to the names that Karpenter's metrics have: https://karpenter.sh/docs/reference/metrics/"""


class MeasuredProvider:
    """A provider whose calls are measured."""

    def __init__(
        self, provider: CloudProvider, *, metrics: Metrics, clock: Clock, fence: Fence = OPEN
    ) -> None:
        """`fence` is checked before machines are launched and terminated."""
        self._fence = fence
        self._provider = provider
        self._duration = metrics[declared.CLOUD_DURATION]
        self._errors = metrics[declared.CLOUD_ERRORS]
        self._clock = clock

    @property
    def name(self) -> str:
        return self._provider.name

    @property
    def node_classes(self) -> tuple[NodeClassKind, ...]:
        return self._provider.node_classes

    @property
    def repair_policies(self) -> tuple[RepairPolicy, ...]:
        return self._provider.repair_policies

    async def launch(self, claim: NodeClaim) -> Machine:
        self._fence.check(f"launch of the machine of NodeClaim {claim.name}")
        with self._measured("launch"):
            return await self._provider.launch(claim)

    async def terminate(self, provider_id: str) -> None:
        self._fence.check(f"termination of machine {provider_id}")
        with self._measured("terminate"):
            await self._provider.terminate(provider_id)

    async def get(self, provider_id: str) -> Machine:
        with self._measured("get"):
            return await self._provider.get(provider_id)

    async def list(self) -> tuple[Machine, ...]:
        with self._measured("list"):
            return await self._provider.list()

    async def catalog(self, pool: NodePool) -> Catalog:
        with self._measured("catalog"):
            return await self._provider.catalog(pool)

    async def drift(self, claim: NodeClaim) -> str:
        with self._measured("drift"):
            return await self._provider.drift(claim)

    @contextmanager
    def _measured(self, method: str) -> Iterator[None]:
        labels = {
            # The loop binds the name of its controller to the context of each reconcile.
            "controller": str(structlog.contextvars.get_contextvars().get("controller", "")),
            "method": METHODS[method],
            "provider": self.name,
        }
        began = self._clock.monotonic()
        try:
            yield
        except CloudError as error:
            self._errors.add(**labels, error=error.metric_label)
            raise
        finally:
            self._duration.observe(self._clock.monotonic() - began, **labels)
