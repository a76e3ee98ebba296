"""Surge before evict: which pods are succeeded before they go, and how."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from karpenter.api.cluster import PodDisruptionBudget, PodDisruptionBudgetSpec
from karpenter.api.meta import LabelSelector, ObjectMeta, OwnerReference, Resource
from karpenter.api.workloads import (
    Deployment,
    DeploymentSpec,
    DeploymentStatus,
    ReplicaSet,
    RollingUpdate,
    UpdateStrategy,
)
from karpenter.core.disruption.surge import (
    RESTARTED,
    SUCCESSOR_TIMEOUT,
    adds_first,
    deployment_of,
    surge_step,
    surging_pods,
)
from karpenter.core.effects import Amend
from karpenter.core.state.pdb import PdbLimits
from tests.unit.core.disruption.clusters import NOW, cluster, decided, held, machine, pod, pool

if TYPE_CHECKING:
    from karpenter.core.state.cluster import ClusterView

MOMENT = timedelta(seconds=1)


def deployment(replicas: int | None = 1, **more: Any) -> Deployment:
    wanted = 1 if replicas is None else replicas
    rolling = {key: more.pop(key) for key in ("max_surge", "max_unavailable") if key in more}
    kind = more.pop("type", "RollingUpdate")
    update = RollingUpdate(**rolling) if rolling else None
    counts = {"replicas": wanted, "updated_replicas": wanted, "available_replicas": wanted}
    status = DeploymentStatus(**{**counts, "observed_generation": 3, **more.pop("status", {})})
    return Deployment(
        metadata=ObjectMeta(name="web", namespace="default", generation=3),
        spec=DeploymentSpec(
            replicas=replicas, strategy=UpdateStrategy(type=kind, rolling_update=update), **more
        ),
        status=status,
    )


def replica_set() -> ReplicaSet:
    """Return the set between a Deployment and its pods."""
    owner = OwnerReference(api_version="apps/v1", kind="Deployment", name="web", controller=True)
    return ReplicaSet(metadata=ObjectMeta(name="web", namespace="default", owner_references=(owner,)))


def budget() -> PodDisruptionBudget:
    spec = PodDisruptionBudgetSpec(max_unavailable=0, selector=LabelSelector(match_labels={"app": "web"}))
    return PodDisruptionBudget(metadata=ObjectMeta(name="web", namespace="default"), spec=spec)


def wasteful(*more: Resource, count: int = 1) -> ClusterView:
    """Return a large machine with few small pods of one Deployment."""
    pods = [pod(f"web-{number}", "node-1", labels={"app": "web"}) for number in range(count)]
    return cluster(pool(), machine("node-1", "xlarge"), *pods, *more)


def keys(view: ClusterView) -> frozenset[str]:
    """Return the pods that would be succeeded before they go."""
    return surging_pods(view.pods.values(), view, PdbLimits(view), NOW)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(deployment(), True, id="by default one replica is added before the old one goes"),
        pytest.param(deployment(None), True, id="no count means one replica"),
        pytest.param(deployment(3), True, id="of three replicas none may be missing by default"),
        pytest.param(deployment(4), False, id="of four replicas one may be missing by default"),
        pytest.param(deployment(4, max_unavailable=0), True, id="unless that is ruled out"),
        pytest.param(
            deployment(4, max_unavailable="0%", max_surge="1%"), True, id="shares of surge round up"
        ),
        pytest.param(deployment(max_surge=0), False, id="nothing may be added"),
        pytest.param(deployment(max_surge="lots"), False, id="a surge that cannot be read"),
        pytest.param(deployment(type="Recreate"), False, id="pods are recreated"),
        pytest.param(deployment(paused=True), False, id="it is paused"),
        pytest.param(deployment(0), False, id="it wants no pods"),
        pytest.param(deployment(0, max_surge=1), False, id="it wants no pods, and may add one"),
        pytest.param(deployment(status={"available_replicas": 0}), False, id="a rollout is under way"),
        pytest.param(
            deployment(status={"observed_generation": 2}), False, id="the last change was not observed yet"
        ),
    ],
)
def test_which_deployments_add_first(found: Deployment, expected: bool) -> None:
    """Only a rollout that adds a pod before it takes one away leaves no gap."""
    assert adds_first(found) is expected


@pytest.mark.parametrize(
    ("parts", "count", "expected"),
    [
        pytest.param([deployment(), replica_set()], 1, 1, id="a single replica"),
        pytest.param([deployment(2), replica_set()], 2, 0, id="of two replicas one can be missed"),
        pytest.param([deployment(2), replica_set(), budget()], 2, 2, id="unless a budget says no"),
        pytest.param([deployment()], 1, 0, id="its set is not known"),
        pytest.param([replica_set()], 1, 0, id="its Deployment is not known"),
    ],
)
def test_which_pods_are_succeeded_first(parts: list[Resource], count: int, expected: int) -> None:
    """Pods that must not be missed are, where their Deployment can add one first."""
    assert len(keys(wasteful(*parts, count=count))) == expected


def test_pods_of_others_belong_to_no_deployment() -> None:
    """A pod without an owner, or of a set that stands alone, is not succeeded."""
    lone = pod("lone-0", "node-1")
    lone = msgspec.structs.replace(lone, metadata=msgspec.structs.replace(lone.metadata, owner_references=()))
    free = ReplicaSet(metadata=ObjectMeta(name="free", namespace="default"))
    view = cluster(lone, free, pod("free-0", "node-1"))

    assert [deployment_of(each, view) for each in view.pods.values()] == [None, None]


def test_a_pod_that_leaves_is_not_succeeded() -> None:
    """What is on its way out needs no help."""
    view = wasteful(deployment(), replica_set())
    (only,) = view.pods.values()
    leaving = msgspec.structs.replace(
        only, metadata=msgspec.structs.replace(only.metadata, deletion_timestamp=NOW)
    )

    assert surging_pods([leaving], view, PdbLimits(view), NOW) == frozenset()


def test_a_budget_that_allows_nothing_no_longer_holds_a_machine() -> None:
    """With surge the machine goes, and its pods have places; without it the budget holds it."""
    view = wasteful(deployment(), replica_set(), budget())

    assert held(decided(view)) == {"node-1": "PodDisruptionBudget"}
    (command,) = decided(view, surge=True).commands
    assert command.candidates == ("node-1",)
    assert [node.pods for node in command.replacements] == [("default/web-0",)]


def test_deployments_are_asked_once_to_roll_out() -> None:
    """The first look asks; later ones wait until the old pods are gone."""
    view = wasteful(deployment(2), replica_set(), budget(), count=2)
    found = sorted(keys(view))

    first = surge_step(found, "node-1", view, {}, NOW)
    second = surge_step(found, "node-1", view, first.asked, NOW + MOMENT)
    after = surge_step(found, "node-1", cluster(), first.asked, NOW + MOMENT)

    (asked,) = first.effects
    assert isinstance(asked, Amend)
    assert (asked.kind, asked.namespace, asked.name) == ("Deployment", "default", "web")
    assert asked.changes["spec"]["template"]["metadata"]["annotations"] == {RESTARTED: "2026-03-02T12:00:00Z"}
    assert (first.waits, second.effects, second.waits, after.waits) == (True, (), True, False)


def test_successors_may_not_take_for_ever() -> None:
    """After a while a command is given up."""
    view = wasteful(deployment(), replica_set())
    begun = surge_step(keys(view), "node-1", view, {}, NOW)

    assert not surge_step(keys(view), "node-1", view, begun.asked, NOW + SUCCESSOR_TIMEOUT).late
    assert surge_step(keys(view), "node-1", view, begun.asked, NOW + SUCCESSOR_TIMEOUT + MOMENT).late
