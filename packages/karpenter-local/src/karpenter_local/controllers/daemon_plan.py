"""
Which nodes a daemon set should be on, and what it takes to get there, as a pure function of nodes and pods.

A daemon's pod belongs to one node by a required affinity on the node's name, and tolerates what a node in
trouble or being cordoned carries. A rolling update replaces pods node by node, either by making the new one
first (surge) or by taking the old one away first.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from datetime import datetime

import msgspec

from karpenter.api.meta import convert
from karpenter.api.node import Node
from karpenter.api.pod import NodeSelector, Pod, Toleration
from karpenter.core.model.taints import tolerates_taint
from karpenter.kube.targets import Plain
from karpenter_local.controllers import plain, pods
from karpenter_local.controllers.history import HASH
from karpenter_local.scheduler import nodeterms

# https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/
_ALWAYS_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_ON_HOST_NETWORK = ("node.kubernetes.io/network-unavailable", "NoSchedule")


class DaemonFit(msgspec.Struct, frozen=True):
    """Verdict on a node for a daemon set: its pod should run there, or may stay there."""

    should_run: bool
    may_stay: bool
    """Whether a pod that is there already may stay though none would be put there."""


class DaemonPlan(msgspec.Struct, frozen=True):
    """Pods to create and to delete next."""

    create: tuple[str, ...] = ()
    delete: tuple[Pod, ...] = ()
    failed: tuple[Pod, ...] = ()
    """Those among the deleted that had failed, for the record."""


class Daemon:
    """A daemon set's rules about nodes, read once."""

    def __init__(self, daemon_set: Plain) -> None:
        template = plain.spec_of(daemon_set)["template"]
        spec = template.get("spec") or {}
        self.owner = daemon_set
        self.template = template
        self.selector: Mapping[str, str] = spec.get("nodeSelector") or {}
        self.node_name: str = spec.get("nodeName") or ""
        required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
            "requiredDuringSchedulingIgnoredDuringExecution"
        )
        self.required = convert(required, NodeSelector) if required else None
        own = tuple(convert(each, Toleration) for each in spec.get("tolerations") or ())
        self.tolerations = (*own, *(convert(each, Toleration) for each in added_tolerations(spec)))

    def fit(self, node: Node) -> DaemonFit:
        labels = node.metadata.labels
        matches = (
            self.node_name in {"", node.name}
            and all(labels.get(key) == value for key, value in self.selector.items())
            and (
                self.required is None
                or nodeterms.any_holds(self.required.node_selector_terms, labels, node.name)
            )
        )
        if not matches:
            return DaemonFit(should_run=False, may_stay=False)
        bad = [t for t in node.spec.taints if not any(tolerates_taint(each, t) for each in self.tolerations)]
        repelled = any(taint.effect in {"NoSchedule", "NoExecute"} for taint in bad)
        thrown_out = any(taint.effect == "NoExecute" for taint in bad)
        return DaemonFit(should_run=not repelled, may_stay=not thrown_out)


def added_tolerations(spec: Plain) -> list[Plain]:
    wanted = [*_ALWAYS_TOLERATED, *([_ON_HOST_NETWORK] if spec.get("hostNetwork") else [])]
    return [{"key": key, "operator": "Exists", "effect": effect} for key, effect in wanted]


def pod_for(daemon_set: Plain, node: str, revision_hash: str) -> Plain:
    template = plain.spec_of(daemon_set)["template"]
    body = pods.from_template(template, daemon_set)
    generation = plain.annotations_of(daemon_set).get("deprecated.daemonset.template.generation", "1")
    body["metadata"]["labels"] |= {HASH: revision_hash, "pod-template-generation": generation}
    spec = body["spec"]
    spec["tolerations"] = [*(spec.get("tolerations") or ()), *added_tolerations(spec)]
    spec["affinity"] = _pinned(spec.get("affinity") or {}, node)
    return body


def _pinned(affinity: Plain, node: str) -> Plain:
    affinity = deepcopy(affinity)
    by_name = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    node_affinity = affinity.setdefault("nodeAffinity", {})
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    terms = (required or {}).get("nodeSelectorTerms") or [{}]
    node_affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {
        "nodeSelectorTerms": [{**term, "matchFields": by_name} for term in terms]
    }
    return affinity


def node_of(pod: Pod) -> str:
    """Return the node a daemon's pod is on, or is meant for."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    for term in required.node_selector_terms if required else ():
        for field in term.match_fields:
            if field.key == "metadata.name" and field.operator == "In" and len(field.values) == 1:
                return field.values[0]
    return ""


def by_node(mine: Iterable[Pod]) -> dict[str, list[Pod]]:
    """Return the pods by the node they are on or meant for, the oldest first."""
    found: dict[str, list[Pod]] = {}
    for pod in sorted(mine, key=lambda pod: (pods.created_at(pod), pod.name)):
        found.setdefault(node_of(pod), []).append(pod)
    return found


class DaemonRollout(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of an update."""

    surge: int
    unavailable: int
    rolling: bool
    min_ready: int


def rollout_of(daemon_set: Plain, desired: int) -> DaemonRollout:
    spec = plain.spec_of(daemon_set)
    strategy = spec.get("updateStrategy") or {}
    rolling = strategy.get("rollingUpdate") or {}
    surge = plain.scaled(rolling.get("maxSurge", 0), desired, up=True)
    unavailable = plain.scaled(rolling.get("maxUnavailable", 1), desired, up=True)
    return DaemonRollout(
        surge=surge,
        unavailable=max(unavailable, 0 if surge else 1),
        rolling=strategy.get("type", "RollingUpdate") == "RollingUpdate",
        min_ready=int(spec.get("minReadySeconds", 0)),
    )


def plan(
    fits: Mapping[str, DaemonFit],
    placed: Mapping[str, Sequence[Pod]],
    present: str,
    rollout: DaemonRollout,
    now: datetime,
) -> DaemonPlan:
    """
    Return what to do next.

    `fits` has every node, `placed` the set's pods by node (the oldest first), `present` is the hash of the
    present template.
    """
    create: list[str] = []
    delete: list[Pod] = []
    failed: list[Pod] = []
    for node, fit in fits.items():
        here = placed.get(node, ())
        standing = [pod for pod in here if not pods.is_leaving(pod)]
        broken = [pod for pod in standing if pods.is_finished(pod)]
        alive = [pod for pod in standing if not pods.is_finished(pod)]
        if not fit.may_stay:
            delete += standing
            continue
        failed += broken
        delete += broken
        if fit.should_run and not here:
            create.append(node)
        if len(alive) > 1:
            delete += _duplicates(alive, present, rollout, now)
    # Nodes that are gone: whatever was meant for them has nowhere to go.
    for node, here in placed.items():
        if node not in fits:
            delete += [pod for pod in here if not pods.is_leaving(pod)]
    if rollout.rolling and not create and not delete:
        create, delete = _roll(fits, placed, present, rollout, now)
    return DaemonPlan(tuple(create), tuple(delete), tuple(failed))


def _duplicates(alive: Sequence[Pod], present: str, rollout: DaemonRollout, now: datetime) -> list[Pod]:
    """Return the pods that a node has too many of; a surge may have an old one beside a new one."""
    if not rollout.surge:
        return list(alive[1:])
    old = [pod for pod in alive if pod.metadata.labels.get(HASH) != present]
    new = [pod for pod in alive if pod.metadata.labels.get(HASH) == present]
    if not old or not new:
        return list(alive[1:])
    done = pods.is_available(new[0], rollout.min_ready, now) or not pods.is_ready(old[0])
    return [*new[1:], *(old if done else old[1:])]


def _roll(
    fits: Mapping[str, DaemonFit],
    placed: Mapping[str, Sequence[Pod]],
    present: str,
    rollout: DaemonRollout,
    now: datetime,
) -> tuple[list[str], list[Pod]]:
    outdated: list[tuple[str, Pod]] = []
    unavailable = 0
    surging = 0
    for node, fit in fits.items():
        if not fit.should_run:
            continue
        alive = [pod for pod in placed.get(node, ()) if pods.is_active(pod)]
        old = [pod for pod in alive if pod.metadata.labels.get(HASH) != present]
        new = [pod for pod in alive if pod.metadata.labels.get(HASH) == present]
        surging += bool(old and new)
        if not any(pods.is_available(pod, rollout.min_ready, now) for pod in alive):
            unavailable += 1
        if old and not new:
            outdated.append((node, old[0]))
    if rollout.surge:
        room = max(0, rollout.surge - surging)
        return [node for node, _ in outdated[:room]], []
    # Pods that do not work can go without making anything worse.
    useless = [pod for _, pod in outdated if not pods.is_available(pod, rollout.min_ready, now)]
    working = [pod for _, pod in outdated if pods.is_available(pod, rollout.min_ready, now)]
    return [], [*useless, *working[: max(0, rollout.unavailable - unavailable)]]


def status(
    daemon_set: Plain,
    fits: Mapping[str, DaemonFit],
    placed: Mapping[str, Sequence[Pod]],
    present: str,
    *,
    now: datetime,
) -> Plain:
    least = int(plain.spec_of(daemon_set).get("minReadySeconds", 0))
    desired = current = wrong = ready = available = updated = 0
    for node, fit in fits.items():
        here = [pod for pod in placed.get(node, ()) if pods.is_active(pod)]
        if not fit.should_run:
            wrong += bool(here)
            continue
        desired += 1
        if not here:
            continue
        current += 1
        ready += any(pods.is_ready(pod) for pod in here)
        available += any(pods.is_available(pod, least, now) for pod in here)
        updated += any(pod.metadata.labels.get(HASH) == present for pod in here)
    result = {
        "currentNumberScheduled": current,
        "numberMisscheduled": wrong,
        "desiredNumberScheduled": desired,
        "numberReady": ready,
        "observedGeneration": plain.generation_of(daemon_set),
        "updatedNumberScheduled": updated,
        "numberAvailable": available,
        "numberUnavailable": desired - available,
    }
    always = {"currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"}
    return {key: value for key, value in result.items() if value or key in always}
