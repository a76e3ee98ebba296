"""
The machines that static NodePools lack, as a plan has them.

The controller of static NodePools creates their NodeClaims at once, and the provisioner then waits until
they have machines. So pods that wait may go to these machines as to any that is starting.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from karpenter.api.meta import Condition, find_status_condition
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.pod import Pod
from karpenter.base.quantity import QuantityError
from karpenter.core.disruption.staticdrift import template_node
from karpenter.core.effects import CreateClaim
from karpenter.core.model.catalog import choices
from karpenter.core.model.requirement import RequirementError
from karpenter.core.model.resources import pod_requests
from karpenter.core.provisioning.provisioner import foreseen
from karpenter.core.provisioning.static import count_claims, is_static, scale_up
from karpenter.core.scheduling.build.nodepools import class_obstacle
from karpenter.core.scheduling.problem import InstanceTypeOptions, NewNode, Plan

if TYPE_CHECKING:
    from karpenter.api.nodepool import NodePool
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.model.requirements import Requirements
    from karpenter.core.state.cluster import ClusterView


class StaticMachine(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that a static NodePool lacks, and its NodeClaim once the machine is launched."""

    claim: NodeClaim
    node: NewNode


class StaticCapacity(msgspec.Struct, frozen=True, kw_only=True):
    """What static NodePools lack."""

    machines: tuple[StaticMachine, ...] = ()
    unsold: Mapping[str, int] = {}
    """How many machines a NodePool lacks that nothing on sale satisfies."""


def static_capacity(view: ClusterView, catalog: Catalog) -> StaticCapacity:
    """Return the machines that static NodePools would launch now; the catalogue has whole prices."""
    machines: list[StaticMachine] = []
    unsold = {}
    for pool in sorted(view.pools.values(), key=lambda each: each.name):
        lacking = [] if class_obstacle(pool, view) else list(_lacking(pool, view, catalog))
        if not lacking:
            continue
        node = template_node(pool, catalog)
        named = [_named(claim, name) for claim, name in zip(lacking, _names(pool, view), strict=False)]
        found = list(_launched(named, node, catalog)) if node is not None else []
        machines += found
        if len(found) < len(lacking):
            unsold[pool.name] = len(lacking) - len(found)
    return StaticCapacity(machines=tuple(machines), unsold=unsold)


def with_static_claims(view: ClusterView, machines: Iterable[StaticMachine]) -> ClusterView:
    """Return the cluster with machines that static NodePools have launched, and that are starting."""
    claims = {each.claim.name: each.claim for each in machines}
    return msgspec.structs.replace(view, claims={**view.claims, **claims}) if claims else view


def with_static_machines(plan: Plan, machines: Iterable[StaticMachine], view: ClusterView) -> Plan:
    """Return a plan with these among the new machines, with the pods that go to them, and in the bill."""
    nodes = [_filled(each.node, plan.placed.get(each.claim.name, ()), view.pods) for each in machines]
    if not nodes:
        return plan
    names = {each.name for each in nodes}
    given, cost = sum(each.purchase.price for each in nodes), plan.cost
    bound = cost.lower_bound + given if cost.lower_bound > 0 or not plan.new_nodes else 0.0
    share = cost.lower_bound / bound if bound > 0 else 0.0  # the same amounts are a smaller part of more
    return msgspec.structs.replace(
        plan,
        new_nodes=(*nodes, *plan.new_nodes),
        placed={name: pods for name, pods in plan.placed.items() if name not in names},
        cost=msgspec.structs.replace(
            cost,
            hourly=cost.hourly + given,
            lower_bound=bound,
            gap_parts=tuple((name, part * share) for name, part in cost.gap_parts),
        ),
    )


def _lacking(pool: NodePool, view: ClusterView, catalog: Catalog) -> Iterator[NodeClaim]:
    """Yield the claims that the controller of static NodePools would create."""
    if not is_static(pool):
        return
    conditions = pool.status.conditions
    if find_status_condition(conditions, "Ready") is None:  # a manifest that nothing has judged yet
        ready = (*conditions, Condition(type="Ready", status="True"))
        pool = msgspec.structs.replace(pool, status=msgspec.structs.replace(pool.status, conditions=ready))
    due = scale_up(pool, count_claims(pool.name, view.claims.values(), view.marked), catalog.label_rules)
    yield from (each.claim for each in due.effects if isinstance(each, CreateClaim))


def _names(pool: NodePool, view: ClusterView) -> Iterator[str]:
    number = 0
    while True:
        number += 1
        name = f"{pool.name}-{number}"
        if name not in view.claims and name not in view.nodes:
            yield name


def _named(claim: NodeClaim, name: str) -> NodeClaim:
    return msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, name=name))


def _launched(claims: Iterable[NodeClaim], node: NewNode, catalog: Catalog) -> Iterator[StaticMachine]:
    for claim in claims:
        try:
            sold = choices(catalog, claim)
        except (RequirementError, QuantityError):  # the validation of its NodePool says so
            return
        if not sold:
            return
        yield StaticMachine(
            claim=foreseen(claim, sold), node=msgspec.structs.replace(node, name=claim.name, pods=())
        )


class _FilledOptions(msgspec.Struct, frozen=True):
    """The instance types of a static machine, which requests what its pods request."""

    options: InstanceTypeOptions
    pods: tuple[Pod, ...]

    def type_names(self) -> tuple[str, ...]:
        return self.options.type_names()

    def requirements(self, types: tuple[str, ...]) -> Requirements:
        return self.options.requirements(types)

    def requests(self) -> Mapping[str, int]:
        # The placeholder that the machine was found for is one pod and requests nothing else.
        total = dict(self.options.requests())
        total["pods"] = total.get("pods", 1) - 1
        for pod in self.pods:
            for name, amount in pod_requests(pod).items():
                total[name] = total.get(name, 0) + amount
        return total


def _filled(node: NewNode, keys: tuple[str, ...], pods: Mapping[str, Pod]) -> NewNode:
    known = tuple(pods[key] for key in keys if key in pods)
    return msgspec.structs.replace(
        node, pods=keys, instance_type_options=_FilledOptions(node.instance_type_options, known)
    )
