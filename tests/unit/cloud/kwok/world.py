"""A small world: a catalogue of a few types, a cluster in a dictionary, and claims in few words."""

from collections.abc import Iterable, Mapping
from random import Random
from typing import TypeVar

from karpenter.api import labels
from karpenter.api.kwoknodeclass import KWOKNodeClass, KWOKNodeClassSpec, KWOKNodeClassStatus
from karpenter.api.meta import Condition, ObjectMeta, Resource
from karpenter.api.node import Node
from karpenter.api.nodeclaim import (
    NodeClaim,
    NodeClaimResources,
    NodeClaimSpec,
    NodeClassReference,
    NodeRequirement,
)
from karpenter.api.nodepool import NodeClaimTemplate, NodePool, NodePoolSpec, PoolTemplateSpec
from karpenter.cloud.catalogs.kwok_format import parse_catalog
from karpenter.cloud.errors import CloudUnreachable
from karpenter.cloud.kwok import Behaviour, KwokCloud, KwokProvider
from karpenter.cloud.kwok.cloudprovider import ObjectClasses, ObjectNodes
from karpenter.core.model.catalog import Catalog
from karpenter_local.testing.cluster_objects import ObjectsInMemory
from karpenter_local.virtual import VirtualClock

R = TypeVar("R", bound=Resource)
Log = list[tuple[float, str, str]]
"""When what happened to which object."""

REFERENCE = NodeClassReference(group="karpenter.kwok.sh", kind="KWOKNodeClass", name="default")
POOL = NodePool(
    metadata=ObjectMeta(name="default"),
    spec=NodePoolSpec(template=NodeClaimTemplate(spec=PoolTemplateSpec(node_class_ref=REFERENCE))),
)

FILE = """
- {name: small, architecture: amd64, operatingSystems: [linux, windows], resources: {cpu: "2", memory: 4Gi},
   offerings: [
     {Price: 0.2, Requirements: [{key: topology.kubernetes.io/zone, operator: In, values: [zone-1]},
                                 {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]},
     {Price: 0.1, Requirements: [{key: topology.kubernetes.io/zone, operator: In, values: [zone-1]},
                                 {key: karpenter.sh/capacity-type, operator: In, values: [spot]}]},
     {Price: 0.1, Requirements: [{key: topology.kubernetes.io/zone, operator: In, values: [zone-2]},
                                 {key: karpenter.sh/capacity-type, operator: In, values: [spot]}]}]}
- {name: large, architecture: amd64, operatingSystems: [linux], resources: {cpu: "16", memory: 32Gi},
   offerings: [
     {Price: 0.8, Requirements: [{key: topology.kubernetes.io/zone, operator: In, values: [zone-2]},
                                 {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]},
     {Price: 0.05, Available: false,
      Requirements: [{key: topology.kubernetes.io/zone, operator: In, values: [zone-1]},
                     {key: karpenter.sh/capacity-type, operator: In, values: [spot]}]},
     {Price: 0.3, ReservationCapacity: 2,
      Requirements: [{key: topology.kubernetes.io/zone, operator: In, values: [zone-2]},
                     {key: karpenter.kwok.sh/reservation-id, operator: In, values: [res-1]},
                     {key: karpenter.sh/capacity-type, operator: In, values: [reserved]}]}]}
"""


def catalog(text: str = FILE) -> Catalog:
    return parse_catalog(text, file="small.yaml")


def node_class(*, ready: str = "True", delay: str | None = None, deleting: bool = False) -> KWOKNodeClass:
    conditions = (Condition(type="Ready", status=ready, message="on purpose"),) if ready else ()
    stamp = VirtualClock().now() if deleting else None
    return KWOKNodeClass(
        metadata=ObjectMeta(name="default", deletion_timestamp=stamp),
        spec=KWOKNodeClassSpec(node_registration_delay=delay),
        status=KWOKNodeClassStatus(conditions=conditions),
    )


class Objects(ObjectsInMemory):
    """The objects of a cluster; writes are noted, and fail as often as a test says."""

    def __init__(self, *objects: Resource) -> None:
        super().__init__(*objects)
        self.log: Log = []
        self.failures = 0
        self.unreadable = False

    async def get(self, kind: type[R], name: str, *, namespace: str = "") -> R | None:
        """Return an object, unless the API server is away."""
        if self.unreadable:
            raise CloudUnreachable("the API server is away")
        return await super().get(kind, name, namespace=namespace)

    async def create(self, made: Resource) -> None:
        self._happens("create", made.name)
        await super().create(made)

    async def delete(self, kind: type[Resource], name: str) -> None:
        self._happens("delete", name)
        await super().delete(kind, name)

    @property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(each for each in self if isinstance(each, Node))

    def _happens(self, verb: str, name: str) -> None:
        self.log.append((round(VirtualClock().monotonic(), 6), verb, name))
        if self.failures:
            self.failures -= 1
            raise ConnectionError("the API server is away")


def need(key: str, *values: str, operator: str = "In") -> NodeRequirement:
    return NodeRequirement(key=key, operator=operator, values=values)


def claim(
    name: str = "one",
    *requirements: NodeRequirement,
    requests: Mapping[str, str] | None = None,
    own: Mapping[str, str] | None = None,
) -> NodeClaim:
    return NodeClaim(
        metadata=ObjectMeta(
            name=name,
            uid=f"uid-{name}",
            labels={labels.NODEPOOL: "default", **(own or {})},
            annotations={"note": "kept"},
        ),
        spec=NodeClaimSpec(
            requirements=requirements,
            resources=NodeClaimResources(requests=dict(requests or {"cpu": "1"})),
            node_class_ref=REFERENCE,
        ),
    )


class World:
    """A cloud, its only cluster, and that cluster's provider."""

    def __init__(
        self,
        *,
        behaviour: Behaviour | None = None,
        objects: Iterable[Resource] | None = None,
        seed: int = 1,
        sells: Catalog | None = None,
    ) -> None:
        self.objects = Objects(*([node_class()] if objects is None else objects))
        self.clock = VirtualClock()
        self.cloud = KwokCloud(
            catalog() if sells is None else sells,
            nodes=ObjectNodes(self.objects),
            clock=self.clock,
            chance=Random(seed),  # noqa: S311  chance that can be repeated
            behaviour=behaviour or Behaviour(),
        )
        self.control = self.cloud.control
        self.provider = self.restart()

    def restart(self) -> KwokProvider:
        """Return a new client of the cloud."""
        return KwokProvider(self.cloud, classes=ObjectClasses(self.objects), cluster="ours")
