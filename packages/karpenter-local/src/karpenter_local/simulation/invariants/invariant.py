"""
What an invariant is, where violations are noted, and how NodeClaims, pods and amounts are read for both.

Invariants judge by what the API server wrote and by the machines that exist, not by what the operator
believes.
"""

from __future__ import annotations

import asyncio
import re
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Final, Literal, NamedTuple

import msgspec

from karpenter.api.labels import INITIALIZED, NODEPOOL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from karpenter.api.meta import Resource
    from karpenter.api.node import Node
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.api.pod import Pod, Toleration
    from karpenter.base.clock import Clock
    from karpenter.kube.transport import Request, Response
    from karpenter_local.simulation.cluster import SimulatedCluster
    from karpenter_local.simulation.mirror import ObjectWrite

_PLACE: Final = re.compile(r"(nodeclaim|node)/([a-z0-9]+(?:[.-]+[a-z0-9]+)*)")
_SUFFIXES: Final[dict[str, Fraction]] = {
    "m": Fraction(1, 1000),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "": Fraction(1),
}


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """Something that must never happen, and did."""

    at: float
    """Seconds after the beginning."""

    rule: str

    what: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.what}"


class ViolationLog:
    """Violations, in the order in which they happened."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.found: list[Violation] = []
        self.violated = asyncio.Event()

    def add(self, rule: str, what: str) -> None:
        self.found.append(Violation(at=self._clock.monotonic(), rule=rule, what=what))
        self.violated.set()


class CloudCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that changes something in the cloud, as the cloud sees it."""

    by: str

    method: Literal["launch", "terminate"]
    subject: str = ""
    """The provider id of the machine that is to end; nothing for a launch."""


class Invariant:
    """Something that must always hold. Invariants override what they are interested in."""

    name: ClassVar[str]

    def __init__(self, simulated: SimulatedCluster, violations: ViolationLog) -> None:
        self.simulated = simulated
        self.mirror = simulated.mirror
        self.history = simulated.history
        self._violations = violations

    @property
    def now(self) -> float:
        """Seconds since the beginning of the run."""
        return self.simulated.clock.monotonic()

    def violated(self, what: str) -> None:
        self._violations.add(self.name, what)

    def on_write(self, write: ObjectWrite) -> None:
        """Look at a write, whichever component made it."""

    def on_call(self, request: Request, response: Response) -> None:
        """Look at a write of an operator, and at its answer."""

    def on_cloud(self, call: CloudCall) -> None:
        """Look at a launch or termination that an operator asks the cloud for."""

    def on_tick(self) -> None: ...

    def unsettled(self) -> Iterable[str]:
        """Return what does not hold yet, and must hold once the cluster has settled."""
        return ()


class NominationEvent(NamedTuple):
    """Content of an Event that nominates a pod for the machine of a claim, or for a node."""

    pod: str
    claim: str
    node: str


def nomination(request: Request, response: Response) -> NominationEvent | None:
    """Return the nomination that a write of an operator tells of; None if it tells of none."""
    if not request.path.endswith("/events") or not response.ok or b'"Nominated"' not in request.body:
        return None
    event = msgspec.json.decode(request.body)
    about = event.get("involvedObject") or event.get("regarding") or {}
    places = dict(_PLACE.findall(event.get("message") or event.get("note") or ""))
    key = f"{about.get('namespace', '')}/{about.get('name', '')}"
    return NominationEvent(key, places.get("nodeclaim", ""), places.get("node", "")) if places else None


def reason_of(claim: NodeClaim) -> str:
    """Return why the operator disrupts a machine; nothing if it does not."""
    return next(
        (
            each.reason
            for each in claim.status.conditions
            if each.type == "DisruptionReason" and each.status == "True"
        ),
        "",
    )


def is_true(claim: NodeClaim, name: str) -> bool:
    return any(each.type == name and each.status == "True" for each in claim.status.conditions)


def is_ready(node: Node) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)


def is_initialized(claim: NodeClaim, node: Node | None) -> bool:
    """
    Say whether a claim or the label of its node says that it is initialized.

    Karpenter goes by the label; the condition of the claim is written after it, and comes later when writes
    are lost: https://github.com/kubernetes-sigs/karpenter/blob/main/pkg/controllers/state/statenode.go
    """
    labels = node.metadata.labels if node is not None else {}
    return labels.get(INITIALIZED) == "true" or is_true(claim, "Initialized")


def is_leaving(item: Resource) -> bool:
    return item.metadata.deletion_timestamp is not None


def begins_to_leave(write: ObjectWrite) -> bool:
    before, after = write.before, write.after
    return before is not None and not is_leaving(before) and (after is None or is_leaving(after))


def pool_name(item: Resource) -> str:
    return item.metadata.labels.get(NODEPOOL, "")


def amount(text: object) -> Fraction:
    """Return an amount as the API writes it: 250m, 2, 1.5Gi."""
    written = str(text)
    digits = written.rstrip("mkMGTi")
    return Fraction(digits) * _SUFFIXES[written[len(digits) :]]


def cores(amounts: Mapping[str, object]) -> int:
    """Return the thousandths of cores among some amounts as the API writes them."""
    return int(amount(amounts.get("cpu", "0")) * 1000)


def cores_of_pool(simulated: SimulatedCluster, pool: str, *, without: AbstractSet[str] = frozenset()) -> int:
    """
    Return what the machines of a pool that really exist have together, `without` some.

    Machines on their way out do not count: what they have is free for others as soon as it was decided that
    they go.
    """
    staying = {
        claim.metadata.uid
        for claim in simulated.mirror.claims.values()
        if not is_leaving(claim) and not reason_of(claim)
    }
    return sum(
        each.capacity.get("cpu", 0)
        for each in simulated.cloud.machines()
        if pool_of_machine(each.labels) == pool
        and each.claim_uid in staying
        and each.provider_id not in without
    )


def pool_of_machine(labels: Mapping[str, str]) -> str:
    return labels.get(NODEPOOL, "")


def cores_of_pod(pod: Pod) -> int:
    return sum(cores(each.resources.requests) for each in pod.spec.containers)


def is_over(pod: Pod) -> bool:
    return pod.status.phase in {"Succeeded", "Failed"}


def owner_of(pod: Pod) -> str:
    return next((each.kind for each in pod.metadata.owner_references), "")


def tolerates(pod: Pod, key: str, effect: str) -> bool:
    """Say whether a pod may run in spite of a taint without a value."""
    return any(_tolerates(each, key, effect) for each in pod.spec.tolerations)


def _tolerates(toleration: Toleration, key: str, effect: str) -> bool:
    of_key = toleration.key == key or (not toleration.key and toleration.operator == "Exists")
    of_value = toleration.operator == "Exists" or not toleration.value
    return of_key and of_value and toleration.effect in {"", effect}
