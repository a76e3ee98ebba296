"""
Initialization: a registered Node is Ready, has no startup taints, and reports every requested resource.

Requested DRA drivers must have published their ResourceSlices too. There is no timeout: a Node that never
initializes is kept, and its NodeClaim says what is missing.
See https://karpenter.sh/docs/concepts/nodeclaims/.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api.labels import INITIALIZED, REQUESTED_DRA_DRIVERS
from karpenter.base.quantity import QuantityError
from karpenter.core.effects import Amend
from karpenter.core.lifecycle import conditions
from karpenter.core.lifecycle.conditions import ConditionSet, Progress
from karpenter.core.model.resources import parse_resources
from karpenter.core.model.taints import is_ephemeral, same_taint

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from karpenter.api.dra import ResourceSlice
    from karpenter.api.node import Node
    from karpenter.api.nodeclaim import NodeClaim


def initialize(
    claim: NodeClaim,
    nodes: Sequence[Node],
    condition_set: ConditionSet,
    slices: Iterable[ResourceSlice] | None = None,
) -> Progress:
    """Return how far the initialization of a claim has come; without `slices`, DRA drivers do not count."""
    kind = conditions.INITIALIZED
    if len(nodes) != 1:
        return Progress(
            condition_set=condition_set.set_unknown(kind, "NodeNotFound", "Node not registered with cluster")
        )
    node = nodes[0]
    missing = _missing(claim, node) or _missing_devices(claim, node, slices)
    if missing is not None:
        return Progress(condition_set=condition_set.set_unknown(kind, *missing))
    if node.metadata.labels.get(INITIALIZED) == "true":
        return Progress(condition_set=condition_set.set_true(kind))
    label = Amend(
        kind="Node",
        name=node.name,
        changes={"metadata": {"labels": {INITIALIZED: "true"}}},
        because="the node is initialized",
    )
    return Progress(condition_set=condition_set.set_true(kind), first=(label,))


def _missing(claim: NodeClaim, node: Node) -> tuple[str, str] | None:
    """Return the first thing that a Node lacks, as a reason and a message."""
    if not is_ready(node):
        return "NodeNotReady", "Node status is NotReady"
    # A DaemonSet, such as a CNI, removes the startup taint when it is done; Karpenter only waits for that:
    # https://karpenter.sh/docs/concepts/nodepools/
    for taint in claim.spec.startup_taints:
        if any(same_taint(taint, each) for each in node.spec.taints):
            return "StartupTaintsExist", f"StartupTaint {_taint_text(taint.key, taint.effect)} still exists"
    # Kubernetes adds these taints while a Node starts and removes them by itself:
    # https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
    for taint in node.spec.taints:
        if is_ephemeral(taint):
            return (
                "KnownEphemeralTaintsExist",
                f"KnownEphemeralTaint {_taint_text(taint.key, taint.effect)} still exists",
            )
    # Extended resources appear once their device plugin has registered, which may take minutes:
    # https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/
    if resource := _unregistered(claim, node):
        return "ResourceNotRegistered", f"Resource {resource} was requested but not registered"
    return None


def _missing_devices(
    claim: NodeClaim, node: Node, slices: Iterable[ResourceSlice] | None
) -> tuple[str, str] | None:
    """Return which DRA drivers have not published a complete pool for the Node."""
    wanted = claim.metadata.annotations.get(REQUESTED_DRA_DRIVERS, "")
    if slices is None or not wanted:
        return None
    published = {each.spec.driver for each in _complete_pools(node, slices)}
    missing = [driver for driver in wanted.split(",") if driver not in published]
    if not missing:
        return None
    return (
        "DRADriverPoolsNotPublished",
        f"DRA drivers have not published a complete pool on the node: {', '.join(missing)}",
    )


def _complete_pools(node: Node, slices: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    """
    Return one slice of each complete pool of a Node.

    A pool is complete when all slices of its newest generation exist:
    https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/.
    """
    pools: dict[tuple[str, str], list[ResourceSlice]] = {}
    for each in slices:
        if each.spec.node_name == node.name:
            pools.setdefault((each.spec.driver, each.spec.pool.name), []).append(each)
    found = []
    for own in pools.values():
        newest = max(each.spec.pool.generation for each in own)
        last = [each for each in own if each.spec.pool.generation == newest]
        if len(last) == last[0].spec.pool.resource_slice_count:
            found.append(last[0])
    return found


def _unregistered(claim: NodeClaim, node: Node) -> str:
    try:
        wanted = parse_resources(claim.spec.resources.requests)
        has = parse_resources(node.status.allocatable)
    except QuantityError as error:  # an API server would have refused it
        return str(error)
    return next((name for name, amount in sorted(wanted.items()) if amount and not has.get(name)), "")


def _taint_text(key: str, effect: str) -> str:
    return f"{key}:{effect}"


def is_ready(node: Node) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)
