"""Whole problems with devices in few words, and what comes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from karpenter.api.dra import DeviceClaim, DeviceRequestAllocationResult, ResourceSliceSpec
from karpenter.api.meta import convert
from karpenter.core.scheduling.dynamicresources.types import (
    AllocatedClaim,
    Consumer,
    DynamicResources,
    NodeTerms,
    PodClaim,
    PodClaims,
)
from karpenter.core.scheduling.problem import Options, Plan, Pool, Problem
from karpenter.core.scheduling.solve import solve
from karpenter_local.testing.builders import NodeWithPods, instance_type, problem
from tests.unit.core.scheduling.dynamicresources.hardware import CLASSES, DRIVER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karpenter.api.pod import Pod
    from karpenter.core.model.catalog import DeviceTemplates, InstanceType


Want: TypeAlias = "tuple[Pod, tuple[DeviceClaim | PodClaim, ...]]"
"""A pod and its claims; what is not a claim yet is made into one of its own."""


def want(pod: Pod, *claims: DeviceClaim | PodClaim) -> Want:
    return pod, claims


def _needs(pod: Pod, claims: Sequence[DeviceClaim | PodClaim]) -> PodClaims:
    return PodClaims(
        tuple(
            each
            if isinstance(each, PodClaim)
            else PodClaim(key=f"{pod.key}-{number}", name=f"claim-{number}", generated=True, devices=each)
            for number, each in enumerate(claims)
        )
    )


def shared(name: str, devices: DeviceClaim) -> PodClaim:
    """Return a claim that several pods use, without devices yet."""
    return PodClaim(key=f"default/{name}", name=name, devices=devices)


def served(name: str, node_terms: NodeTerms, devices: DeviceClaim | None = None) -> PodClaim:
    """Return a claim that has devices within some reach."""
    found = PodClaim(key=f"default/{name}", name=name, node_terms=node_terms)
    return msgspec.structs.replace(found, devices=devices) if devices is not None else found


def allocated(claim: str, *names: str, pods: Sequence[str] = (), **result: Any) -> AllocatedClaim:
    """Return devices that a claim was given, and the pods that use it."""
    results = tuple(
        convert({"driver": DRIVER, "pool": "pool", "device": name, **result}, DeviceRequestAllocationResult)
        for name in names
    )
    return AllocatedClaim(claim=claim, results=results, consumers=tuple(Consumer(pod) for pod in pods))


def kind(name: str, *, brings: DeviceTemplates | None = None, **fields: Any) -> InstanceType:
    return msgspec.structs.replace(instance_type(name, **fields), devices=brings)


def asked(
    *wants: Want,
    pools: Sequence[Pool] = (),
    nodes: Sequence[NodeWithPods] = (),
    slices: Sequence[ResourceSliceSpec] = (),
    allocated_claims: Sequence[AllocatedClaim] = (),
    coming: Mapping[str, DeviceTemplates] | None = None,
    options: Options | None = None,
    **fields: Any,
) -> Problem:
    devices = DynamicResources(
        pod_claims={pod.key: _needs(pod, claims) for pod, claims in wants if claims},
        classes=CLASSES,
        slices=tuple(slices),
        allocated_claims=tuple(allocated_claims),
        templates=coming or {},
    )
    found = problem(
        *(pod for pod, _ in wants), pools=pools, nodes=nodes, options=options or Options(), **fields
    )
    return msgspec.structs.replace(found, devices=devices)


def outcome(plan: Plan) -> dict[str, str]:
    """Return where each pod goes: a node, a new machine with its type, or nowhere."""
    found = {pod.rpartition("/")[2]: node for node, pods in plan.placed.items() for pod in pods}
    for node in plan.new_nodes:
        found |= {pod.rpartition("/")[2]: f"{node.name}:{node.purchase.instance_type}" for pod in node.pods}
    return found | {refusal.pod.rpartition("/")[2]: "" for refusal in plan.refusals}


def solved(*wants: Want, **fields: Any) -> Plan:
    """Return the plan for a problem in which pods need devices."""
    return solve(asked(*wants, **fields))


def told(plan: Plan) -> list[str]:
    return [f"{reason.code}: {reason.message}" for refusal in plan.refusals for reason in refusal.reasons]
