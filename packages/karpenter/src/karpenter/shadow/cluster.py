"""
The cluster of a shadow: pods and workloads as they are, on machines of the shadow's own.

It begins as a copy of the real cluster. From then on workloads, NodePools and nodes that no NodePool has
launched follow the real cluster, and machines are those that the shadow has kept or launched. A pod is where
the shadow would have it:

- A pod that comes is bound by :mod:`.binding`, or waits until a machine of the shadow has joined.
- A pod that the real operator evicts stays where it is in the shadow: the pod that its controller makes
  instead takes its place.
- Where a ReplicaSet shrinks, the pod goes that it would give up in the shadow. Pods of one ReplicaSet are
  alike, so the pod that goes in reality and the one that goes here exchange their places first.
- PodDisruptionBudgets count the pods of the shadow, and refuse its evictions.
- A machine of the real operator that goes for another reason than a decision, such as an interruption or
  `kubectl delete`, goes in the shadow, too.

Both states are :class:`ClusterState`; what was read from the API server is in one, what controllers decide
about is in the other.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from statistics import median
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from karpenter.api.cluster import PodDisruptionBudget, PodDisruptionBudgetStatus
from karpenter.api.labels import (
    CAPACITY_TYPE,
    DELETION_COST_SET,
    DISRUPTED,
    INSTANCE_TYPE,
    NODEPOOL,
    POD_DELETION_COST,
    ZONE,
)
from karpenter.api.meta import (
    Resource,
    find_status_condition,
    is_status_condition_true,
    status_condition_since,
)
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.pod import Pod, PodCondition
from karpenter.core.disruption.cost import price_of
from karpenter.core.state.cluster import (
    ClusterState,
    ClusterView,
    NodeClass,
    ObjectDeleted,
    ObjectUpdated,
    StateEvent,
)
from karpenter.core.state.pod import (
    is_owned_by_daemonset,
    is_owned_by_node,
    is_ready,
    is_terminal,
    is_unscheduled,
)
from karpenter.core.state.statenode import StateNode, state_nodes
from karpenter.shadow.account import ShadowAccount, ShadowAction, ShadowStarted, Side
from karpenter.shadow.binding import bind_pods, controller_uid, least_wanted
from karpenter.shadow.perform import SCHEME, ShadowCloud, delete, node_of
from karpenter.telemetry.metrics import Metrics, savings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.base.clock import Clock
    from karpenter.cloud.cloudprovider import CloudProvider, Machine
    from karpenter.controllers.catalogs import PoolCatalogs
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.provisioning.provisioner import ProvisioningSettings

log = structlog.stdlib.get_logger(__name__)

START_UP_SECONDS: Final = 60.0
"""Seconds that a machine takes until its node joins, as long as none was observed."""

_OBSERVED_START_UPS: Final = 50
_ACCOUNTING_SECONDS: Final = 5.0
_BATCH_SECONDS: Final = 0.1
"""Seconds in which pods are collected that are bound together."""

_KEPT_SLOT_SECONDS: Final = 300.0
_SCHEDULED: Final = PodCondition(type="PodScheduled", status="True")
_UNSCHEDULABLE: Final = PodCondition(type="PodScheduled", status="False", reason="Unschedulable")


class _Place(msgspec.Struct, frozen=True):
    """Where a pod runs in the shadow."""

    node: str
    since: datetime | None = None
    """Since when it is ready there, where that is known."""


class _Slot(msgspec.Struct, frozen=True):
    """The place of a pod that the real operator has evicted, for the next pod of its controller."""

    place: _Place
    until: float


class ShadowCluster:
    """A state to decide about, and how it follows the real cluster."""

    name = "shadow"

    def __init__(
        self,
        provider: CloudProvider,
        *,
        clock: Clock,
        account: ShadowAccount,
        settings: ProvisioningSettings,
    ) -> None:
        served = [(each.group, each.kind) for each in provider.node_classes]
        self.real = ClusterState(serves=served)
        self.store = ClusterState(serves=served)
        self.cloud = ShadowCloud(provider, clock=clock, pool=self.store.pool, launched=self._launched)
        self.account = account
        self.start_up = START_UP_SECONDS
        self._clock = clock
        self._settings = settings
        self._began: datetime | None = None
        self._bound: dict[str, _Place] = {}  # by the key of the pod
        self._uids: dict[str, str] = {}
        self._replicas: dict[str, set[str]] = {}  # keys of pods by the uid of their ReplicaSet
        self._leaving: set[str] = set()  # uids of pods that have exchanged their place, and go
        self._starting: set[str] = set()  # uids of pods that run here, and have not been ready in reality
        self._gone: set[str] = set()  # uids of pods that the real operator has evicted
        self._slots: dict[str, list[_Slot]] = {}  # by the uid of the controller
        self._inherited: set[str] = set()  # uids of pods that took a slot
        self._waited: dict[str, set[str]] = {"real": set(), "shadow": set()}
        self._joining: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._catalogs: PoolCatalogs | None = None
        self._metrics: Metrics | None = None

    def measure(self, catalogs: PoolCatalogs, metrics: Metrics) -> None:
        """Take what prices are read from, and where sums are shown."""
        self._catalogs, self._metrics = catalogs, metrics

    # From the real cluster to the shadow

    def begin(self, *, version: str = "", settings: dict[str, str] | None = None) -> None:
        """Copy the real cluster, and follow it from now on."""
        view, self._began = self.real.view(), self._clock.now()
        self.account.begin(ShadowStarted(at=self._began, version=version, settings=settings or {}))
        for field in view.__struct_fields__:
            found = getattr(view, field)
            if field != "marked":
                for each in found.values():
                    self._copy(each)
        self._observe_start_up()
        self.store.complete = True
        self.real.subscribe(self._hear)
        self.store.subscribe(self._hear_shadow)

    def _copy(self, item: Resource | NodeClass) -> None:
        if isinstance(item, NodeClaim) and item.status.provider_id:
            self.cloud.adopt(item)
        if isinstance(item, Pod):
            if item.spec.node_name:
                ready = (
                    each for each in item.status.conditions if each.type == "Ready" and each.status == "True"
                )
                self._bound[item.key] = _Place(
                    item.spec.node_name, next((each.last_transition_time for each in ready), None)
                )
            self._uids[item.key] = item.metadata.uid
            self._replicas.setdefault(_replicaset(item), set()).add(item.key)
            for side in self._waited.values():
                side.add(item.metadata.uid)
        self.store.apply(ObjectUpdated(_without_count(item)))

    def _hear(self, event: StateEvent, before: Resource | NodeClass | None) -> None:
        item = event.object
        if isinstance(item, Pod):
            if isinstance(event, ObjectDeleted):
                self._pod_gone(item)
            else:
                self._pod(item)
        elif isinstance(item, NodeClaim):
            self._claim(item, before, gone=isinstance(event, ObjectDeleted))
        elif isinstance(item, Node):
            if not self._is_managed(item):
                self.store.apply(event)
        elif isinstance(event, ObjectUpdated):
            self.store.apply(ObjectUpdated(_without_count(item)))
        else:
            self.store.apply(event)

    def _claim(self, claim: NodeClaim, before: Resource | NodeClass | None, *, gone: bool) -> None:
        now = self._clock.now()
        known = isinstance(before, NodeClaim) and bool(before.status.provider_id)
        if claim.status.provider_id and not known and not gone:
            self._act(now, "real", "launch", claim, reason="provisioned")
        left = isinstance(before, NodeClaim) and before.metadata.deletion_timestamp is None
        leaves = gone or claim.metadata.deletion_timestamp is not None
        if not left or not leaves:
            return
        told = find_status_condition(claim.status.conditions, "DisruptionReason")
        reason = told.reason if told is not None else ""
        self._act(now, "real", "remove", claim, reason=reason or "not disrupted")
        ours = self.store.claim(claim.name)
        if ours is not None and not reason and ours.metadata.deletion_timestamp is None:
            log.info("shadow.machine_lost", nodeclaim=claim.name, because="it goes without a decision")
            delete(self.store, ours, now)

    def _pod(self, pod: Pod) -> None:
        key, uid = pod.key, pod.metadata.uid
        if uid in self._gone:
            return
        if is_owned_by_daemonset(pod) or is_owned_by_node(pod):
            if self.store.node(pod.spec.node_name) is not None:
                self.store.apply(ObjectUpdated(pod))
            return
        if self._uids.get(key, uid) != uid:
            self._forget(key)  # a StatefulSet has made the pod anew
        self._uids[key] = uid
        self._note_real(pod)
        if pod.metadata.deletion_timestamp is not None and self._is_drained(pod):
            self._evicted_in_reality(pod)
            return
        if is_terminal(pod):
            self._forget(key)
            return
        if key not in self._bound:
            place = self._slot_of(pod) or self._unmanaged(pod.spec.node_name)
            if place is not None:
                self._bind(pod, place)
                return
        self._show(pod)
        if pod.metadata.deletion_timestamp is not None:
            self._give_up(pod)

    def _pod_gone(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        if uid not in self._gone and not self._is_drained(pod) and self.store.pod(pod.key) is not None:
            self._give_up(pod)
        for seen in (self._inherited, self._leaving, self._starting, *self._waited.values()):
            seen.discard(uid)
        if uid in self._gone:
            self._gone.discard(uid)
            return
        if pod.metadata.deletion_timestamp is None and self._is_drained(pod):
            self._evicted_in_reality(pod)
            self._gone.discard(uid)
            return
        self._forget(pod.key)

    def _evicted_in_reality(self, pod: Pod) -> None:
        if not is_owned_by_daemonset(pod) and not is_owned_by_node(pod):
            self.account.evicted("real")
        place, owner = self._bound.get(pod.key), controller_uid(pod)
        if place is not None and owner:
            until = self._clock.monotonic() + _KEPT_SLOT_SECONDS
            self._slots.setdefault(owner, []).append(_Slot(place, until))
        self._gone.add(pod.metadata.uid)
        self._forget(pod.key)

    def _slot_of(self, pod: Pod) -> _Place | None:
        slots = self._slots.get(controller_uid(pod), [])
        while slots:
            slot = slots.pop(0)
            node = self.store.node(slot.place.node)
            stays = node is not None and node.metadata.deletion_timestamp is None
            if slot.until > self._clock.monotonic() and stays:
                self._inherited.add(pod.metadata.uid)
                return slot.place
        return None

    def _unmanaged(self, name: str) -> _Place | None:
        node = self.real.node(name) if name else None
        return _Place(name) if node is not None and not self._is_managed(node) else None

    def _give_up(self, pod: Pod) -> None:
        """Let a pod of a ReplicaSet that goes in reality go where the ReplicaSet would give up one here."""
        uid, replicaset = pod.metadata.uid, _replicaset(pod)
        if not replicaset or uid in self._leaving:
            return
        every = [self.store.pod(key) for key in self._replicas.get(replicaset, ())]
        least = least_wanted(
            each for each in every if each is not None and each.metadata.uid not in self._leaving
        )
        self._leaving.add(uid)
        real = self.real.pod(least.key)
        if least.key == pod.key or real is None:
            return
        ours, theirs = self._bound.pop(pod.key, None), self._bound.pop(least.key, None)
        for each, place in ((pod, theirs), (real, ours)):
            if place is not None:
                self._bound[each.key] = place
            self._waited["shadow"].add(each.metadata.uid)
            self._starting.add(each.metadata.uid)
            self._show(each)

    def _forget(self, key: str) -> None:
        self._bound.pop(key, None)
        self._uids.pop(key, None)
        pod = self.store.pod(key)
        if pod is not None:
            self._replicas.get(_replicaset(pod), set()).discard(key)
            self.store.apply(ObjectDeleted(pod))

    def _note_real(self, pod: Pod) -> None:
        """Count how long a pod has waited for its node in the real cluster."""
        uid, born = pod.metadata.uid, pod.metadata.creation_timestamp
        if not pod.spec.node_name or uid in self._waited["real"] or born is None:
            return
        self._waited["real"].add(uid)
        if uid not in self._inherited:
            told = next((each for each in pod.status.conditions if each.type == "PodScheduled"), None)
            moment = told.last_transition_time if told is not None and told.status == "True" else None
            self.account.placed("real", ((moment or self._clock.now()) - born).total_seconds())

    def _is_managed(self, node: Node) -> bool:
        return NODEPOOL in node.metadata.labels or bool(self.real.claims_of(node.spec.provider_id))

    def _is_drained(self, pod: Pod) -> bool:
        """Whether a pod that goes is evicted by the real operator, which takes its node away."""
        name = pod.spec.node_name
        node = self.real.node(name) if name else None
        if node is None or not self._is_managed(node) or pod.metadata.uid in self._leaving:
            return False
        tainted = any(taint.key == DISRUPTED for taint in node.spec.taints)
        claims = self.real.claims_of(node.spec.provider_id)
        return (
            tainted
            or node.metadata.deletion_timestamp is not None
            or any(each.metadata.deletion_timestamp is not None for each in claims)
        )

    # In the shadow

    def evict(self, key: str) -> None:
        """Let a pod leave its node in the shadow; it waits for another."""
        pod = self.real.pod(key)
        if self._bound.pop(key, None) is None:
            return
        self.account.evicted("shadow")
        if pod is None or pod.metadata.uid in self._gone:
            self._forget(key)
        else:
            self._show(pod)

    def drains(self, name: str) -> bool:
        """Whether a node of the shadow is being taken away."""
        node = self.store.node(name) if name else None
        return node is not None and node.metadata.deletion_timestamp is not None

    def _bind(self, pod: Pod, place: _Place) -> None:
        self._bound[pod.key] = place
        uid, born = pod.metadata.uid, pod.metadata.creation_timestamp
        self._starting.add(uid)
        if uid not in self._waited["shadow"]:
            self._waited["shadow"].add(uid)
            if uid not in self._inherited and born is not None:
                self.account.placed("shadow", (self._clock.now() - born).total_seconds())
        self._show(pod)

    def _show(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        if is_ready(pod) or any(each.restart_count for each in pod.status.container_statuses):
            self._starting.discard(uid)
        shown = _placed(pod, self._bound.get(pod.key), self._clock.now(), starting=uid in self._starting)
        shown = _with_cost_of(shown, self.store.pod(pod.key))
        self._replicas.setdefault(_replicaset(pod), set()).add(pod.key)
        self.store.apply(ObjectUpdated(shown))
        if is_unscheduled(shown):
            self._wake.set()

    def _hear_shadow(self, event: StateEvent, before: Resource | NodeClass | None) -> None:
        """Follow an event of the shadow itself: a node that is gone leaves its pods behind."""
        item = event.object
        if isinstance(item, Node):
            if isinstance(event, ObjectDeleted):
                for pod in self.store.view().pods_by_node.get(item.name, ()):
                    if is_owned_by_daemonset(pod) or is_owned_by_node(pod):
                        self.store.apply(ObjectDeleted(pod))
                    else:
                        self.evict(pod.key)
            else:
                self._wake.set()
        elif isinstance(item, NodeClaim) and isinstance(event, ObjectUpdated):
            was = before.metadata.deletion_timestamp if isinstance(before, NodeClaim) else None
            if item.metadata.deletion_timestamp is not None and was is None:
                told = find_status_condition(item.status.conditions, "DisruptionReason")
                reason = told.reason if told is not None else "not disrupted"
                self._act(self._clock.now(), "shadow", "remove", item, reason=reason)

    def _launched(self, machine: Machine, claim: NodeClaim) -> None:
        """Let the node of a machine join once it has started."""
        labels = {**machine.labels, **claim.metadata.labels}
        shown = msgspec.structs.replace(
            claim, metadata=msgspec.structs.replace(claim.metadata, labels=labels)
        )
        self._act(self._clock.now(), "shadow", "launch", shown, reason="provisioned")

        async def join() -> None:
            await self._clock.sleep(self.start_up)
            current = self.store.claim(claim.name)
            if current is not None and current.metadata.deletion_timestamp is None:
                self.store.apply(ObjectUpdated(node_of(machine, current, self._clock)))

        task = asyncio.get_running_loop().create_task(join(), name=f"shadow/{claim.name}")
        self._joining.add(task)
        task.add_done_callback(self._joining.discard)

    async def bind_pending(self) -> None:
        """Bind pods as they come and as nodes become ready, for as long as the shadow runs."""
        while True:
            await self._wake.wait()
            await self._clock.sleep(_BATCH_SECONDS)
            self._wake.clear()
            view = self.store.view()
            pending = [pod for pod in view.pods.values() if is_unscheduled(pod)]
            found = bind_pods(view, pending, self._clock.now(), self._settings) if pending else {}
            for pod in pending:
                real = self.real.pod(pod.key)
                if real is None:
                    continue
                if pod.key in found:
                    self._bind(real, _Place(found[pod.key], self._clock.now()))
                elif not any(each.reason == _UNSCHEDULABLE.reason for each in pod.status.conditions):
                    self.store.apply(ObjectUpdated(_unschedulable(pod)))

    # The sums

    async def look(self) -> float:
        """Add up what both sides cost; return after how many seconds to do so again."""
        assert self._catalogs is not None
        catalog = await self._catalogs.of(self.store.view().pools.values())
        self._observe_start_up()
        real, shadow = _bill(self.real.view(), catalog), _bill(self.store.view(), catalog)
        self.account.integrate(self._clock.now(), real, shadow)
        self._publish()
        return _ACCOUNTING_SECONDS

    def close(self) -> None:
        """End what waits, and write the sums of this moment."""
        for task in self._joining:
            task.cancel()
        if self._began is not None:
            now, account = self._clock.now(), self.account
            account.integrate(
                now,
                (account.real.hourly, account.real.machines),
                (account.shadow.hourly, account.shadow.machines),
            )
            account.sample(now)

    def _publish(self) -> None:
        if self._metrics is None:
            return
        for side in ("real", "shadow"):
            totals = self.account.real if side == "real" else self.account.shadow
            for metric, value in (
                (savings.SHADOW_HOURLY, totals.hourly),
                (savings.SHADOW_MACHINES, float(totals.machines)),
                (savings.SHADOW_COST, totals.cost),
                (savings.SHADOW_EVICTED, float(totals.evicted)),
                (savings.SHADOW_PLACED, float(totals.placed)),
                (savings.SHADOW_WAITED, totals.waited),
            ):
                self._metrics[metric].set(value, side=side)

    def _act(self, now: datetime, side: Side, action: str, claim: NodeClaim, *, reason: str) -> None:
        labels = claim.metadata.labels
        offering = " ".join(labels[key] for key in (INSTANCE_TYPE, ZONE, CAPACITY_TYPE) if key in labels)
        self.account.acted(
            ShadowAction(
                at=now,
                side=side,
                action="launch" if action == "launch" else "remove",
                machine=claim.name,
                pool=labels.get(NODEPOOL, ""),
                offering=offering,
                reason=reason,
            )
        )

    def _observe_start_up(self) -> None:
        """Take the time that machines of the real operator took until their nodes were initialized."""
        found = sorted(
            (since, (since - born).total_seconds())
            for claim in self.real.view().claims.values()
            if is_status_condition_true(claim.status.conditions, "Initialized")
            and (since := status_condition_since(claim.status.conditions, "Initialized")) is not None
            and (born := claim.metadata.creation_timestamp) is not None
            and not claim.status.provider_id.startswith(SCHEME)
        )
        if found:
            self.start_up = max(0.0, median(seconds for _, seconds in found[-_OBSERVED_START_UPS:]))


def _bill(view: ClusterView, catalog: Catalog) -> tuple[float, int]:
    """Return the dollars an hour of the machines of NodePools, and how many there are."""
    nodes: Iterable[StateNode] = [node for node in state_nodes(view) if node.is_managed]
    prices = [price_of(node, catalog) or 0.0 for node in nodes]
    return sum(prices), len(prices)


def _replicaset(pod: Pod) -> str:
    owners = pod.metadata.owner_references
    return next((each.uid for each in owners if each.controller and each.kind == "ReplicaSet"), "")


def _without_count(item: Resource | NodeClass) -> Resource | NodeClass:
    """Return a PodDisruptionBudget without what Kubernetes has counted: the shadow counts its own pods."""
    if isinstance(item, PodDisruptionBudget):
        return msgspec.structs.replace(item, status=PodDisruptionBudgetStatus())
    return item


def _placed(pod: Pod, place: _Place | None, now: datetime, *, starting: bool) -> Pod:
    """
    Return a pod where it is in the shadow, or waiting.

    A pod that is `starting` in reality runs in the shadow: there it was bound, or has taken the place of one
    that ran.
    """
    status = pod.status
    if place is None:
        status = msgspec.structs.replace(
            status, phase="Pending", conditions=(), start_time=None, nominated_node_name=""
        )
    elif starting or not pod.spec.node_name:
        since = place.since or now
        ready = PodCondition(type="Ready", status="True", last_transition_time=since)
        status = msgspec.structs.replace(
            status, phase="Running", conditions=(_SCHEDULED, ready), start_time=since, nominated_node_name=""
        )
    elif place.since is not None:
        conditions = tuple(
            msgspec.structs.replace(each, last_transition_time=place.since) if each.type == "Ready" else each
            for each in status.conditions
        )
        status = msgspec.structs.replace(status, conditions=conditions, start_time=place.since)
    spec = msgspec.structs.replace(pod.spec, node_name=place.node if place is not None else "")
    return msgspec.structs.replace(pod, spec=spec, status=status)


def _with_cost_of(pod: Pod, known: Pod | None) -> Pod:
    """Return a pod with the deletion cost that the shadow has written to it (steer-scale-down)."""
    if known is None or DELETION_COST_SET not in known.metadata.annotations:
        return pod
    told = {key: known.metadata.annotations[key] for key in (POD_DELETION_COST, DELETION_COST_SET)}
    meta = msgspec.structs.replace(pod.metadata, annotations={**pod.metadata.annotations, **told})
    return msgspec.structs.replace(pod, metadata=meta)


def _unschedulable(pod: Pod) -> Pod:
    """Return a pod as kube-scheduler marks what it finds no node for."""
    status = msgspec.structs.replace(pod.status, conditions=(_UNSCHEDULABLE,))
    return msgspec.structs.replace(pod, status=status)
