"""What holds behind gates: sizes of static pools, room of buffers, the word of overlays, broken nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api.labels import NODEPOOL
from karpenter.api.nodeclaim import NodeClaim
from karpenter.core.model.resources import parse_resources
from karpenter_local.simulation.invariants.budgets import is_true
from karpenter_local.simulation.invariants.resources import cores, cores_of_pod
from karpenter_local.simulation.invariants.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from karpenter.api.node import Node
    from karpenter.api.nodepool import NodePool
    from karpenter_local.simulation.mirror import Wrote


class Sizes(Rule):
    """A static pool has as many machines as it says, and never more than its limit."""

    name = "sizes"

    def wrote(self, wrote: Wrote) -> None:
        """Count whenever a claim comes."""
        claim = wrote.after
        if wrote.before is not None or not isinstance(claim, NodeClaim) or self.world.is_contested:
            return
        pool = self.mirror.pools.get(claim.metadata.labels.get(NODEPOOL, ""))
        limit = _limit(pool) if pool is not None else None
        if pool is not None and limit is not None:
            count = len(self._claims(pool.name))
            if count > limit:
                self.violated(f"pool {pool.name} has {count} machines and may have {limit}")

    def unrest(self) -> Iterable[str]:
        """Return the pools that have another size than they should; what leaves is asked about elsewhere."""
        for pool in self.mirror.pools.values():
            if pool.spec.replicas is None:
                continue
            claims, limit = self._claims(pool.name), _limit(pool)
            there = [each for each in claims if each.metadata.deletion_timestamp is None]
            room = pool.spec.replicas if limit is None else limit - (len(claims) - len(there))
            wanted = max(0, min(room, pool.spec.replicas))
            complete = sum(1 for each in there if is_true(each, "Initialized"))
            if (len(there), complete) != (wanted, wanted):
                yield f"pool {pool.name} has {complete} machines of {wanted}, and {len(there)} claims"

    def _claims(self, pool: str) -> list[NodeClaim]:
        return [each for each in self.mirror.claims.values() if each.metadata.labels.get(NODEPOOL) == pool]


class Room(Rule):
    """In the end there is room for what buffers ask for."""

    name = "room"

    def unrest(self) -> Iterable[str]:
        """Return the buffers without enough room; each alone, for there is seldom more than one."""
        for key, buffer in self.mirror.buffers.items():
            template = buffer.spec.pod_template_ref
            wanted = buffer.spec.replicas or 0
            milli = self._asked(template.name) if template is not None else 0
            if milli and (there := sum(free // milli for free in self._free())) < wanted:
                yield f"buffer {key} has room for {there} pods of {wanted}"

    def _asked(self, template: str) -> int:
        """Return the cores that one pod of a buffer asks for."""
        entry = self.world.cluster.server.store.get("podtemplates", f"default/{template}")
        containers = entry.object()["template"]["spec"]["containers"] if entry is not None else ()
        return sum(cores(each["resources"]["requests"]) for each in containers)

    def _free(self) -> Iterator[int]:
        """Yield the cores that are free on each node that takes pods."""
        for name, node in self.mirror.nodes.items():
            if _takes_pods(node):
                pods = [pod for pod in self.mirror.pods_on(name) if pod.status.phase not in _OVER]
                yield max(0, cores(node.status.allocatable) - sum(map(cores_of_pod, pods)))


class Word(Rule):
    """In the end every overlay says whether it holds, and of the heaviest one does."""

    name = "word"

    def unrest(self) -> Iterable[str]:
        """Return the overlays that are silent, or all in vain."""
        overlays = self.mirror.overlays.values()
        said = {
            each.name: [held.status for held in each.status.conditions if held.type == "ValidationSucceeded"]
            for each in overlays
        }
        yield from (f"overlay {name} does not say if it holds" for name, found in said.items() if not found)
        heaviest = max((each.spec.weight or 0 for each in overlays), default=0)
        best = [said[each.name] for each in overlays if (each.spec.weight or 0) == heaviest]
        if best and not any("True" in found for found in best):
            yield "no overlay holds"


class Repair(Rule):
    """In the end no broken machine is left, where machines are repaired."""

    name = "repair"

    def unrest(self) -> Iterable[str]:
        """Return the nodes that are broken and stay."""
        if self.world.settings.gate("NodeRepair"):
            for name, node in self.mirror.nodes.items():
                if not _is_ready(node):
                    yield f"node {name} is broken and stays"


_OVER = frozenset({"Succeeded", "Failed"})


def _limit(pool: NodePool) -> int | None:
    return parse_resources(pool.spec.limits).get("nodes")


def _is_ready(node: Node) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)


def _takes_pods(node: Node) -> bool:
    closed = node.spec.unschedulable or any(taint.effect != "PreferNoSchedule" for taint in node.spec.taints)
    return _is_ready(node) and not closed and node.metadata.deletion_timestamp is None
