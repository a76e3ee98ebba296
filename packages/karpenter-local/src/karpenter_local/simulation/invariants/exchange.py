"""
What holds whenever the operator exchanges machines of its own will.

Judged at the moment at which the first machine of a command is deleted: its replacements are complete, and
together they cost no more than what goes. Which machines belong to a command is the operator's own word for
it; what has become of them is not.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from karpenter_local.simulation.invariants.budgets import is_true, reason_of
from karpenter_local.simulation.invariants.rule import Rule

if TYPE_CHECKING:
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.controllers.disruption_queue import Begun
    from karpenter.kube.transport import Request, Response
    from karpenter_local.simulation.invariants.rule import Ledger
    from karpenter_local.simulation.world import World

HOUR: Final = 3600.0
_CENT: Final = 1e-6
_CLAIMS: Final = "/nodeclaims/"

Kind = tuple[str, str, str]


class Exchange(Rule):
    """Replacements first, never dearer, and never back again within the hour."""

    name = "exchange"

    def __init__(self, world: World, ledger: Ledger) -> None:
        super().__init__(world, ledger)
        self._prices = {
            (kind.name, offering.zone, offering.capacity_type): offering.price
            for kind in world.catalog.types
            for offering in kind.offerings
        }
        self._judged: list[Begun] = []
        self._past: list[_Swap] = []

    def called(self, request: Request, response: Response) -> None:
        """Look at claims that the operator deletes because of a command."""
        if request.method != "DELETE" or not response.ok or _CLAIMS not in request.path:
            return
        claim = self.mirror.claims.get(request.path.rpartition("/")[2])
        if claim is None or not reason_of(claim) or self._goes_anyway(claim):
            return
        begun = self._command_of(claim.name)
        if begun is not None and not any(each is begun for each in self._judged):
            self._judged.append(begun)
            self._judge(begun)

    def _goes_anyway(self, claim: NodeClaim) -> bool:
        """Whether a claim may be deleted for another reason than a command."""
        provider_id = claim.status.provider_id
        machines = {each.provider_id for each in self.world.sky.machines() if not each.deleting}
        if provider_id not in machines or provider_id in self.world.doomed:
            return True
        nodes = [each for each in self.mirror.nodes.values() if each.spec.provider_id == provider_id]
        if not nodes or nodes[0].metadata.deletion_timestamp is not None:
            return True
        return claim.spec.expire_after != "Never"

    def _command_of(self, claim: str) -> Begun | None:
        """Return the command that a claim goes by: of two operators' commands, the one that is complete."""
        found: list[Begun] = []
        for replica in self.world.replicas:
            commands = getattr(replica.operator, "commands", None)
            found += [each for each in (commands.under_way if commands else ()) if claim in each.claims]
        complete = (each for each in found if all(map(self._is_complete, each.replacements)))
        return next(complete, found[0] if found else None)

    def _is_complete(self, name: str) -> bool:
        claim = self.mirror.claims.get(name)
        return claim is not None and is_true(claim, "Initialized")

    def _judge(self, begun: Begun) -> None:
        coming = [self.mirror.claims.get(name) for name in begun.replacements]
        for name in begun.replacements:
            if not self._is_complete(name):
                self.violated(f"machines go ({begun.text}) before their replacement {name} is complete")
        added = [claim for claim in coming if claim is not None]
        going = [each.claim for each in begun.candidates]
        if begun.command.reason != "Drifted":
            self._compare(begun, going, added)
            self._remember(begun, going, added)

    def _compare(self, begun: Begun, going: list[NodeClaim], added: list[NodeClaim]) -> None:
        before = sum(self._prices.get(kind_of(each), 0.0) for each in going)
        after = sum(self._prices.get(kind_of(each), 0.0) for each in added)
        if after > before + _CENT:
            self.violated(f"the bill grows from {before:.4f} to {after:.4f} an hour by {begun.text}")

    def _remember(self, begun: Begun, going: list[NodeClaim], added: list[NodeClaim]) -> None:
        now = self.world.clock.monotonic()
        swap = _Swap(now, _kinds(going), _kinds(added), self._demand())
        self._past = [each for each in self._past if now - each.at < HOUR]
        if any(swap.undoes(each) for each in self._past):
            self.violated(f"what went comes back within the hour, for the same pods: {begun.text}")
        self._past.append(swap)

    def _demand(self) -> Counter[str]:
        """Return how many pods of each workload there are, leaving out those on their way out."""
        return Counter(
            pod.metadata.labels.get("app", "")
            for pod in self.mirror.pods.values()
            if pod.metadata.deletion_timestamp is None and pod.status.phase in {"Pending", "Running"}
        )


class _Swap(NamedTuple):
    """What went, what came instead, and for which pods."""

    at: float
    went: Counter[Kind]
    came: Counter[Kind]
    demand: Counter[str]

    def undoes(self, other: _Swap) -> bool:
        """Say whether this leads back to where the other began."""
        return bool(self.came) and (self.went, self.came, self.demand) == (
            other.came,
            other.went,
            other.demand,
        )


def _kinds(claims: list[NodeClaim]) -> Counter[Kind]:
    return Counter(kind_of(each) for each in claims)


def kind_of(claim: NodeClaim) -> Kind:
    """Return the type, zone and capacity type of a launched claim."""
    labels = claim.metadata.labels
    return labels.get(INSTANCE_TYPE, ""), labels.get(ZONE, ""), labels.get(CAPACITY_TYPE, "")
