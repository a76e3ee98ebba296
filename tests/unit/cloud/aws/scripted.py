"""An AWS that answers from a table, and a cluster as the operator sees it: for tests of decisions."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from karpenter.api.meta import Condition, ObjectMeta
from karpenter.api.node import Node, NodeSpec, NodeStatus
from karpenter.api.nodeclaim import NodeClaim, NodeClaimSpec, NodeClaimStatus
from karpenter.api.nodepool import NodePool
from karpenter.cloud.aws.metrics import METRICS, ProviderMetrics
from karpenter.cloud.aws.sdk import ApiResponse, AwsApi
from karpenter.core.state.cluster import ClusterView
from karpenter.telemetry.metrics import Metrics
from karpenter_local.virtual import VirtualClock, run_virtual
from tests.unit.cloud.aws.world import REFERENCE

T = TypeVar("T")
NOW = datetime(2026, 6, 1, tzinfo=UTC)
ZONE = "us-west-2a"

Script = ApiResponse | Exception | Callable[[Mapping[str, Any]], ApiResponse]


class ScriptedAws(AwsApi):
    """Answers each operation with what a table says, and remembers what it was asked."""

    def __init__(self, answers: Mapping[str, Script | list[Script]] | None = None) -> None:
        self.region = "us-west-2"
        self.partition = "aws"
        self.answers = dict(answers or {})
        self.calls: list[tuple[str, dict[str, Any]]] = []

    async def call(self, service: str, operation: str, /, **parameters: Any) -> ApiResponse:
        """Answer; a list holds one answer for each call, and the last one stays."""
        del service
        self.calls.append((operation, parameters))
        script = self.answers.get(operation, {})
        if isinstance(script, list):
            script = script.pop(0) if len(script) > 1 else script[0]
        if isinstance(script, Exception):
            raise script
        return script(parameters) if callable(script) else script

    async def long_poll(self, service: str, operation: str, /, **parameters: Any) -> ApiResponse:
        return await self.call(service, operation, **parameters)

    def asked(self, operation: str) -> list[dict[str, Any]]:
        """Return the parameters of every call of an operation."""
        return [parameters for name, parameters in self.calls if name == operation]

    def counted(self) -> Counter[str]:
        """Return how often each operation was called."""
        return Counter(name for name, _ in self.calls)


def instrumented(clock: VirtualClock) -> tuple[ProviderMetrics, Metrics]:
    metrics, provider_metrics = Metrics(clock=clock, also=METRICS), ProviderMetrics()
    provider_metrics.use(metrics)
    return provider_metrics, metrics


def virtually(work: Callable[[VirtualClock], Awaitable[T]], *, start: datetime = NOW) -> T:
    async def main() -> T:
        return await work(VirtualClock())

    return run_virtual(main(), start=start)


def provider_id(instance: str, zone: str = ZONE) -> str:
    """Return what the node of an instance calls it."""
    return f"aws:///{zone}/{instance}"


def of_another(claim: NodeClaim, **changes: str) -> NodeClaim:
    """Return a claim whose class is of another kind or group."""
    spec = claim.spec
    reference = msgspec.structs.replace(spec.node_class_ref, **changes)
    return msgspec.structs.replace(claim, spec=msgspec.structs.replace(spec, node_class_ref=reference))


def launched(
    name: str = "default-1",
    instance: str = "i-1",
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    node: str = "",
    image: str = "",
    conditions: tuple[Condition, ...] = (),
    leaving: bool = False,
    node_class: str = "default",
) -> NodeClaim:
    return NodeClaim(
        metadata=ObjectMeta(
            name=name,
            uid=f"uid-of-{name}",
            labels={"karpenter.sh/nodepool": "default", **(labels or {})},
            annotations=dict(annotations or {}),
            deletion_timestamp=NOW if leaving else None,
            resource_version="7",
        ),
        spec=NodeClaimSpec(node_class_ref=msgspec.structs.replace(REFERENCE, name=node_class)),
        status=NodeClaimStatus(
            provider_id=provider_id(instance) if instance else "",
            node_name=node,
            image_id=image,
            conditions=conditions,
        ),
    )


def joined(
    name: str = "node-1",
    instance: str = "i-1",
    *,
    labels: Mapping[str, str] | None = None,
    capacity: Mapping[str, str] | None = None,
    leaving: bool = False,
) -> Node:
    return Node(
        metadata=ObjectMeta(
            name=name,
            uid=f"uid-of-{name}",
            labels={"karpenter.sh/registered": "true", **(labels or {})},
            deletion_timestamp=NOW if leaving else None,
        ),
        spec=NodeSpec(provider_id=provider_id(instance)),
        status=NodeStatus(capacity=dict(capacity or {})),
    )


def seen(*objects: NodeClaim | Node | NodePool) -> Callable[[], ClusterView]:
    """Return a cluster of these objects, as the operator sees it."""
    view = ClusterView(
        claims={each.name: each for each in objects if isinstance(each, NodeClaim)},
        nodes={each.name: each for each in objects if isinstance(each, Node)},
        pools={each.name: each for each in objects if isinstance(each, NodePool)},
    )
    return lambda: view
