"""Builders of existing nodes and of whole problems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api import labels
from karpenter.api.pod import Pod, TopologySpreadConstraint
from karpenter.core.model.resources import parse_resources
from karpenter.core.scheduling.problem import (
    BoundPod,
    ExistingNode,
    Options,
    PodVolumes,
    Pool,
    Problem,
    TopologyNode,
)
from karpenter_local.testing.builders.machines import RULES, ZONES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from karpenter.api.node import Taint
    from karpenter.core.model.hostportusage import HostPort

DEFAULT_OPTIONS: Final = Options()


class NodeWithPods(msgspec.Struct, frozen=True, kw_only=True):
    """An existing node, and the pods that are bound to it."""

    existing: ExistingNode
    pods: tuple[Pod, ...] = ()
    takes_pods: bool = True
    """False for a node that counts for spread and affinity but is no candidate."""


def node(
    name: str,
    *pods: Pod,
    zone: str = ZONES[0],
    capacity_type: str = labels.ON_DEMAND,
    pool_name: str = "",
    arch: str = labels.AMD64,
    node_labels: Mapping[str, str] | None = None,
    taints: tuple[Taint, ...] = (),
    free: Mapping[str, str] | None = None,
    ports: tuple[HostPort, ...] = (),
    volumes: Mapping[str, frozenset[str]] | None = None,
    volume_limits: Mapping[str, int] | None = None,
    quiet: bool = False,
    takes_pods: bool = True,
) -> NodeWithPods:
    """Return a node with `free` room (4 cores, 8 GiB and 110 pods by default) beside the `pods` on it."""
    room = {"cpu": "4", "memory": "8Gi", "pods": "110", **(free or {})}
    own = {
        labels.HOSTNAME: name,
        labels.ZONE: zone,
        labels.CAPACITY_TYPE: capacity_type,
        labels.ARCH: arch,
        labels.OS: labels.LINUX,
        **({labels.NODEPOOL: pool_name} if pool_name else {}),
        **(node_labels or {}),
    }
    existing = ExistingNode(
        name=name,
        labels=own,
        taints=taints,
        free=parse_resources(room),
        ports=ports,
        volumes=volumes or {},
        volume_limits=volume_limits or {},
        quiet=quiet,
    )
    return NodeWithPods(existing=existing, pods=pods, takes_pods=takes_pods)


def problem(
    *pods: Pod | Iterable[Pod],
    pools: Sequence[Pool] = (),
    nodes: Sequence[NodeWithPods] = (),
    daemons: Sequence[Pod] = (),
    volumes: Mapping[str, PodVolumes] | None = None,
    namespaces: Mapping[str, Mapping[str, str]] | None = None,
    moved: Iterable[str] = (),
    spread_defaults: Mapping[str, tuple[TopologySpreadConstraint, ...]] | None = None,
    options: Options = DEFAULT_OPTIONS,
) -> Problem:
    """Return a problem of pods (and sequences of pods), nodes and NodePools."""
    wanted: list[Pod] = []
    for each in pods:
        wanted.extend((each,) if isinstance(each, Pod) else each)
    known = {one.metadata.namespace: {"name": one.metadata.namespace} for one in wanted}
    return Problem(
        pods=tuple(wanted),
        pools=tuple(pools),
        nodes=tuple(each.existing for each in nodes if each.takes_pods),
        topology_nodes=tuple(
            TopologyNode(name=each.existing.name, labels=each.existing.labels, taints=each.existing.taints)
            for each in nodes
        ),
        bound_pods=tuple(BoundPod(bound, each.existing.name) for each in nodes for bound in each.pods),
        daemons=tuple(daemons),
        volumes=volumes or {},
        namespaces=namespaces if namespaces is not None else known,
        moved=frozenset(moved),
        spread_defaults=spread_defaults or {},
        rules=RULES,
        options=options,
    )
