"""The problem of scheduling every pod of a cluster that waits, with capacity buffers, as one call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from karpenter.core.scheduling.build.build import BuiltProblem, assemble
from karpenter.core.scheduling.build.pods import deleting_node_pods, provisionable_pods
from karpenter.core.scheduling.build.virtualpods import buffer_problem, virtual_pods
from karpenter.core.state.pdb import PdbLimits
from karpenter.core.state.statenode import state_nodes

if TYPE_CHECKING:
    from datetime import datetime

    from karpenter.core.model.catalog import Catalog
    from karpenter.core.scheduling.build.policy import SchedulingPolicy
    from karpenter.core.scheduling.problem import Options
    from karpenter.core.state.cluster import ClusterView


def build_problem(
    view: ClusterView, catalog: Catalog, *, now: datetime, options: Options, policy: SchedulingPolicy
) -> BuiltProblem:
    """Return the problem of scheduling every provisionable pod and every pod of deleting nodes."""
    nodes = state_nodes(view)
    pdbs = PdbLimits(view)
    pods = [*provisionable_pods(view), *deleting_node_pods(nodes, pdbs, now)]
    empty: list[str] = []
    if policy.buffers:
        pods += virtual_pods(view)
        found = ((buffer.key, buffer_problem(buffer, view)) for buffer in view.buffers.values())
        empty += [f"CapacityBuffer {key} keeps no room: {problem}" for key, problem in found if problem]
    built = assemble(view, catalog, nodes=nodes, pods=pods, options=options, policy=policy)
    return msgspec.structs.replace(built, left_out=(*built.left_out, *empty))
