"""
Static drift: drifted nodes of static NodePools are replaced one for one.

As many at a time as the budget and the limit on nodes allow. A replacement comes first, so claims that are
on their way out count against that limit until they are gone, with or without a machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import NODEPOOL, NODES
from karpenter.api.meta import ObjectMeta
from karpenter.api.pod import Pod, PodSpec, Toleration
from karpenter.core.disruption.codes import DisruptionCode
from karpenter.core.disruption.drift import UNREACHED, drift_command, drift_order
from karpenter.core.model.resources import parse_resources
from karpenter.core.scheduling.build.nodepools import as_pool
from karpenter.core.scheduling.problem import NewNode, Problem
from karpenter.core.scheduling.solve import solve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from karpenter.api.nodepool import NodePool
    from karpenter.core.disruption.budgets import Headroom
    from karpenter.core.disruption.candidates import Candidate
    from karpenter.core.disruption.command import Command, Obstacles
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.provisioning.static import ClaimCounts

_UNLIMITED: Final = 10**9
_ANY_TAINT: Final = Toleration(operator="Exists")


def replace_static_drifted(
    candidates: Sequence[Candidate],
    counts: Mapping[str, ClaimCounts],
    headroom: Headroom,
    obstacles: Obstacles,
    *,
    replacement: Callable[[NodePool], NewNode | None],
    stop: Callable[[], bool],
) -> list[Command]:
    """
    Return a command for every drifted node of a static NodePool that can be replaced now.

    `counts` tells how many claims each of their NodePools has. What keeps the others is noted; once `stop`
    says so, what was found by then counts.
    """
    commands: list[Command] = []
    room: dict[str, int] = {}
    for candidate in sorted(candidates, key=drift_order):
        pool, name = candidate.pool, candidate.name
        there, wanted = counts[pool.name], pool.spec.replicas or 0
        # Scaling down comes first: a node that is surplus needs no replacement.
        if there.active + there.pending > wanted:
            message = f"NodePool {pool.name} has more machines than its {wanted} replicas: those go first"
            obstacles[name] = (DisruptionCode.STATIC_CAPACITY, message)
            continue
        limit = parse_resources(pool.spec.limits).get(NODES)
        left = room.setdefault(pool.name, _UNLIMITED if limit is None else limit - there.all)
        if left <= 0:
            message = (
                f"its replacement would come first, and NodePool {pool.name} may have {limit} nodes at most"
            )
            obstacles[name] = (DisruptionCode.NODE_LIMIT, message)
            continue
        if not headroom.allows(candidate):
            continue
        if stop():
            obstacles[name] = UNREACHED
            continue
        node = replacement(pool)
        if node is None:
            message = f"nothing that NodePool {pool.name} allows can be bought to replace it"
            obstacles[name] = (DisruptionCode.NO_INSTANCE_TYPES, message)
            continue
        headroom = headroom.after([candidate])
        room[pool.name] = left - 1
        commands.append(drift_command(candidate, (node,), {}))
    return commands


def note_static_gate(candidates: Iterable[Candidate], obstacles: Obstacles) -> None:
    """Note that drifted nodes of static NodePools stay while the feature gate is off."""
    message = "its NodePool is static, and the feature gate StaticCapacity is off"
    obstacles |= {each.name: (DisruptionCode.STATIC_CAPACITY, message) for each in candidates}


def template_node(node_pool: NodePool, catalog: Catalog) -> NewNode | None:
    """Return the cheapest node that a static NodePool may launch; None when nothing can be launched."""
    pool = msgspec.structs.replace(as_pool(node_pool, catalog, {}), limits={})
    placeholder = Pod(
        metadata=ObjectMeta(name="static", namespace="default"),
        spec=PodSpec(node_selector={NODEPOOL: pool.name}, tolerations=(_ANY_TAINT,)),
    )
    plan = solve(Problem(pods=(placeholder,), pools=(pool,), rules=catalog.label_rules))
    return msgspec.structs.replace(plan.new_nodes[0], pods=()) if plan.new_nodes else None
