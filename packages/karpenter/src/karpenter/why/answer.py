"""
An explanation as a value, and the questions that it is worked out with.

Every explanation is found by asking the functions that the operator decides with; a change that would help
is tried by asking them again with the change made. How an explanation reads as text is in :mod:`.text`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from karpenter.core.disruption.disrupt import DisruptionDecision
from karpenter.core.model.catalog import Catalog, OfferingName
from karpenter.core.provisioning.provisioner import ProvisioningDecision
from karpenter.core.state.cluster import ClusterView
from karpenter.core.state.pod import is_unscheduled
from karpenter.core.state.statenode import StateNode, state_nodes
from karpenter.replay.record import Done

if TYPE_CHECKING:
    from karpenter.api.nodepool import NodePool
    from karpenter.api.pod import Pod

Provision: TypeAlias = Callable[[ClusterView], ProvisioningDecision]
Disrupt: TypeAlias = Callable[[ClusterView], DisruptionDecision]


class PoolMiss(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Why one NodePool does not serve a pod, and how little is missing."""

    node_pool: str
    code: str
    message: str
    nearest: str = ""
    """How far the NodePool is from serving the pod; empty where that is no amount."""


class HelpfulChange(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One change that was tried and lets the pod in."""

    change: str
    """What to do, as an imperative sentence."""

    result: str
    """Where the pod goes then."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer to one question."""

    kind: str = "Why"
    object: str
    """What was asked about, as ``kind/name``."""

    placed: bool
    """Whether it has, or will have, what it waits for."""

    answer: str
    """One sentence."""

    because: tuple[str, ...] = ()
    node_pools: tuple[PoolMiss, ...] = ()
    changes: tuple[HelpfulChange, ...] = ()
    monthly: float | None = None
    """What a node costs in a month of 730 hours, in dollars; null where no price is known."""


class CapacityFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A launch that failed for want of capacity."""

    claim: str
    at: datetime
    message: str
    offerings: tuple[OfferingName, ...] = ()
    """What was sold out; empty where the Event does not say."""

    @property
    def node_pool(self) -> str:
        """The NodePool after which the NodeClaim is named."""
        return self.claim.rpartition("-")[0]


class Inquiry(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster at one moment, and how to ask what the operator would do with one like it."""

    view: ClusterView
    catalog: Catalog
    priced: Catalog
    """The catalogue at whole prices: what existing nodes cost."""

    now: datetime
    provision: Provision
    """What the operator would launch, and how far that is from the cheapest possible."""

    disrupt: Disrupt
    ask: Provision
    """What the operator would launch; no bound of its cost is worked out."""

    ask_disrupt: Disrupt
    done: tuple[Done, ...] = ()
    """What a flight record says was done."""

    failures: tuple[CapacityFailure, ...] = ()
    """Launches that failed lately for want of capacity; what they name is not available in the catalogues."""

    remarks: Mapping[str, tuple[str, ...]] = {}
    """What is wrong with NodePools and node classes by themselves, as sentences by ``kind/name``."""

    def remarks_about(self, pool: str) -> Iterator[str]:
        """Yield what is wrong with a NodePool and its node class, and what is not known of it."""
        ref = self.view.pools[pool].spec.template.spec.node_class_ref
        yield from self.remarks.get(f"nodepool/{pool}", ())
        yield from self.remarks.get(f"{ref.kind.lower()}/{ref.name}", ())

    def node(self, name: str) -> StateNode | None:
        """Return the node of a name, or of the name of its NodeClaim."""
        for node in state_nodes(self.view):
            if node.name == name or (node.claim is not None and node.claim.name == name):
                return node
        return None


def with_pod(view: ClusterView, pod: Pod) -> ClusterView:
    return with_pods(view, [pod])


def with_pods(view: ClusterView, pods: Iterable[Pod]) -> ClusterView:
    return msgspec.structs.replace(view, pods={**view.pods, **{pod.key: pod for pod in pods}})


def with_pool(view: ClusterView, pool: NodePool) -> ClusterView:
    return msgspec.structs.replace(view, pools={**view.pools, pool.name: pool})


def with_pools(view: ClusterView, names: Iterable[str]) -> ClusterView:
    """Return the view with only these NodePools; their nodes and all others stay."""
    return msgspec.structs.replace(view, pools={name: view.pools[name] for name in names})


def without_pods(view: ClusterView, keys: Iterable[str]) -> ClusterView:
    gone = frozenset(keys)
    pods = {key: pod for key, pod in view.pods.items() if key not in gone}
    return msgspec.structs.replace(view, pods=pods)


def alone(view: ClusterView, pods: Iterable[Pod]) -> ClusterView:
    """Return the view in which no other pods wait."""
    kept = {pod.key for pod in pods}
    return without_pods(
        view, [key for key, each in view.pods.items() if is_unscheduled(each) and key not in kept]
    )


def place_of(decision: ProvisioningDecision, key: str) -> str:
    """Return where a pod goes, in a few words; nothing where it has no place."""
    return places_of(decision, [key]).get(key, "")


def places_of(decision: ProvisioningDecision, keys: Iterable[str]) -> dict[str, str]:
    """Return where pods go, each in a few words, of those that have a place."""
    wanted = frozenset(keys)
    found: dict[str, str] = {}
    for name, pods in decision.plan.placed.items():
        found |= dict.fromkeys(wanted.intersection(pods), f"node {name}")
    for node in decision.plan.new_nodes:
        if here := wanted.intersection(node.pods):
            bought = node.purchase
            place = (
                f"a new {bought.instance_type} of NodePool {node.pool} "
                f"({bought.zone}, {bought.capacity_type}, ${bought.price:.4f} an hour)"
            )
            found |= dict.fromkeys(here, place)
    return found


def counted(number: int, noun: str) -> str:
    """Return how many there are of something."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
