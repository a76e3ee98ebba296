"""No machine without a claim, and no claim without a machine, once everything has come to rest."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from karpenter_local.simulation.invariants.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterable


class Ownership(Rule):
    """Machines and claims are in pairs, and so are nodes."""

    name = "ownership"

    def unrest(self) -> Iterable[str]:
        """Return who is alone."""
        machines = {each.provider_id for each in self.world.sky.machines()}
        claims = Counter(each.status.provider_id for each in self.mirror.claims.values())
        nodes = {each.spec.provider_id for each in self.mirror.nodes.values()}
        for provider_id in sorted(machines - claims.keys()):
            yield f"machine {provider_id} has no claim"
        for name, claim in self.mirror.claims.items():
            if claim.status.provider_id not in machines:
                yield f"claim {name} has no machine"
            elif claim.status.provider_id not in nodes:
                yield f"claim {name} has no node"
        for provider_id, count in claims.items():
            if count > 1:
                yield f"machine {provider_id} has {count} claims"
        for name, node in self.mirror.nodes.items():
            if node.spec.provider_id not in machines:
                yield f"node {name} has no machine"
