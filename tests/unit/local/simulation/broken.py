"""Simulated clusters that do not run, with objects that an invariant must not accept."""

from __future__ import annotations

import asyncio
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from karpenter.api.cluster import PodDisruptionBudget
from karpenter.api.meta import Resource
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.cloud.cloudprovider import Machine
from karpenter.cloud.kwok.cloud import KwokInstance
from karpenter.kube.targets import target_of
from karpenter.kube.transport import Request, Response, Transport
from karpenter_local.sandbox.operators import REPLICA as ACTING
from karpenter_local.sandbox.operators import Replica
from karpenter_local.simulation.cluster import CLUSTER, FaultySeams, SimulatedCluster
from karpenter_local.simulation.invariants.invariant import Invariant, ViolationLog
from karpenter_local.simulation.mirror import ObjectWrite
from karpenter_local.testing.builders import manifest_pod
from karpenter_local.virtual import run_virtual

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from karpenter.api.pod import Pod

    Scene = Callable[[SimulatedCluster, Invariant], Coroutine[Any, Any, None] | None]

R = TypeVar("R", bound=Resource)

CLASS = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
LATER = "2025-01-01T00:00:00Z"


LONG = 10.0
"""Seconds after which an operator knows what has happened."""

REPLICA = "one"
"""The name of the operator that :func:`operator` lets run."""


def found(invariant: type[Invariant], scene: Scene) -> list[str]:
    """Return what an invariant finds wrong with a scene, at once or in the end."""

    async def main() -> list[str]:
        cluster = SimulatedCluster(seed=1)
        violations = ViolationLog(cluster.clock)
        judge = invariant(cluster, violations)
        going = scene(cluster, judge)
        if going is not None:
            await going
        return [each.what for each in violations.found] + list(judge.unsettled())

    return run_virtual(main())


def operator(cluster: SimulatedCluster) -> None:
    """Let an operator run that knows everything."""
    seams = FaultySeams(
        cast("Transport", None),
        clock=cluster.clock,
        chance=Random(1),  # noqa: S311  chance of a test
        on_write=lambda _request, _response: None,
        cloud=cluster.cloud,
    )
    known = ("pods", "nodes", "nodeclaims", "poddisruptionbudgets")
    seams.transport.seen.update(dict.fromkeys(known, 10**9))
    seams.transport.began.update(dict.fromkeys(known, -1.0))
    cluster.replicas.append(cast("Replica", SimpleNamespace(name=REPLICA, seams=seams)))


def wrote(
    cluster: SimulatedCluster, judge: Invariant, before: Resource | None, after: Resource | None, by: str = ""
) -> None:
    """Let an object be written, by the operator if it is named."""
    write = ObjectWrite(before, after, revision=1, by=by)
    cluster.history.on_write(write)
    judge.on_write(write)


async def asked_to_leave(
    cluster: SimulatedCluster,
    judge: Invariant,
    call: tuple[str, str],
    on: str = "",
    *,
    kept: bool = False,
    after: float = LONG,
    told: bool = True,
) -> None:
    """Let the operator call for the pod web to leave, a while after the pod came; it was told or not."""
    operator(cluster)
    if not told:
        seams = cluster.seams_of(REPLICA)
        assert seams is not None
        seams.transport.seen["pods"] = 0
    before = pod(cluster, "web", on=on, kept=kept)
    wrote(cluster, judge, None, before)
    await asyncio.sleep(after)
    wrote(cluster, judge, before, pod(cluster, "web", on=on, kept=kept, leaving=True))
    token = ACTING.set(REPLICA)
    judge.on_call(*asked(*call))
    ACTING.reset(token)


def machine(
    cluster: SimulatedCluster, name: str, *, cores: int = 4, pool: str = "default", claim: str = ""
) -> None:
    """Let there be a machine, for a claim of its name unless another is given."""
    made = Machine(
        provider_id=f"kwok://{name}",
        claim_uid=claim or name,
        labels={"karpenter.sh/nodepool": pool},
        capacity={"cpu": cores * 1000},
        allocatable={"cpu": cores * 1000},
    )
    instance = KwokInstance(machine=made, cluster=CLUSTER, node=node(cluster, name, seen=False))
    cluster.sandbox.kwok.cloud.add(instance)


def claim(
    cluster: SimulatedCluster,
    name: str,
    *conditions: str,
    reason: str = "",
    kind: str = "c-1x-amd64-linux",
    leaving: bool = False,
    **spec: Any,
) -> NodeClaim:
    """Let there be a claim with a machine's id, and with conditions that hold."""
    labels = {
        "karpenter.sh/nodepool": "default",
        "node.kubernetes.io/instance-type": kind,
        "topology.kubernetes.io/zone": "test-zone-a",
        "karpenter.sh/capacity-type": "on-demand",
    }
    condition_set = [{"type": each, "status": "True", "reason": each} for each in conditions]
    if reason:
        condition_set.append({"type": "DisruptionReason", "status": "True", "reason": reason})
    made = _read(
        NodeClaim,
        {
            "metadata": _meta(name, labels=labels, leaving=leaving),
            "spec": {"nodeClassRef": CLASS, "expireAfter": "Never", **spec},
            "status": {"providerID": f"kwok://{name}", "conditions": condition_set},
        },
    )
    cluster.mirror.claims[name] = made
    return made


def node(
    cluster: SimulatedCluster,
    name: str,
    *,
    leaving: bool = False,
    closed: bool = False,
    seen: bool = True,
    taints: tuple[str, ...] = (),
    **metadata: Any,
) -> Node:
    keys = (*taints, *(["karpenter.sh/disrupted"] if closed else []))
    made = _read(
        Node,
        {
            "metadata": {**_meta(name, leaving=leaving), **metadata},
            "spec": {
                "providerID": f"kwok://{name}",
                "taints": [{"key": key, "effect": "NoSchedule"} for key in keys],
            },
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        },
    )
    if seen:
        cluster.mirror.nodes[name] = made
    return made


def pool(
    cluster: SimulatedCluster,
    *,
    budget: str = "100%",
    cores: int = 0,
    after: str = "0s",
    labels: dict[str, str] | None = None,
    **more: Any,
) -> NodePool:
    """Let there be the pool called default, whose nodes have `labels` and whose budget has `more` fields."""
    spec: dict[str, Any] = {
        "template": {
            "metadata": {"labels": labels or {}},
            "spec": {"nodeClassRef": CLASS, "requirements": [], "expireAfter": "Never"},
        },
        "disruption": {"consolidateAfter": after, "budgets": [{"nodes": budget, **more}]},
    }
    if cores:
        spec["limits"] = {"cpu": str(cores)}
    made = _read(NodePool, {"metadata": _meta("default"), "spec": spec})
    cluster.mirror.pools["default"] = made
    return made


def pod(
    cluster: SimulatedCluster,
    name: str,
    *,
    on: str = "",
    phase: str = "Running",
    kept: bool = False,
    selector: dict[str, str] | None = None,
    leaving: bool = False,
    affinity: dict[str, Any] | None = None,
    spread: list[dict[str, Any]] | None = None,
    keep_for: str = "",
    **spec: Any,
) -> Pod:
    """Let there be a pod of the workload called app, ready if it runs; it has just started."""
    notes = {"karpenter.sh/do-not-disrupt": keep_for or "true"} if kept or keep_for else {}
    started = cluster.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = [{"type": "Ready", "status": "True"}] if phase == "Running" else []
    made = manifest_pod(
        name,
        node=on,
        cpu="2",
        meta={**_meta(name, labels={"app": "app"}, leaving=leaving), "annotations": notes},
        status={"phase": phase, "conditions": ready, **({"startTime": started} if on else {})},
        nodeSelector=selector or {},
        affinity=affinity,
        topologySpreadConstraints=spread or [],
        **spec,
    )
    cluster.mirror.pods[f"default/{name}"] = made
    return made


def budget(cluster: SimulatedCluster, *, least: int, allowed: int = 0) -> None:
    """Let there be a disruption budget for the workload called app."""
    cluster.mirror.budgets["default/app"] = _read(
        PodDisruptionBudget,
        {
            "metadata": {**_meta("app"), "namespace": "default"},
            "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": "app"}}},
            "status": {"disruptionsAllowed": allowed},
        },
    )


def asked(method: str, path: str, status: int = 200) -> tuple[Request, Response]:
    """Return a request of the operator and its answer."""
    return Request(method=method, path=path), Response(status=status)


def _meta(name: str, *, labels: dict[str, str] | None = None, leaving: bool = False) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name, "uid": name, "labels": labels or {}}
    made["creationTimestamp"] = LATER
    if leaving:
        made["deletionTimestamp"] = LATER
    return made


def _read(kind: type[R], plain: dict[str, Any]) -> R:
    return target_of(kind).read(msgspec.json.encode(plain))
