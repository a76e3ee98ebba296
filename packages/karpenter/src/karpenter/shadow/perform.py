"""
Carries out effects on the shadow's own state, as an API server would, and sends nothing.

Objects that are deleted stay until their finalizers are gone; evicted pods become pending again at once,
unless a PodDisruptionBudget refuses.
Announcements are dropped: they would be Events. Launches and terminations go to the shadow's cloud, because
that is the provider that this performer has.

The cloud of a shadow launches machines in thought, at the prices of the real one. Instance types, prices and
what is sold out are read from the real provider. A launch takes the cheapest offering that satisfies the
claim and never fails for want of capacity, unless the provider says so beforehand; the machine joins after
the time that machines were observed to take. Machines that the real operator has launched are known from
their claims. Nothing is launched or terminated anywhere.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from karpenter.api.labels import HOSTNAME, MIN_VALUES_RELAXED, NO_EXECUTE, NODEPOOL, UNREGISTERED
from karpenter.api.meta import ObjectMeta, Resource, convert, to_plain
from karpenter.api.node import Node, NodeCondition, NodeSpec, NodeStatus, Taint
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Pod
from karpenter.base.quantity import QuantityError
from karpenter.cloud.cloudprovider import CloudProvider, Machine, NodeClassKind, RepairPolicy
from karpenter.cloud.errors import InsufficientCapacity, LaunchRefused, MachineNotFound
from karpenter.controllers.eviction import SEVERAL_BUDGETS
from karpenter.controllers.perform import Performer
from karpenter.core.model.catalog import Catalog, choices, labels_of
from karpenter.core.model.requirement import RequirementError
from karpenter.core.model.resources import parse_resources, render_resources
from karpenter.core.state.cluster import ClusterState, ObjectDeleted, ObjectUpdated
from karpenter.core.state.pdb import PdbLimits
from karpenter.kube.errors import Cause, Status, StatusDetails, status_error_of
from karpenter.kube.rest import EVERYTHING, Preconditions, Selection
from karpenter.kube.rest import evict as request_eviction
from karpenter.kube.targets import Page
from karpenter.telemetry.metrics import claims

if TYPE_CHECKING:
    from collections.abc import Callable

    from karpenter.base.clock import Clock
    from karpenter.core.effects import Amend, Announce, CreateClaim, DeleteObject, NominatePod
    from karpenter.shadow.cluster import ShadowCluster

SCHEME: Final = "shadow:///"
"""How the provider ids of machines begin that exist in thought only."""


class ShadowCloud:
    """A provider whose machines exist in thought only."""

    def __init__(
        self,
        provider: CloudProvider,
        *,
        clock: Clock,
        pool: Callable[[str], NodePool | None],
        launched: Callable[[Machine, NodeClaim], None],
    ) -> None:
        """`pool` finds a NodePool; `launched` is told of every machine, so that its node joins later."""
        self._provider = provider
        self._clock = clock
        self._pool = pool
        self._launched = launched
        self._machines: dict[str, Machine] = {}

    @property
    def name(self) -> str:
        return self._provider.name

    @property
    def node_classes(self) -> tuple[NodeClassKind, ...]:
        return self._provider.node_classes

    @property
    def repair_policies(self) -> tuple[RepairPolicy, ...]:
        """None: nodes that exist in thought do not break."""
        return ()

    def adopt(self, claim: NodeClaim) -> None:
        """Take over a machine that the real operator has launched."""
        self._machines[claim.status.provider_id] = Machine(
            provider_id=claim.status.provider_id,
            claim_uid=claim.metadata.uid,
            labels=claim.metadata.labels,
            capacity=parse_resources(claim.status.capacity),
            allocatable=parse_resources(claim.status.allocatable),
            image_id=claim.status.image_id,
            created=claim.metadata.creation_timestamp,
        )

    async def launch(self, claim: NodeClaim) -> Machine:
        """Return a machine of the cheapest offering that satisfies a claim."""
        provider_id = f"{SCHEME}{claim.name}"
        if provider_id in self._machines:
            return self._machines[provider_id]
        pool = self._pool(claim.metadata.labels.get(NODEPOOL, ""))
        if pool is None:
            raise LaunchRefused(reason="NodePoolNotFound", message="its NodePool is gone")
        try:
            found = choices(await self._provider.catalog(pool), claim)
        except (RequirementError, QuantityError) as error:
            raise LaunchRefused(reason="InvalidClaim", message=str(error)) from error
        if not found:
            raise InsufficientCapacity(offerings=())
        choice = found[0]
        machine = Machine(
            provider_id=provider_id,
            claim_uid=claim.metadata.uid,
            labels=labels_of(choice, claim),
            capacity=choice.kind.capacity,
            allocatable=choice.kind.allocatable,
            created=self._clock.now(),
        )
        self._machines[provider_id] = machine
        self._launched(machine, claim)
        return machine

    async def terminate(self, provider_id: str) -> None:
        """Forget a machine; the second call says that it is gone."""
        if self._machines.pop(provider_id, None) is None:
            raise MachineNotFound(provider_id)

    async def get(self, provider_id: str) -> Machine:
        if provider_id not in self._machines:
            raise MachineNotFound(provider_id)
        return self._machines[provider_id]

    async def list(self) -> tuple[Machine, ...]:
        return tuple(self._machines.values())

    async def catalog(self, pool: NodePool) -> Catalog:
        return await self._provider.catalog(pool)

    async def drift(self, claim: NodeClaim) -> str:
        """Return why a machine of the real operator has drifted; those of the shadow are of today."""
        if claim.status.provider_id.startswith(SCHEME):
            return ""
        return await self._provider.drift(claim)


def node_of(machine: Machine, claim: NodeClaim, clock: Clock) -> Node:
    """Return the node of a machine as its kubelet registers it, ready."""
    now = clock.now()
    return Node(
        metadata=ObjectMeta(
            name=claim.name,
            uid=f"node-{claim.metadata.uid}",
            labels={**machine.labels, **claim.metadata.labels, HOSTNAME: claim.name},
            creation_timestamp=now,
        ),
        spec=NodeSpec(provider_id=machine.provider_id, taints=(Taint(key=UNREGISTERED, effect=NO_EXECUTE),)),
        status=NodeStatus(
            capacity={**render_resources(machine.capacity)},
            allocatable={**render_resources(machine.allocatable)},
            conditions=(NodeCondition(type="Ready", status="True", last_transition_time=now),),
        ),
    )


def without_startup_taints(node: Node, claim: NodeClaim | None) -> Node:
    """Return a node as it is once its daemons have removed the startup taints, which they do at once."""
    temporary = (
        {(each.key, each.effect) for each in claim.spec.startup_taints} if claim is not None else set()
    )
    left = tuple(each for each in node.spec.taints if (each.key, each.effect) not in temporary)
    if left == node.spec.taints:
        return node
    return msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, taints=left))


log = structlog.stdlib.get_logger(__name__)

_KINDS: Final[dict[str, type[Resource]]] = {each.kind: each for each in (Node, NodeClaim, NodePool, Pod)}


class ShadowPerformer(Performer):
    """Carries out effects on the state of a shadow."""

    _created = 0

    def turn(self) -> AbstractAsyncContextManager[None]:
        """Wait for nothing: a shadow sends no requests."""
        return nullcontext()

    async def create_claim(self, effect: CreateClaim) -> NodeClaim:
        """Create a claim in the state, with a name of the shadow's own."""
        self._created += 1
        pool = effect.claim.metadata.labels.get(NODEPOOL, "")
        name = f"shadow-{pool}-{self._created}"
        meta = msgspec.structs.replace(
            effect.claim.metadata, name=name, generate_name="", uid=name, creation_timestamp=self._clock.now()
        )
        made = msgspec.structs.replace(effect.claim, metadata=meta)
        self._store.apply(ObjectUpdated(made))
        self._metrics[claims.CREATED].add(
            reason=effect.reason,
            nodepool=pool,
            min_values_relaxed=meta.annotations.get(MIN_VALUES_RELAXED, "false"),
        )
        log.info("shadow.nodeclaim_created", nodeclaim=name, pods=len(effect.pods), because=effect.because)
        self._tell(effect)
        return made

    def announce(self, effect: Announce) -> None:
        """Say nothing: an Event is a write."""

    async def _nominate_pod(self, effect: NominatePod) -> bool:
        """Write nothing: the pods are those of the real cluster."""
        del effect
        return True

    async def _delete(self, effect: DeleteObject) -> bool:
        found = _find(self._store, effect.kind, effect.name, effect.namespace)
        if found is None or found.metadata.uid != effect.uid:
            return True
        delete(self._store, found, self._clock.now())
        log.info("shadow.object_deleted", kind=effect.kind, name=effect.name, because=effect.because)
        return True

    async def _amend(self, effect: Amend) -> bool:
        if effect.kind not in _KINDS:
            return True  # the state of a shadow does not depend on it
        found = _find(self._store, effect.kind, effect.name, effect.namespace)
        if found is None:
            return False
        plain = _merged(to_plain(found), _plain(effect.changes))
        if effect.status:
            plain = _merged(plain, {"status": _plain(effect.status)})
        changed = convert(plain, _KINDS[effect.kind])
        if isinstance(changed, Node):
            changed = without_startup_taints(changed, self._claim_of(changed))
        if changed.metadata.deletion_timestamp is not None and not changed.metadata.finalizers:
            self._store.apply(ObjectDeleted(changed))
        else:
            self._store.apply(ObjectUpdated(changed))
        return True

    def _claim_of(self, node: Node) -> NodeClaim | None:
        found = self._store.claims_of(node.spec.provider_id)
        return found[0] if found else None


class ShadowClient:
    """Requests of controllers to the API server, answered by the shadow."""

    def __init__(self, cluster: ShadowCluster) -> None:
        self._cluster = cluster

    async def list(self, kind: type[Resource], selection: Selection = EVERYTHING) -> Page[Resource]:
        """Return all NodeClaims, the object of a name, or the pods of a node: what controllers select."""
        store = self._cluster.store
        field, _, value = selection.fields.partition("=")
        if field == "metadata.name":
            found = _find(store, kind.kind, value, selection.namespace)
            return Page(items=() if found is None else (found,), version="")
        if field == "spec.nodeName":
            return Page(items=store.pods_on(value), version="")
        return Page(items=tuple(store.view().claims.values()), version="")

    async def evict(self, name: str, *, namespace: str, only_if: Preconditions | None = None) -> None:
        """
        Let a pod leave its node, if its PodDisruptionBudget allows.

        Raises:
            StatusError: as the API server answers: 404, 409, 429, or 500 where two budgets select the pod.
        """
        key = f"{namespace}/{name}"
        pod = self._cluster.store.pod(key)
        if pod is not None and not self._cluster.drains(pod.spec.node_name):
            pod = None  # its ReplicaSet has shrunk, and it has taken the place of the pod that went
        refused = _refusal(pod, PdbLimits(self._cluster.store.view()), only_if)
        if refused is not None:
            raise status_error_of(request_eviction(name, namespace=namespace), refused)
        self._cluster.evict(key)

    async def delete(
        self,
        kind: type[Resource],
        name: str,
        *,
        namespace: str = "",
        only_if: Preconditions | None = None,
        grace: int | None = None,
    ) -> None:
        """Let a pod leave its node, though it would rather not."""
        del kind, only_if, grace
        self._cluster.evict(f"{namespace}/{name}")


def _refusal(pod: Pod | None, limits: PdbLimits, only_if: Preconditions | None) -> Status | None:
    """Return why the eviction API would not evict a pod; None if it would."""
    if pod is None:
        return Status(code=404, reason="NotFound", message="the pod has left its node")
    if only_if is not None and only_if.uid not in {"", pod.metadata.uid}:
        return Status(code=409, reason="Conflict", message="another pod has its name")
    pdbs = limits.covering(pod)
    if len(pdbs) > 1:
        return Status(code=500, message=SEVERAL_BUDGETS)
    if pdbs and pdbs[0].refuses(pod):
        name, cause = pdbs[0].budget.name, f"needs {pdbs[0].desired} healthy pods, has {pdbs[0].healthy}"
        causes = (Cause(reason="DisruptionBudget", message=f"PodDisruptionBudget {name} {cause}"),)
        return Status(
            code=429,
            reason="TooManyRequests",
            message="the pod's disruption budget would be violated",
            details=StatusDetails(causes=causes),
        )
    return None


def delete(store: ClusterState, found: Resource, now: Any) -> None:
    """Delete an object as an API server does: it stays until its finalizers are gone."""
    if not found.metadata.finalizers:
        store.apply(ObjectDeleted(found))
    elif found.metadata.deletion_timestamp is None:
        meta = msgspec.structs.replace(found.metadata, deletion_timestamp=now)
        store.apply(ObjectUpdated(msgspec.structs.replace(found, metadata=meta)))


def _find(store: ClusterState, kind: str, name: str, namespace: str) -> Resource | None:
    match kind:
        case "NodeClaim":
            return store.claim(name)
        case "Node":
            return store.node(name)
        case "NodePool":
            return store.pool(name)
        case "Pod":
            return store.pod(f"{namespace}/{name}")
        case _:
            return None


def _plain(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def _merged(target: Any, patch: Any) -> Any:
    """Return a JSON merge patch applied (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    found = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = _merged(found.get(key), value)
    return found
