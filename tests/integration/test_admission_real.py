"""The chart's admission policies on the real API server: what the operator's account may still change."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from karpenter.api.pod import Pod
from karpenter.api.workloads import Deployment
from karpenter.chart.chart import manifests
from karpenter.chart.tree import Release
from karpenter.chart.values import values_of
from karpenter.install.kubernetes import target_for
from karpenter.kube.errors import Forbidden, KubeError
from karpenter.kube.patches import MergePatch
from karpenter_local.controlplane import RealControlPlane, find_binaries
from tests.integration.process import connected
from tests.integration.test_permissions_real import token_of_the_account, with_token

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from karpenter.kube.client import Client

REAL_TIME = True
pytestmark = pytest.mark.controlplane

SETTINGS = {"clusterName": "test", "cloudProvider": "kwok", "steerScaleDown": True, "surgeBeforeEvict": True}
OWNER = {"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "a"}


def template(**more: Any) -> dict[str, Any]:
    """Return a change of a Deployment's pod template."""
    return {"spec": {"template": more}}


def notes(**more: Any) -> dict[str, Any]:
    return {"metadata": {"annotations": {key.replace("__", "/"): value for key, value in more.items()}}}


COST = {"controller.kubernetes.io/pod-deletion-cost": "-8", "karpenter.sh/deletion-cost-set": "-8"}
ALLOWED: dict[str, tuple[type, dict[str, Any]]] = {
    "the deletion cost of a pod": (Pod, {"metadata": {"annotations": COST}}),
    "another deletion cost": (Pod, {"metadata": {"annotations": dict.fromkeys(COST, "-1")}}),
    "no deletion cost": (Pod, {"metadata": {"annotations": dict.fromkeys(COST)}}),
    "a restart of a Deployment": (
        Deployment,
        template(metadata={"annotations": {"karpenter.sh/restarted-at": "2026-01-01T00:00:00Z"}}),
    ),
    "another restart": (
        Deployment,
        template(metadata={"annotations": {"karpenter.sh/restarted-at": "2026-01-02T00:00:00Z"}}),
    ),
}
REFUSED: dict[str, tuple[type, dict[str, Any]]] = {
    "the image of a pod": (Pod, {"spec": {"containers": [{"name": "main", "image": "evil"}]}}),
    "the image beside the deletion cost": (
        Pod,
        {"metadata": {"annotations": COST}, "spec": {"containers": [{"name": "main", "image": "evil"}]}},
    ),
    "the deadline of a pod": (Pod, {"spec": {"activeDeadlineSeconds": 9}}),
    "the labels of a pod": (Pod, {"metadata": {"labels": {"app": "other"}}}),
    "the finalizers of a pod": (Pod, {"metadata": {"finalizers": ["example.com/a"]}}),
    "another annotation of a pod": (Pod, notes(example="evil")),
    "a new annotation of a pod": (Pod, notes(more="evil")),
    "the end of another annotation": (Pod, notes(example=None)),
    "the replicas of a Deployment": (Deployment, {"spec": {"replicas": 9}}),
    "whether it is paused": (Deployment, {"spec": {"paused": True}}),
    "its strategy": (Deployment, {"spec": {"strategy": {"type": "Recreate", "rollingUpdate": None}}}),
    "its history": (Deployment, {"spec": {"revisionHistoryLimit": 0}}),
    "its readiness": (Deployment, {"spec": {"minReadySeconds": 9}}),
    "its deadline": (Deployment, {"spec": {"progressDeadlineSeconds": 999}}),
    "the image of its pods": (
        Deployment,
        template(spec={"containers": [{"name": "main", "image": "evil"}]}),
    ),
    "the labels of its pods": (Deployment, template(metadata={"labels": {"more": "evil"}})),
    "another annotation of its pods": (Deployment, template(metadata={"annotations": {"more": "evil"}})),
    "its own annotations": (Deployment, notes(more="evil")),
    "its own labels": (Deployment, {"metadata": {"labels": {"more": "evil"}}}),
    "the owners of a pod": (Pod, {"metadata": {"ownerReferences": [OWNER]}}),
}


async def populate(client: Client) -> None:
    """Install the policies and the rights that they narrow, with a pod and a Deployment to change."""
    release = Release(namespace="kube-system", values=values_of([{"settings": SETTINGS}], []))
    for each in manifests(release, definitions=False):
        if each["kind"] not in {"Deployment", "Service", "PodDisruptionBudget"}:
            await client.apply(target_for(each["apiVersion"], each["kind"]), each)
    labels = {"app": "web"}
    pod = {"containers": [{"name": "main", "image": "pause"}]}
    named = {"name": "web", "labels": labels, "annotations": {"example": "kept"}}
    await client.create(Pod, {"metadata": named, "spec": pod}, namespace="default")
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    await client.create(Deployment, {"metadata": named, "spec": spec}, namespace="default")


ALLOWED_STATUS: dict[str, dict[str, Any]] = {
    "a nominated node": {"status": {"nominatedNodeName": "node-1"}},
    "another nominated node": {"status": {"nominatedNodeName": "node-2"}},
    "no nominated node": {"status": {"nominatedNodeName": None}},
}
REFUSED_STATUS: dict[str, dict[str, Any]] = {
    "the phase of a pod": {"status": {"phase": "Failed"}},
    "the phase beside the nominated node": {"status": {"phase": "Failed", "nominatedNodeName": "node-1"}},
    "its conditions": {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
    "its address": {"status": {"podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.9"}]}},
    "its message": {"status": {"message": "evil"}},
    "its containers": {
        "status": {
            "containerStatuses": [
                {"name": "main", "image": "evil", "imageID": "evil", "ready": True, "restartCount": 0}
            ]
        }
    },
    "its labels by way of its status": {"metadata": {"labels": {"app": "other"}}},
    "its annotations by way of its status": notes(more="evil"),
    "its finalizers by way of its status": {"metadata": {"finalizers": ["example.com/a"]}},
}


async def change(client: Client, kind: Any, patch: dict[str, Any], subresource: str = "") -> str:
    """Return why a change was refused; nothing if it was not."""
    try:
        await client.patch(kind, "web", MergePatch(patch), namespace="default", subresource=subresource)
    except Forbidden as error:
        return str(error)
    return ""


@asynccontextmanager
async def installed(directory: Path) -> AsyncIterator[tuple[Client, Client]]:
    """Run the real control plane; yield clients of an administrator and of the operator's account."""
    async with (
        RealControlPlane(directory, binaries=find_binaries()) as plane,
        connected(plane.kubeconfig) as administrator,
    ):
        await populate(administrator)
        own = with_token(plane.kubeconfig, await token_of_the_account(administrator))
        async with connected(own) as operator:
            kind, patch = REFUSED["a new annotation of a pod"]
            # The API server needs a moment until it enforces a new policy.
            async with asyncio.timeout(30):
                while not await change(operator, kind, patch):
                    await change(administrator, kind, notes(more=None))
                    await asyncio.sleep(0.5)
            yield administrator, operator


async def test_the_account_may_change_what_the_operator_writes_and_nothing_else(tmp_path: Path) -> None:
    """What the settings are for is allowed; every other change is refused by its field, for this account."""
    async with installed(tmp_path) as (administrator, operator):
        allowed = {name: await change(operator, *each) for name, each in ALLOWED.items()}
        refused = {name: await change(operator, *each) for name, each in REFUSED.items()}
        for name, patch in ALLOWED_STATUS.items():
            allowed[name] = await change(operator, Pod, patch, "status")
        for name, patch in REFUSED_STATUS.items():
            refused[name] = await change(operator, Pod, patch, "status")
        await operator.patch(Pod, "web", MergePatch({"metadata": {"annotations": COST}}), namespace="default")
        others = {name: await change(administrator, *each) for name, each in REFUSED.items()}

    assert allowed == dict.fromkeys([*ALLOWED, *ALLOWED_STATUS], "")
    assert [name for name, said in refused.items() if "the operator may not change" not in said] == []
    assert others == dict.fromkeys(REFUSED, "")


async def test_it_may_not_go_around_them(tmp_path: Path) -> None:
    """Neither by a subresource, nor by changing the policies: RBAC grants the account none of them."""
    async with installed(tmp_path) as (_, operator):
        tried: list[KubeError] = []
        for kind, name, subresource in (
            (Pod, "web", "ephemeralcontainers"),
            (Pod, "web", "resize"),
            (Deployment, "web", "scale"),
        ):
            try:
                await operator.patch(
                    kind, name, MergePatch({"spec": {}}), namespace="default", subresource=subresource
                )
            except KubeError as error:
                tried.append(error)
        policies = target_for("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy")
        with pytest.raises(Forbidden):
            await operator.delete(policies, "karpenter-pods")

    assert [type(error) for error in tried] == [Forbidden] * 3
