"""Capacity buffers: room for pods that do not exist yet."""

from __future__ import annotations

from typing import Any

import pytest

from karpenter.api import labels
from karpenter.api.capacitybuffer import CapacityBuffer
from karpenter.api.meta import Resource, convert
from karpenter.api.pod import Pod, PodTemplate
from karpenter.api.workloads import Deployment, ReplicaSet, StatefulSet
from karpenter.core.scheduling.build.virtualpods import (
    MAX_BUFFER_PODS,
    buffer_problem,
    buffer_replicas,
    is_virtual,
    virtual_pods,
)
from karpenter.core.state.cluster import view_of

TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {
        "nodeName": "node-1",
        "priority": 7,
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        "containers": [{"name": "app", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}],
    },
}


def buffer(**spec: object) -> CapacityBuffer:
    meta = {"name": "spare", "namespace": "shop", "uid": "u"}
    return convert({"metadata": meta, "spec": spec}, CapacityBuffer)


def by_workload(
    kind: str = "Deployment", group: str = "apps", name: str = "web", **spec: object
) -> CapacityBuffer:
    return buffer(scalableRef={"apiGroup": group, "kind": kind, "name": name}, **spec)


def by_template(**spec: object) -> CapacityBuffer:
    """Return a buffer that is measured by a pod template."""
    return buffer(podTemplateRef={"name": "web"}, **spec)


def workload(kind: type[Resource] = Deployment, replicas: int | None = 10) -> Resource:
    spec = {"template": TEMPLATE, "replicas": replicas}
    return convert({"metadata": {"name": "web", "namespace": "shop"}, "spec": spec}, kind)


def template(**containers: str) -> PodTemplate:
    """Return a pod template, perhaps with other requests."""
    spec = (
        {"containers": [{"name": "app", "resources": {"requests": containers}}]}
        if containers
        else TEMPLATE["spec"]
    )
    plain = {"metadata": {"name": "web", "namespace": "shop"}, "template": {**TEMPLATE, "spec": spec}}
    return convert(plain, PodTemplate)


@pytest.mark.parametrize(
    ("found", "measure", "count"),
    [
        pytest.param(by_template(replicas=3), template(), 3, id="so many pods of a template"),
        pytest.param(by_workload(replicas=3, percentage=20), workload(), 3, id="replicas above the share"),
        pytest.param(by_workload(replicas=1, percentage=50), workload(), 5, id="a share above the replicas"),
        pytest.param(by_workload(percentage=20), workload(), 2, id="a share of the workload"),
        pytest.param(by_workload(percentage=15), workload(), 2, id="a share is rounded up"),
        pytest.param(by_workload(percentage=10), workload(replicas=101), 11, id="ten of a hundred and one"),
        pytest.param(by_workload(percentage=1), workload(), 1, id="a share is at least one"),
        pytest.param(
            by_template(replicas=2, limits={"memory": "8Gi", "cpu": "8"}),
            template(cpu="1", memory="0"),
            2,
            id="what is not asked for is not limited",
        ),
        pytest.param(by_workload(percentage=50), workload(replicas=0), 0, id="no share of nothing"),
        pytest.param(by_workload(percentage=0), workload(), 0, id="no share"),
        pytest.param(
            by_workload(percentage=100), workload(replicas=None), 1, id="a workload that does not say has one"
        ),
        pytest.param(
            by_workload(replicas=1, percentage=50, limits={"cpu": "2"}),
            workload(),
            4,
            id="limits hold it down",
        ),
        pytest.param(by_template(replicas=2, limits={"cpu": "8"}), template(), 2, id="limits never lift it"),
        pytest.param(
            by_template(limits={"cpu": "2", "memory": "3Gi"}),
            template(),
            3,
            id="limits alone, the tightest counts",
        ),
        pytest.param(
            by_template(limits={"example.com/gpu": "3"}), template(), 0, id="limits on what no pod asks for"
        ),
        pytest.param(
            by_template(replicas=2, limits={"example.com/gpu": "0"}),
            template(),
            2,
            id="limits on what no pod asks for limit nothing",
        ),
        pytest.param(by_template(limits={"cpu": "-2"}), template(), 0, id="limits below zero leave no room"),
        pytest.param(
            by_template(limits={"pods": "2"}), template(cpu="0"), 2, id="limits on the number of pods"
        ),
        pytest.param(by_template(), template(), 0, id="nothing is asked for"),
        pytest.param(by_workload("StatefulSet", replicas=1), workload(StatefulSet), 1, id="a StatefulSet"),
        pytest.param(by_workload("ReplicaSet", replicas=1), workload(ReplicaSet), 1, id="a ReplicaSet"),
        pytest.param(by_workload(group="", replicas=1), workload(), 1, id="a workload without a group"),
    ],
)
def test_how_many(found: CapacityBuffer, measure: Resource, count: int) -> None:
    """Room is kept for the larger of a number and a share, within limits."""
    view = view_of([found, measure])

    assert (len(virtual_pods(view)), buffer_problem(found, view)) == (count, "")


@pytest.mark.parametrize(
    ("found", "objects", "sentence"),
    [
        pytest.param(by_template(replicas=1), [], "PodTemplate shop/web does not exist", id="no template"),
        pytest.param(by_workload(replicas=1), [], "Deployment shop/web does not exist", id="no workload"),
        pytest.param(
            buffer(replicas=1), [], "it names neither a podTemplateRef nor a scalableRef", id="no reference"
        ),
        pytest.param(
            by_workload("Thing", replicas=1),
            [],
            "apps/Thing is no workload: expected one of Deployment, StatefulSet, ReplicaSet of apps",
            id="a kind that is no workload",
        ),
        pytest.param(
            by_workload(group="example.com", replicas=1),
            [workload()],
            "example.com/Deployment is no workload: expected one of Deployment, StatefulSet, ReplicaSet",
            id="a group that is not ours",
        ),
        pytest.param(
            by_template(limits={"cpu": "lots"}),
            [template()],
            "resource 'cpu': 'lots' is not a quantity",
            id="a limit that cannot be read",
        ),
        pytest.param(
            by_template(limits={"cpu": "1"}),
            [template(cpu="lots")],
            "container 'app': resource 'cpu': 'lots' is not a quantity",
            id="a template that cannot be read",
        ),
        pytest.param(
            by_template(replicas=10**9),
            [template()],
            f"it asks for room for 1000000000 pods: expected at most {MAX_BUFFER_PODS}",
            id="more pods than anyone keeps room for",
        ),
    ],
)
def test_buffers_that_keep_no_room(found: CapacityBuffer, objects: list[Resource], sentence: str) -> None:
    """A buffer that cannot be understood keeps no room, and says why."""
    view = view_of([found, *objects])

    assert virtual_pods(view) == ()
    assert buffer_problem(found, view).startswith(sentence)


def test_as_many_pods_as_a_buffer_may_have() -> None:
    """The most that is allowed may be asked for."""
    most = by_template(replicas=MAX_BUFFER_PODS)

    assert buffer_replicas(most, template().template, None) == MAX_BUFFER_PODS
    assert buffer_problem(most, view_of([template()])) == ""


def test_virtual_pods() -> None:
    """A virtual pod looks like the template, has no node, no volumes and the lowest priority."""
    first, second = virtual_pods(view_of([by_template(replicas=2), template()]))

    assert (first.key, first.metadata.uid, second.name) == (
        "shop/capacity-buffer-spare-1",
        "u-1",
        "capacity-buffer-spare-2",
    )
    assert (first.metadata.labels, first.metadata.annotations) == (
        {"app": "web"},
        {
            labels.BUFFER_FAKE_POD: "true",
            labels.BUFFER_NAME: "spare",
            labels.BUFFER_NAMESPACE: "shop",
        },
    )
    assert (first.spec.node_name, first.spec.volumes, first.spec.priority, first.spec is second.spec) == (
        "",
        (),
        -(2**31),
        True,
    )


def test_virtual_pods_are_told_apart() -> None:
    """Pods that only stand for room carry a mark; no others do."""
    (virtual,) = virtual_pods(view_of([by_template(replicas=1), template()]))

    assert (is_virtual(virtual), is_virtual(Pod())) == (True, False)
