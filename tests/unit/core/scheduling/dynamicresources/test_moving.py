"""Pods with devices that move: a cluster taken in, machines left out, and the claims served anew."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from karpenter.api.dra import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from karpenter.api.labels import (
    ARCH,
    CAPACITY_TYPE,
    INITIALIZED,
    INSTANCE_TYPE,
    NODEPOOL,
    OS,
    REGISTERED,
    ZONE,
)
from karpenter.api.meta import Resource, convert
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodeoverlay import NodeOverlay
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Pod
from karpenter.core.model.catalog import Catalog
from karpenter.core.scheduling.build.build import assemble
from karpenter.core.scheduling.build.policy import SchedulingPolicy
from karpenter.core.scheduling.problem import Options
from karpenter.core.scheduling.solve import solve
from karpenter.core.state.cluster import view_of
from karpenter.core.state.statenode import state_nodes
from karpenter_local.testing.builders import instance_type
from karpenter_local.testing.cluster_problem import build_problem
from tests.unit.core.scheduling.dynamicresources.clusters import outcome
from tests.unit.core.scheduling.dynamicresources.hardware import DRIVER, exactly, gpu, templates

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
POLICY = SchedulingPolicy(ignore_device_claims=False)
BIG = msgspec.structs.replace(instance_type("big", price=5.0), devices=templates(gpu("gpu-0")))
CATALOG = Catalog(types=(instance_type("plain", price=1.0), BIG))
CLASS_REF = {"group": "karpenter.test", "kind": "TestClass", "name": "default"}
NEEDED: list[Resource] = [
    convert({"metadata": {"name": "gpu"}}, DeviceClass),
    convert(
        {
            "metadata": {"name": "default"},
            "spec": {"template": {"spec": {"nodeClassRef": CLASS_REF, "requirements": []}}},
        },
        NodePool,
    ),
    convert(
        {
            "metadata": {"name": "one", "namespace": "default"},
            "spec": {"spec": {"devices": {"requests": [exactly()]}}},
        },
        ResourceClaimTemplate,
    ),
]


def machine(name: str, *devices: str) -> list[Resource]:
    """Return a machine of ours with devices, complete and published."""
    labels = {
        NODEPOOL: "default",
        INSTANCE_TYPE: "big",
        REGISTERED: "true",
        INITIALIZED: "true",
        ZONE: "zone-1",
        CAPACITY_TYPE: "on-demand",
        ARCH: "amd64",
        OS: "linux",
    }
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    spec: dict[str, Any] = {
        "driver": DRIVER,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
        "nodeName": name,
        "devices": [gpu(each) for each in devices],
    }
    return [
        convert(
            {
                "metadata": {"name": name, "labels": labels},
                "spec": {"providerID": name},
                "status": {"capacity": room, "allocatable": room},
            },
            Node,
        ),
        convert(
            {
                "metadata": {"name": name, "labels": labels},
                "spec": {"nodeClassRef": CLASS_REF, "requirements": []},
                "status": {"providerID": name, "nodeName": name},
            },
            NodeClaim,
        ),
        convert({"metadata": {"name": name}, "spec": spec}, ResourceSlice),
    ]


def running(name: str, on: str, device: str) -> list[Resource]:
    """Return a pod on a machine, and the claim that was made and served for it."""
    selector = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [on]}]}
    plain: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {
            "nodeName": on,
            "containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
        },
        "status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]},
    }
    given = [{"driver": DRIVER, "pool": on, "device": device, "request": "gpu"}]
    claim: dict[str, Any] = {
        "metadata": {"name": f"{name}-gpu", "namespace": "default"},
        "spec": {"devices": {"requests": [exactly()]}},
        "status": {
            "allocation": {
                "devices": {"results": given},
                "nodeSelector": {"nodeSelectorTerms": [selector]},
            },
            "reservedFor": [{"resource": "pods", "name": name, "uid": name}],
        },
    }
    return [convert(plain, Pod), convert(claim, ResourceClaim)]


def move(*objects: Resource, away_from: str) -> dict[str, str]:
    """Return where the pods of a machine go when it does."""
    view = view_of([*NEEDED, *objects])
    built = assemble(
        view,
        CATALOG,
        nodes=state_nodes(view),
        pods=view.pods_by_node[away_from],
        options=Options(packing="greedy"),
        policy=POLICY,
        without=frozenset({away_from}),
    )
    return outcome(solve(built.problem))


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        pytest.param([], "n1", id="to a free device elsewhere"),
        pytest.param(
            running("other", "n1", "a"), "default-1:big", id="to a new machine where all others are taken"
        ),
    ],
)
def test_moving_a_pod_with_devices(others: list[Resource], expected: str) -> None:
    """A claim that moves with its pod is served anew; what others hold stays theirs."""
    found = move(
        *machine("n1", "a"), *machine("n2", "b"), *running("web", "n2", "b"), *others, away_from="n2"
    )

    assert found == {"web": expected}


def test_a_pod_that_waits_keeps_what_it_has() -> None:
    """A claim that was served for a pod which is not bound yet pins the pod to its node."""
    (pod, claim) = running("web", "n2", "b")
    assert isinstance(pod, Pod)
    waiting = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=""))
    view = view_of([*NEEDED, *machine("n1", "a"), *machine("n2", "b"), waiting, claim])
    built = build_problem(view, CATALOG, now=NOON, options=Options(), policy=POLICY)

    assert outcome(solve(built.problem)) == {"web": "n2"}


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(
            SchedulingPolicy(ignore_device_claims=False, reserved_capacity=False),
            id="without reserved capacity",
        ),
        pytest.param(SchedulingPolicy(ignore_device_claims=False, overlays=True), id="with an overlay"),
    ],
)
def test_what_types_bring_along_is_never_lost(policy: SchedulingPolicy) -> None:
    """However the catalogue is corrected, machines keep the devices that they will have."""
    plain = {"metadata": {"name": "o"}, "spec": {"requirements": [], "priceAdjustment": "+10%", "weight": 1}}
    (pod, _) = running("web", "", "b")
    assert isinstance(pod, Pod)
    waiting = msgspec.structs.replace(pod, status=type(pod.status)())
    view = view_of([*NEEDED, convert(plain, NodeOverlay), waiting])
    built = build_problem(view, CATALOG, now=NOON, options=Options(), policy=policy)

    assert outcome(solve(built.problem)) == {"web": "default-1:big"}


def test_devices_that_no_pod_claims_cost_nothing() -> None:
    """A cluster full of devices makes no difference to pods without claims."""
    (pod, _) = running("web", "", "b")
    assert isinstance(pod, Pod)
    plain = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, resource_claims=()))
    view = view_of([*NEEDED, *machine("n1", "a"), plain])
    built = build_problem(view, CATALOG, now=NOON, options=Options(), policy=POLICY)

    assert built.problem.devices is None
