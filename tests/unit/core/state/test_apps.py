"""Workloads as the pods they would make."""

from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.cluster import PriorityClass
from karpenter.api.meta import InvalidObject, Resource, convert
from karpenter.api.pod import Pod
from karpenter.api.storage import PersistentVolumeClaim
from karpenter.api.workloads import CronJob, DaemonSet, Deployment, Job, ReplicaSet, StatefulSet
from karpenter.core.state.apps import MAX_PODS, expand_workloads, with_priority
from karpenter_local.testing.builders import manifest_pod

GONE = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
TEMPLATE = {
    "metadata": {"labels": {"app": "web"}, "annotations": {"note": "x"}},
    "spec": {"containers": [{"name": "app"}]},
}


def workload(
    kind: type[Resource],
    name: str = "web",
    *,
    meta: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    **spec: object,
) -> Resource:
    """Return a workload from parts of its manifest."""
    plain = {
        "metadata": {"name": name, "namespace": "shop", "uid": "u-1", **(meta or {})},
        "spec": {"template": TEMPLATE, **spec},
        "status": status or {},
    }
    return convert(plain, kind)


def owned(kind: str, name: str, *, namespace: str = "shop", controller: bool = True) -> dict[str, Any]:
    """Return the metadata of an object that another owns."""
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "1", "controller": controller}
    return {"namespace": namespace, "ownerReferences": [owner]}


def made(*objects: Resource) -> list[str]:
    """Return the names of the pods and claims that expansion adds."""
    return [each.name for each in expand_workloads(objects)[len(objects) :]]


def schedule(name: str = "web", *, suspend: bool = False, **job: object) -> Resource:
    plain = {
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"suspend": suspend, "jobTemplate": {"spec": {"template": TEMPLATE, **job}}},
    }
    return convert(plain, CronJob)


@pytest.mark.parametrize(
    ("found", "count"),
    [
        pytest.param(workload(Deployment, replicas=3), 3, id="a Deployment has its replicas"),
        pytest.param(workload(Deployment), 1, id="a Deployment that does not say has one"),
        pytest.param(workload(Deployment, replicas=0), 0, id="a Deployment may be scaled to none"),
        pytest.param(workload(Deployment, replicas=-3), 0, id="a Deployment never has less than none"),
        pytest.param(
            workload(Deployment, replicas=3, meta=GONE), 0, id="what is being deleted makes no pods"
        ),
        pytest.param(workload(ReplicaSet, replicas=2), 2, id="a ReplicaSet on its own"),
        pytest.param(workload(StatefulSet, replicas=2), 2, id="a StatefulSet"),
        pytest.param(workload(DaemonSet), 0, id="a DaemonSet has pods where it has nodes"),
        pytest.param(workload(Job), 1, id="a Job runs one pod"),
        pytest.param(workload(Job, parallelism=3), 3, id="a Job runs as many as it says"),
        pytest.param(
            workload(Job, parallelism=5, completions=2), 2, id="but no more than it has to complete"
        ),
        pytest.param(
            workload(Job, parallelism=5, completions=6, status={"succeeded": 4}),
            2,
            id="nor than it has left to complete",
        ),
        pytest.param(workload(Job, parallelism=0), 0, id="a Job may be held at none"),
        pytest.param(workload(Job, suspend=True), 0, id="a suspended Job runs none"),
        pytest.param(
            workload(Job, status={"completionTime": "2026-01-01T00:00:00Z"}), 0, id="a complete Job runs none"
        ),
        pytest.param(schedule(parallelism=2), 2, id="a CronJob has the pods of one run"),
        pytest.param(schedule(parallelism=2, completions=1), 1, id="no more than a run has to complete"),
        pytest.param(schedule(suspend=True), 0, id="a suspended CronJob starts nothing"),
        pytest.param(manifest_pod("web", namespace="shop"), 0, id="a pod is a pod"),
    ],
)
def test_counts(found: Resource, count: int) -> None:
    """A workload without pods is expanded to as many as it asks for now."""
    assert made(found) == [f"web-{number}" for number in range(count)]


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param(
            [
                workload(Deployment, replicas=3),
                manifest_pod("web-a-1", namespace="shop", meta=owned("ReplicaSet", "web-a")),
            ],
            id="a Deployment, through its ReplicaSet",
        ),
        pytest.param(
            [
                workload(ReplicaSet, replicas=3),
                manifest_pod("x", namespace="shop", meta=owned("ReplicaSet", "web")),
            ],
            id="a ReplicaSet",
        ),
        pytest.param(
            [workload(Job), manifest_pod("x", namespace="shop", meta=owned("Job", "web"))], id="a Job"
        ),
        pytest.param(
            [schedule(), manifest_pod("x", namespace="shop", meta=owned("Job", "web-123"))],
            id="a CronJob, through its Job",
        ),
    ],
)
def test_a_workload_with_pods_speaks_for_itself(objects: list[Resource]) -> None:
    """Pods that are there say how many there are."""
    assert made(*objects) == []


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(
            manifest_pod("x", namespace="shop", meta=owned("ReplicaSet", "shop-a")), id="of another workload"
        ),
        pytest.param(
            manifest_pod("x", namespace="shop", meta=owned("ReplicaSet", "web-a", namespace="other")),
            id="of another namespace",
        ),
        pytest.param(manifest_pod("x", namespace="shop", meta=owned("Job", "web-a")), id="of another kind"),
        pytest.param(manifest_pod("web-0", namespace="shop"), id="without an owner"),
    ],
)
def test_pods_of_others_do_not_count(other: Pod) -> None:
    """Only its own pods speak for a workload."""
    assert made(workload(Deployment), other) == ["web-0"]


def test_what_a_workload_made_is_not_expanded_again() -> None:
    """A ReplicaSet of a Deployment that is there adds no pods of its own."""
    between = workload(ReplicaSet, "web-a", replicas=2, meta=owned("Deployment", "web"))

    assert made(workload(Deployment, replicas=2), between) == ["web-0", "web-1"]


def test_what_something_unknown_made_is_expanded() -> None:
    """A ReplicaSet speaks for itself when whoever made it is not there."""
    assert made(workload(ReplicaSet, replicas=1, meta=owned("Rollout", "web"))) == ["web-0"]


def test_an_owner_that_is_no_controller_does_not_speak() -> None:
    """Only a controller makes pods."""
    other = workload(ReplicaSet, "other", replicas=1, meta=owned("Deployment", "web", controller=False))

    assert made(workload(Deployment, replicas=0), other) == ["other-0"]


def test_pods_look_like_the_template() -> None:
    """A pod has the template's labels, annotations and spec, and says who owns it."""
    found = expand_workloads([workload(Deployment)])[1]
    assert isinstance(found, Pod)
    owner = found.metadata.owner_references[0]

    assert (found.key, found.metadata.labels, found.metadata.annotations, found.spec.containers[0].name) == (
        "shop/web-0",
        {"app": "web"},
        {"note": "x"},
        "app",
    )
    assert (owner.api_version, owner.kind, owner.name, owner.uid, owner.controller) == (
        "apps/v1",
        "Deployment",
        "web",
        "u-1",
        True,
    )


def test_pods_of_a_workload_share_their_spec() -> None:
    """A thousand replicas cost one spec."""
    _, *pods = expand_workloads([workload(Deployment, replicas=3)])

    assert len({id(each.spec) for each in pods if isinstance(each, Pod)}) == 1


CLAIMED: dict[str, Any] = {
    "replicas": 2,
    "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"storageClassName": "fast"}}],
}


def test_stateful_pods_claim_their_volumes() -> None:
    """Each pod of a StatefulSet mounts a claim of its own per template, which is made if it is not there."""
    there = convert({"metadata": {"name": "data-web-0", "namespace": "shop"}}, PersistentVolumeClaim)
    _, _, *found = expand_workloads([workload(StatefulSet, **CLAIMED), there])
    volumes = [
        volume.persistent_volume_claim.claim_name
        for each in found
        if isinstance(each, Pod)
        for volume in each.spec.volumes
        if volume.persistent_volume_claim is not None
    ]

    assert ([each.name for each in found], volumes) == (
        ["web-0", "data-web-1", "web-1"],
        ["data-web-0", "data-web-1"],
    )


def test_claims_are_made_as_the_template_says() -> None:
    """A claim that is made has the namespace of its StatefulSet and the spec of its template."""
    found = next(
        each for each in expand_workloads([workload(StatefulSet, **CLAIMED)]) if each.name == "data-web-0"
    )
    assert isinstance(found, PersistentVolumeClaim)

    assert (found.namespace, found.spec.storage_class_name) == ("shop", "fast")


def test_a_claim_takes_the_place_of_a_volume_of_its_name() -> None:
    """A volume of the template gives way to the claim that is named like it; others stay."""
    template = {"spec": {"volumes": [{"name": "data"}, {"name": "logs"}]}}
    found = expand_workloads([workload(StatefulSet, **{**CLAIMED, "template": template})])[-1]
    assert isinstance(found, Pod)

    assert [v.name for v in found.spec.volumes if v.persistent_volume_claim is None] == ["logs"]


@pytest.mark.parametrize(
    ("counts", "refused"),
    [
        pytest.param([10**12], "would make 1000000000000 pods", id="one workload"),
        pytest.param([1, MAX_PODS], f"would make {MAX_PODS} pods", id="several workloads together"),
    ],
)
def test_too_many_pods_are_refused(counts: list[int], refused: str) -> None:
    """No manifest makes us fill the memory with pods; the workload that does is named."""
    objects = [workload(Deployment, f"web-{n}", replicas=count) for n, count in enumerate(counts)]

    with pytest.raises(InvalidObject, match=f"^Deployment/shop/web-{len(counts) - 1}: {refused}"):
        expand_workloads(objects)


def test_as_many_pods_as_are_allowed_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is for all workloads together, and may be reached."""
    monkeypatch.setattr("karpenter.core.state.apps.MAX_PODS", 5)
    objects = [workload(Deployment, name, replicas=count) for name, count in (("a", 2), ("b", 3))]

    assert sum(isinstance(each, Pod) for each in expand_workloads(objects)) == 5


def priority(name: str, value: int, *, default: bool = False) -> dict[str, PriorityClass]:
    plain = {"metadata": {"name": name}, "value": value, "globalDefault": default}
    return {name: convert(plain, PriorityClass)}


@pytest.mark.parametrize(
    ("spec", "classes", "expected"),
    [
        pytest.param({"priority": 5, "priorityClassName": "high"}, priority("high", 9), 5, id="its own"),
        pytest.param({"priorityClassName": "high"}, priority("high", 9), 9, id="that of its class"),
        pytest.param({"priorityClassName": "high"}, {}, None, id="none when its class is not there"),
        pytest.param(
            {"priorityClassName": "high"},
            priority("x", 7, default=True),
            None,
            id="not that of another class",
        ),
        pytest.param({}, priority("x", 7, default=True), 7, id="that of the default class"),
        pytest.param({}, priority("x", 7), None, id="none when no class is the default"),
        pytest.param(
            {"priorityClassName": "system-node-critical"}, {}, 2_000_001_000, id="a class every cluster has"
        ),
        pytest.param(
            {"priorityClassName": "system-cluster-critical"}, {}, 2_000_000_000, id="another such class"
        ),
    ],
)
def test_priority(spec: dict[str, Any], classes: dict[str, PriorityClass], expected: int | None) -> None:
    """A pod gets the priority that an API server would have given it."""
    found = with_priority(convert({"metadata": {"name": "x"}, "spec": spec}, Pod), classes)

    assert found.spec.priority == expected
